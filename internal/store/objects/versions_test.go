package objects

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/testkit"
)

// TestUpgrades: a stored object of an earlier version is read as this program writes it, and one that needs no
// upgrade stays as it is.
func TestUpgrades(t *testing.T) {
	const old = `{"kind":"IgnitionConfig","metadata":{"name":"a","generation":9007199254740993},` +
		`"status":{"servable":[{"version":"3.0.0"},{"version":"2.2.0","blockedBy":["x"]}]}}`
	value, err := upgraded("IgnitionConfig", []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	var config v1.IgnitionConfig
	if err := json.Unmarshal(value, &config); err != nil {
		t.Fatal(err)
	}
	if s := config.Status.Servable; len(s) != 2 || s[0].Versions != "3.0.0" || s[1].Versions != "2.2.0" ||
		s[1].BlockedBy[0] != "x" || config.Generation != 9007199254740993 {
		t.Errorf("%s", value)
	}
	if again, err := upgraded("IgnitionConfig", value); again != nil || err != nil {
		t.Errorf("a second time: %s, %v", again, err)
	}
	for kind, value := range map[string]string{
		"IgnitionConfig": `{"status":{"servable":[{"versions":"3.0.0-3.6.0"}]}}`, "BareMetalHost": old, "Secret": `{`,
		"ConfigMap": `{"data":{"x":",\"storedVersion\":9"}}`,
	} {
		if newer, err := upgraded(kind, []byte(value)); newer != nil || err != nil {
			t.Errorf("%s: %s, %v", kind, newer, err)
		}
	}
}

// TestStoreOfANewerProgramIsRefused: an object of a later version keeps the bucket from being used, and the reason
// names it and says what to do.
func TestStoreOfANewerProgramIsRefused(t *testing.T) {
	js := kvtest.JetStream(t)
	host := &v1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: "h"}}
	kind := Stored(kinds.Of(kinds.BareMetalHosts))
	value, err := kind.Codec.Encode(host)
	if err != nil {
		t.Fatal(err)
	}
	run := func() (store *kvstore.Store, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		store = kvstore.New(kind, kvstore.Options{Exclusive: true})
		running.Go(func() { store.Run(ctx, js) })
		return store, func() { cancel(); running.Wait() }
	}
	store, stop := run()
	testkit.Until(t, "the bucket is made", store.Loaded)
	stop()
	kv, err := js.KeyValue(t.Context(), kind.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(value), versionMember+"2}", versionMember+"3}", 1)
	if _, err := kv.Put(t.Context(), "g10/h", []byte(newer)); err != nil {
		t.Fatal(err)
	}
	store, stop = run()
	defer stop()
	const want = "baremetalhosts g10/h: a newer glowplug has stored an object in version 3, and this one reads versions up to 2"
	testkit.Until(t, "the store says why it is not used", func() bool {
		err := store.ReadinessCheck()
		return err != nil && strings.Contains(err.Error(), want)
	})
	if store.Loaded() {
		t.Error("the bucket is used")
	}
}
