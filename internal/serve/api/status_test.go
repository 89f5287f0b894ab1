package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// setStatus changes the status of a config as the parts of the server do that derive it.
func (a *api) setStatus(name string, change func(*v1.IgnitionConfigStatus)) {
	a.t.Helper()
	a.change(name, func(config *v1.IgnitionConfig) { change(&config.Status) })
}

// change changes a config past the API.
func (a *api) change(name string, change func(*v1.IgnitionConfig)) {
	a.t.Helper()
	err := a.stores[kinds.IgnitionConfigs].GuaranteedUpdate(context.Background(), "/ignitionconfigs/g10/"+name,
		&v1.IgnitionConfig{}, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			change(obj.(*v1.IgnitionConfig))
			return obj, nil
		}), nil)
	if err != nil {
		a.t.Fatal(err)
	}
}

// TestDerivedStatusCannotBeForged: what the server derives is not a client's to write,
// by whatever kind of request, and what an administrator may set for a restore is.
func TestDerivedStatusCannotBeForged(t *testing.T) {
	a := start(t)
	const merge, apply, patch = "application/merge-patch+json", "application/apply-patch+yaml",
		"application/json-patch+json"
	a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	a.must(http.StatusCreated, "POST", cdroms,
		`{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"x"},"spec":{"stream":{"name":"stable"}}}`)
	a.must(http.StatusCreated, "POST", cdroms,
		`{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"file"},"spec":{"isoFile":"x.iso"}}`)
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	condition := `"conditions":[{"type":"IdentityUnique","status":"False","reason":"Forged","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]`
	for path, forged := range map[string]string{
		configs + "/x":   `{"phase":"Error","errorMessage":"forged","configHash":"sha256:00","observedGeneration":9}`,
		cdroms + "/x":    `{"phase":"Ready","sha256":"00",` + condition + `}`,
		cdroms + "/file": `{"phase":"Ready","release":"1"}`,
		hosts + "/x":     `{` + condition + `}`,
	} {
		status := func() (out map[string]any) {
			t.Helper()
			got := a.must(http.StatusOK, "GET", path, nil).object(t)
			out, _ = got.Object["status"].(map[string]any)
			return out
		}
		was := status()
		whole := a.must(http.StatusOK, "GET", path, nil).object(t)
		whole.SetResourceVersion("")
		whole.SetManagedFields(nil)
		var parsed map[string]any
		if err := json.Unmarshal([]byte(forged), &parsed); err != nil {
			t.Fatal(err)
		}
		whole.Object["status"] = parsed
		if path == hosts+"/x" {
			parsed["state"] = v1.StateAvailable
		}
		a.must(http.StatusOK, "PATCH", path+"/status", `{"status":`+forged+`}`, "Content-Type", merge)
		a.must(http.StatusOK, "PATCH", path+"/status", `[{"op":"replace","path":"/status","value":`+
			string(mustJSON(t, parsed))+`}]`, "Content-Type", patch)
		a.must(http.StatusOK, "PATCH", path+"/status?fieldManager=forger&force=true", string(mustJSON(t, whole.Object)),
			"Content-Type", apply)
		a.must(http.StatusOK, "PUT", path+"/status", string(mustJSON(t, whole.Object)))
		if now := status(); !reflect.DeepEqual(now, was) {
			t.Errorf("%s: %v, was %v", path, now, was)
		}
	}

	// A restore.
	recorded := `{"status":{"state":"Provisioned","rearmed":"2","bootCount":3,"lastBoot":"2026-01-01T00:00:00Z"}}`
	got := a.must(http.StatusOK, "PATCH", hosts+"/x/status", recorded, "Content-Type",
		merge).object(t).Object["status"].(map[string]any)
	if got["state"] != v1.StateProvisioned || got["rearmed"] != "2" || got["bootCount"] != int64(3) ||
		got["lastBoot"] != "2026-01-01T00:00:00Z" {
		t.Errorf("the recorded state of a host is not taken: %v", got)
	}
	// A state that is none would let a machine be installed again.
	refused := a.must(http.StatusUnprocessableEntity, "PATCH", hosts+"/x/status", `{"status":{"state":"provisioned"}}`,
		"Content-Type", merge)
	if text := string(refused.body); !strings.Contains(text, "status.state") || !strings.Contains(text, "Provisioned") {
		t.Errorf("a state that is none: %s", text)
	}
	if kept := a.must(http.StatusOK, "GET", hosts+"/x", nil).object(t); !reflect.DeepEqual(kept.Object["status"], any(got)) {
		t.Errorf("after the refused state: %v, was %v", kept.Object["status"], got)
	}
	// So would no state: it is kept.
	for _, none := range []string{`{"status":{"state":""}}`, `{"status":{"state":null}}`} {
		kept := a.must(http.StatusOK, "PATCH", hosts+"/x/status", none, "Content-Type", merge).object(t)
		if state, _, _ := unstructured.NestedString(kept.Object, "status", "state"); state != v1.StateProvisioned {
			t.Errorf("after %s the state is %q", none, state)
		}
	}
	got = a.must(http.StatusOK, "PATCH", cdroms+"/x/status", `{"status":{"release":"41.1"}}`, "Content-Type",
		merge).object(t).Object["status"].(map[string]any)
	if got["release"] != "41.1" {
		t.Errorf("the release that an image is pinned to is not taken: %v", got)
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
