package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
)

// stored reads a config with what the API does not show.
func (a *api) stored(name string) *v1.IgnitionConfig {
	a.t.Helper()
	out := &v1.IgnitionConfig{}
	if err := a.stores[kinds.IgnitionConfigs].Get(context.Background(), "/ignitionconfigs/g10/"+name,
		storage.GetOptions{ResourceVersion: "0"}, out); err != nil {
		a.t.Fatal(err)
	}
	return out
}

// TestStatusFollowsWrites: the status of a config is brought up to date with each write of
// its spec, and that is reported once it is stored.
func TestStatusFollowsWrites(t *testing.T) {
	a := start(t)
	created := a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	if len(created.warnings) > 0 || strings.Contains(string(created.body), "artifact") {
		t.Errorf("%v %s", created.warnings, created.body)
	}
	if got := a.stored("x"); got.Status.Phase != v1.PhaseReady || got.Compiled == nil {
		t.Errorf("%+v", got.Status)
	}
	labeled := config("x", goodSource)
	labeled.Labels = map[string]string{"a": "b"}
	a.must(http.StatusOK, "PUT", configs+"/x", labeled)
	bad := a.must(http.StatusOK, "PUT", configs+"/x", config("x", badSource))
	if len(bad.warnings) != 2 || !strings.Contains(bad.warnings[0], "spec.config: line 3:1") ||
		!strings.Contains(bad.warnings[1], "generation 1") {
		t.Errorf("%q", bad.warnings)
	}
	a.must(http.StatusUnprocessableEntity, "PUT", configs+"/x", manifest("IgnitionConfig", `{"type":"none"}`))
	a.must(http.StatusConflict, "POST", configs, config("x", goodSource))
	a.must(http.StatusCreated, "PATCH", configs+"/new?fieldManager=a", config("new", badSource), "Content-Type",
		"application/apply-patch+yaml")
	// The name has been used before, and the first attempt to store it meets what was deleted.
	a.must(http.StatusOK, "DELETE", configs+"/new", "")
	a.must(http.StatusCreated, "PATCH", configs+"/new?fieldManager=a", config("new", badSource), "Content-Type",
		"application/apply-patch+yaml")
	if got, want := a.status.all(), "x 1, x 2, new 1, new 1"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func TestWarningsOfAConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		config v1.IgnitionConfig
		want   []string
	}{
		{"ready", v1.IgnitionConfig{Status: v1.IgnitionConfigStatus{Phase: v1.PhaseReady}}, nil},
		{"pending", v1.IgnitionConfig{Status: v1.IgnitionConfigStatus{Phase: v1.PhasePending}}, []string{
			"spec.config: still compiling; watch status.phase",
		}},
		{"a template", v1.IgnitionConfig{
			Spec: v1.IgnitionConfigSpec{Template: true}, Status: v1.IgnitionConfigStatus{Phase: v1.PhasePending},
			Compiled: &v1.Compiled{Template: true},
		}, []string{"spec.config: a template, which is being rendered for its hosts; watch status.phase"}},
		{"an error", v1.IgnitionConfig{Status: v1.IgnitionConfigStatus{Phase: v1.PhaseError, ErrorMessage: "line 3:1: x"}},
			[]string{
				"spec.config: line 3:1: x",
			}},
		{"an error in the layers, over a good source", v1.IgnitionConfig{
			Status: v1.IgnitionConfigStatus{Phase: v1.PhaseError,
				ErrorMessage: "spec.layers: the layers go in a circle: a → b → a"},
			Compiled: &v1.Compiled{Artifact: []byte("{}"), Generation: 2},
		}, []string{
			"spec.layers: the layers go in a circle: a → b → a",
			"spec.layers: machines are still served the former config, with the source of generation 2",
		}},
		{"an error in the source, over a good one", v1.IgnitionConfig{
			Status:   v1.IgnitionConfigStatus{Phase: v1.PhaseError, ErrorMessage: "line 3:1: x"},
			Compiled: &v1.Compiled{Artifact: []byte("{}"), Generation: 2},
		}, []string{
			"spec.config: line 3:1: x",
			"spec.config: machines are still served the last good source, of generation 2",
		}},
		{"warnings", v1.IgnitionConfig{Status: v1.IgnitionConfigStatus{Phase: v1.PhaseReady, Warnings: []string{"a",
			"spec.layers: b"}}}, []string{
			"spec.config: a", "spec.layers: b",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := configWarnings(&c.config, nil, false); !slices.Equal(got, c.want) {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}

// TestErrorsOfUnchangedConfigsAreDated: the status follows a change of a layer or a host, so the
// answer to a write of the config right after that does not tell the former error as a new one.
func TestErrorsOfUnchangedConfigsAreDated(t *testing.T) {
	template := &v1.Compiled{Template: true}
	for _, c := range []struct {
		message  string
		compiled *v1.Compiled
		want     string
	}{
		{"spec.layers: there is no config b", nil, "spec.layers: when it was last merged: there is no config b"},
		{"1 of 2 hosts fails: x", template, "spec.config: when it was last rendered: 1 of 2 hosts fails: x"},
		{"spec.layers: there is no config b", template, "spec.layers: when it was last rendered: there is no config b"},
		{"line 3:1: x", nil, "spec.config: line 3:1: x"},
	} {
		config := &v1.IgnitionConfig{Compiled: c.compiled,
			Status: v1.IgnitionConfigStatus{Phase: v1.PhaseError, ErrorMessage: c.message}}
		if got := configWarnings(config, config, false); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q; want %q", got, c.want)
		}
		config.Status = v1.IgnitionConfigStatus{Phase: v1.PhaseReady, Warnings: []string{c.message}}
		if got := configWarnings(config, config, false); len(got) != 1 || got[0] != c.want {
			t.Errorf("as a warning: %q; want %q", got, c.want)
		}
	}
}

func TestClientsNeverWriteStatusOrCompilation(t *testing.T) {
	a := start(t)
	body := `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"x","generation":9},"spec":{"type":"ignition","format":"butane","config":"variant: fcos\nversion: 1.5.0\nx: 1\n"},` +
		`"status":{"phase":"Ready","configHash":"sha256:1"},"compiled":{"artifact":"eA==","hash":"sha256:1"}}`
	a.must(http.StatusCreated, "POST", configs, body)
	check := func(when string) {
		t.Helper()
		if got := a.stored("x"); got.Compiled != nil || got.Status.Phase != v1.PhaseError || got.Status.ConfigHash != "" ||
			got.Generation != 1 {
			t.Errorf("%s: %+v", when, got)
		}
	}
	check("POST")
	a.must(http.StatusOK, "PUT", configs+"/x", body)
	check("PUT")
	a.must(http.StatusOK, "PATCH", configs+"/x", `{"status":{"phase":"Ready"},"compiled":{"artifact":"eA=="}}`,
		"Content-Type", "application/merge-patch+json")
	check("PATCH")
	a.must(http.StatusBadRequest, "PATCH", configs+"/x?fieldManager=a&force=true", body, "Content-Type",
		"application/apply-patch+yaml")
	apply := body[:strings.Index(body, `,"compiled"`)] + "}"
	a.must(http.StatusOK, "PATCH", configs+"/x?fieldManager=a&force=true", apply, "Content-Type",
		"application/apply-patch+yaml")
	check("apply")
	a.must(http.StatusOK, "PUT", configs+"/x/status", strings.Replace(body, "Ready", "Error", 1))
	if a.stored("x").Compiled != nil {
		t.Error("the status endpoint takes a compilation")
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	before, events := a.stored("x"), a.status.all()
	answer := a.must(http.StatusOK, "PUT", configs+"/x?dryRun=All", config("x", badSource))
	if phase, _, _ := unstructured.NestedString(answer.object(t).Object, "status", "phase"); phase != v1.PhaseError ||
		len(answer.warnings) == 0 {
		t.Errorf("phase %q, warnings %q", phase, answer.warnings)
	}
	elsewhere := "/api/v1/namespaces/elsewhere/ignitionconfigs"
	a.must(http.StatusCreated, "POST", elsewhere+"?dryRun=All", config("y", goodSource))
	a.must(http.StatusCreated, "PATCH", elsewhere+"/y?dryRun=All&fieldManager=a", config("y", goodSource),
		"Content-Type", "application/apply-patch+yaml")
	a.must(http.StatusNotFound, "GET", elsewhere+"/y", nil)
	a.must(http.StatusNotFound, "GET", "/api/v1/namespaces/elsewhere", nil)
	if after := a.stored("x"); after.ResourceVersion != before.ResourceVersion || a.status.all() != events {
		t.Error("a dry run was written")
	}
}

// TestDryRunPromisesNothing: after the answer to a dry run nothing is compiled or rendered, so its
// warnings do not name a status that would follow.
func TestDryRunPromisesNothing(t *testing.T) {
	a := start(t)
	for _, c := range []struct {
		name, want string
		busy       bool
	}{
		{"template", "spec.config: a template, which a dry run does not render; glowplug validate renders it for the " +
			"hosts in the files", false},
		{"slow", "spec.config: a dry run does not wait until the config is compiled; glowplug validate compiles it", true},
	} {
		a.status.pending.Store(c.busy)
		body := config(c.name, goodSource)
		body.Spec.Template = !c.busy
		for _, step := range []struct {
			code          int
			method, query string
			want          string
		}{
			{http.StatusCreated, "POST", "?dryRun=All", c.want},
			{http.StatusCreated, "POST", "", "; watch status.phase"},
			{http.StatusOK, "PUT", "?dryRun=All", c.want},
			{http.StatusOK, "PUT", "", "; watch status.phase"},
		} {
			path := configs
			if step.method == "PUT" {
				path += "/" + c.name
			}
			body.Spec.Config += "# one more line\n"
			got := a.must(step.code, step.method, path+step.query, body).warnings
			if len(got) != 1 || !strings.HasSuffix(got[0], step.want) {
				t.Errorf("%s, %s%s: %q; want %q", c.name, step.method, step.query, got, step.want)
			}
		}
	}
}

// TestRefusedWriteHasNoWarning: what is not stored is not rendered, compiled or served.
func TestRefusedWriteHasNoWarning(t *testing.T) {
	a := start(t)
	body := templated("x", goodSource)
	if got := a.must(http.StatusCreated, "POST", configs, body).warnings; len(got) != 1 {
		t.Errorf("stored: %q", got)
	}
	for _, source := range []string{goodSource, badSource} {
		body.Spec.Config = source
		if got := a.must(http.StatusConflict, "POST", configs, body).warnings; len(got) > 0 {
			t.Errorf("refused: %q", got)
		}
	}
	body.ResourceVersion = "1"
	if got := a.must(http.StatusConflict, "PUT", configs+"/x", body).warnings; len(got) > 0 {
		t.Errorf("replaced in vain: %q", got)
	}
}

// TestMisspelledAnnotationsAreWarnings: an annotation that has no effect does not look like
// one that has.
func TestMisspelledAnnotationsAreWarnings(t *testing.T) {
	a := start(t)
	for path, body := range map[string]string{
		hosts: `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"a","annotations":{"glowplug.dev/rearmm":"1"}}}`,
		"/api/v1/namespaces": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","annotations":` +
			`{"glowplug.dev/reject-broken-config":"true","glowplug.dev/ipxe":"exit","example.org/rearmm":"1"}}}`,
	} {
		got := a.must(http.StatusCreated, "POST", path, body).warnings
		if len(got) != 1 || !strings.Contains(got[0], " has no effect; check the spelling; the annotations of glowplug are ") {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestWarningsOfConflicts(t *testing.T) {
	a := start(t, func(opts *Options) {
		opts.HostWarnings = func(_ model.View, h, _ *v1.BareMetalHost) []string {
			if h.Spec.IP == "" {
				return nil
			}
			return []string{"spec.ip: g10/other has " + h.Spec.IP + " too"}
		}
	})
	if got := a.must(http.StatusCreated, "POST", hosts, host("x")).warnings; len(got) != 1 ||
		got[0] != "spec.ip: g10/other has 192.168.10.10 too" {
		t.Errorf("%q", got)
	}
	if got := a.must(http.StatusOK, "PUT", hosts+"/x", manifest("BareMetalHost", `{}`)).warnings; len(got) != 0 {
		t.Errorf("%q", got)
	}
}
