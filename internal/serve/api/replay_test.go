package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
)

// startReplay returns an API with boots, and the content of some of them.
func startReplay(t *testing.T) *api {
	t.Helper()
	a := start(t, func(o *Options) {
		o.BootContent = func(_ context.Context, name string) ([]byte, error) {
			_, hash, _ := strings.Cut(name, " ")
			switch name {
			case "config/g10/a sha256:config", "config/g11/a sha256:config", "script/g10 sha256:script":
				return []byte("the bytes of " + hash + "\x00"), nil
			case "config/g10/a sha256:broken":
				return nil, errors.New("NATS is away")
			}
			return nil, boots.ErrNotKept
		}
	})
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	for host, config := range map[string]*v1.BootConfig{
		"ignition":  {Name: "g10/a", Hash: "sha256:config", Version: "3.4.0"},
		"kickstart": {Name: "g10/a", Hash: "sha256:config"},
		"elsewhere": {Name: "g11/a", Hash: "sha256:config", Version: "3.4.0"},
		"gone":      {Name: "g10/a", Hash: "sha256:gone"},
		"broken":    {Name: "g10/a", Hash: "sha256:broken"},
		"none":      nil,
		// An unknown machine.
		"unknown_52-54-00-00-00-01": {Name: "g10/a", Hash: "sha256:config", Version: "3.4.0"},
	} {
		boot := &v1.Boot{Host: host, Number: 1, Config: config}
		if host != "none" {
			boot.Script = "sha256:script"
		}
		boot.Namespace, boot.Name, boot.UID = "g10", boots.Name(host, 1), "uid"
		put := []kvstore.Put{{Key: "g10/" + host, Object: boot}}
		if _, err := a.stores[kinds.Boots].(bootStore).bucket.PutAll(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func TestReplay(t *testing.T) {
	a := startReplay(t)
	const ignition, text = ignType, "text/plain; charset=utf-8"
	for path, want := range map[string]string{
		"ignition.1/rendered": ignition, "ignition.1/rendered?part=config": ignition, "kickstart.1/rendered": text,
		"ignition.1/rendered?part=script": text, "gone.1/rendered?part=script": text, "elsewhere.1/rendered": ignition,
		"unknown_52-54-00-00-00-01.1/rendered": ignition,
	} {
		for _, accept := range []string{"*/*", "application/json", ignType} {
			got, hash := a.must(http.StatusOK, "GET", bootsPath+"/"+path, nil, "Accept", accept), "sha256:config"
			if strings.HasSuffix(path, "script") {
				hash = "sha256:script"
			}
			if string(got.body) != "the bytes of "+hash+"\x00" || got.header.Get("Content-Type") != want ||
				got.header.Get("ETag") != `"`+hash+`"` {
				t.Errorf("%s: %q %v", path, got.body, got.header)
			}
		}
	}
	for path, want := range map[string]struct {
		code     int
		sentence string
	}{
		"one.1/rendered":              {404, `boots "one.1" not found`},
		"gone.1/rendered":             {404, "boot g10/gone.1 cannot be replayed: what its machine received is not kept: "},
		"none.1/rendered":             {404, "boot g10/none.1 cannot be replayed: its machine received no config"},
		"none.1/rendered?part=script": {404, "boot g10/none.1 cannot be replayed: its machine received no script"},
		"broken.1/rendered":           {503, "NATS is away"},
		"ignition.1/rendered?part=x":  {400, `part: "x" is neither config nor script`},
	} {
		if got := a.must(want.code, "GET", bootsPath+"/"+path, nil).status(t); !strings.Contains(got.Message, want.sentence) {
			t.Errorf("%s: %s", path, got.Message)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		a.must(http.StatusMethodNotAllowed, method, bootsPath+"/ignition.1/rendered", "{}", "Content-Type",
			"application/merge-patch+json")
	}
}

// TestReplayTakesNoHashOfAStatus: who writes the hash of another's config or script into the status of a host reads
// nothing by it, whatever the config is called.
func TestReplayTakesNoHashOfAStatus(t *testing.T) {
	a := startReplay(t)
	for i, config := range []v1.BootConfig{
		{Name: "g10/mine", Hash: "sha256:config"}, {Name: "g10/mine", Hash: "sha256:script"},
		{Name: "g10", Hash: "sha256:script"}, {Name: "script/g10", Hash: "sha256:script"},
	} {
		boot := &v1.Boot{Host: "evil", Number: int64(i), Config: &config}
		boot.Namespace, boot.Name, boot.UID = "g10", boots.Name("evil", int64(i)), "uid"
		key := "g10/evil"
		store := a.stores[kinds.Boots].(bootStore).bucket
		put := kvstore.Put{Key: key, Object: boot}
		if i > 0 {
			last, _ := kvstore.ViewOf(t.Context(), store, "")
			item, _ := last.Get(key)
			put.Expect = item.Revision
		}
		if _, err := store.PutAll(t.Context(), []kvstore.Put{put}); err != nil {
			t.Fatal(err)
		}
		got := a.must(http.StatusNotFound, "GET", bootsPath+"/"+boot.Name+"/rendered", nil).status(t)
		if !strings.Contains(got.Message, "is not kept") {
			t.Errorf("%+v: %s", config, got.Message)
		}
	}
}

// TestReplayNeedsTheRight: who may read boots may not read what the machines were given. The script needs
// boots/rendered, and the config ignitionconfigs/rendered as well, in its own namespace.
func TestReplayNeedsTheRight(t *testing.T) {
	a := startReplay(t)
	a.bindIn(rbac.View, "vic")
	a.bindIn(rbac.Edit, "ann")
	a.must(http.StatusCreated, "POST", rolesPath, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "scripts"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"boots/rendered"}}},
	})
	a.must(http.StatusCreated, "POST", roleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "sam"}, RoleRef: roleRef(rbac.KindRole, "scripts"), Subjects: users("sam"),
	})
	for name, want := range map[string][3]int{"vic": {403, 403, 403}, "ann": {200, 200, 403}, "sam": {200, 403, 403},
		"nobody": {403, 403, 403}} {
		for i, path := range []string{"ignition.1/rendered?part=script", "ignition.1/rendered", "elsewhere.1/rendered"} {
			got := a.must(want[i], "GET", bootsPath+"/"+path, nil, as(name)...)
			if want[i] != 200 && strings.Contains(string(got.body), "the bytes") {
				t.Errorf("%s reads %s: %s", name, path, got.body)
			}
		}
	}
	refused := a.must(http.StatusForbidden, "GET", bootsPath+"/elsewhere.1/rendered", nil, as("ann")...).status(t)
	if !strings.HasSuffix(refused.Message, "that needs the verb get on ignitionconfigs/rendered in the namespace g11") {
		t.Error(refused.Message)
	}
}
