package config

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd"
	"glowplug/internal/testkit"
)

// TestConfigPutIntoTheBucketByHandIsCompiled: what another program writes into the bucket
// ends as it would had it been applied, or says why not, and an event tells of it.
func TestConfigPutIntoTheBucketByHandIsCompiled(t *testing.T) {
	nats := newExternal(t, natsd.MaxPayload)
	js := nats.jetStream()
	s := startOn(t, storeOn(t, js, false))
	bucket, err := js.KeyValue(t.Context(), "IGNITIONCONFIGS")
	if err != nil {
		t.Fatal(err)
	}
	told := func(name string) bool { return strings.Contains(s.events.all(), name+" Warning WrittenByHand") }
	put := func(name, value string) {
		t.Helper()
		if _, err := bucket.PutString(t.Context(), "g10/"+name, value); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "it comes to pass", func() bool { return told(name) })
	}
	const source = `variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/NAME\n      contents: {inline: x}\n`
	object := func(name, rest string) string {
		return `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"` + name + `","namespace":"g10"},` +
			`"spec":{"type":"ignition","format":"butane","config":"` + strings.Replace(source, "NAME", name,
			1) + `"}` + rest + `}`
	}

	// One without a status.
	put("new", object("new", ""))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("new", "/etc/new") && s.stored("new").Status.Phase == v1.PhaseReady })
	if c := s.stored("new"); c.UID == "" || c.CreationTimestamp.IsZero() || c.Generation == 0 ||
		c.Status.ObservedGeneration != c.Generation {
		t.Errorf("%+v", c.ObjectMeta)
	}
	// One whose source was edited under the compilation that it had, and one whose status lies.
	s.put(over("edited", "old"))
	entry, err := bucket.Get(t.Context(), "g10/edited")
	if err != nil {
		t.Fatal(err)
	}
	put("edited", strings.Replace(string(entry.Value()), "inline: old", "inline: new", 1))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("edited", "data:,new") })
	put("forged", object("forged",
		`,"status":{"phase":"Ready","configHash":"sha256:00"},"compiled":{"artifact":"e30=","hash":"sha256:00","generation":0}`))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("forged", "/etc/forged") })
	// What cannot be used says why.
	put("broken", strings.Replace(object("broken", ""), "variant: fcos", "variant: none", 1))
	testkit.Until(t, "it comes to pass", func() bool { return s.fails("broken", "variant") })
	put("invalid", strings.Replace(object("invalid", ""), `"format":"butane"`, `"format":"toml"`, 1))
	testkit.Until(t, "it comes to pass", func() bool { return s.fails("invalid", "spec.format") })
	put("odd", strings.Replace(object("odd", `,"status":{"hosts":{"total":"many"}}`), `"name":"odd"`, `"name":7`, 1))
	// Its own writes do not count as those of another program.
	s.put(over("new", "again"))
	if n := strings.Count(s.events.all(), "new Warning WrittenByHand"); n != 1 {
		t.Errorf("%d events of one config", n)
	}
}

// TestConfigPutIntoTheBucketWhileNoServerRanIsCompiled: it is found among all others
// when a server starts.
func TestConfigPutIntoTheBucketWhileNoServerRanIsCompiled(t *testing.T) {
	js := newExternal(t, natsd.MaxPayload).jetStream()
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "IGNITIONCONFIGS"})
	if err != nil {
		t.Fatal(err)
	}
	value := `{"metadata":{"name":"x","namespace":"g10"},"spec":{"type":"ignition","format":"ignition","config":"{\"ignition\":{\"version\":\"3.4.0\"}}"}}`
	if _, err := bucket.PutString(t.Context(), "g10/x", value); err != nil {
		t.Fatal(err)
	}
	s := startOn(t, storeOn(t, js, false))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("x", "3.4.0") && s.stored("x").Status.Phase == v1.PhaseReady })
}
