package api

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// stored reads a config with what the API does not show.
func (a *api) stored(name string) *v1.IgnitionConfig {
	a.t.Helper()
	out := &v1.IgnitionConfig{}
	if err := a.stores[IgnitionConfigs].Get(context.Background(), configKey("g10", name), storage.GetOptions{ResourceVersion: "0"}, out); err != nil {
		a.t.Fatal(err)
	}
	return out
}

func TestStatusNamesWhatIsInTheWay(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, config("x", "variant: fcos\nversion: 1.5.0\nkernel_arguments: {should_exist: [quiet]}\n"))
	for _, form := range a.stored("x").Status.Servable {
		free := len(form.BlockedBy) == 0
		if free != (form.Version >= "3.3.0") || !free && !strings.HasPrefix(form.BlockedBy[0], "$.kernelArguments: spec "+form.Version+" has no such field") {
			t.Errorf("%+v", form)
		}
	}
}

func TestCompiledAsItIsWritten(t *testing.T) {
	a := start(t)
	created := a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	if len(created.warnings) > 0 || strings.Contains(string(created.body), "artifact") {
		t.Errorf("%v %s", created.warnings, created.body)
	}
	got := a.stored("x")
	s := got.Status
	if s.Phase != v1.PhaseReady || s.ConfigHash != got.Compiled.Hash || s.CompiledSize != int64(len(got.Compiled.Artifact)) || s.LastCompiled == "" ||
		s.ObservedGeneration != 1 || s.CompiledGeneration != 1 || s.IgnitionVersion != "3.4.0" || got.Compiled.Generation != 1 || s.ErrorMessage != "" {
		t.Errorf("%+v", s)
	}
	if len(s.Servable) != 12 || s.Servable[0].Version != "2.0.0" || len(s.Servable[0].BlockedBy) > 0 || s.Servable[11].Version != "3.6.0" {
		t.Errorf("%+v", s.Servable)
	}

	// A selector alone is a new generation of the same compilation.
	selected := config("x", goodSource)
	selected.Spec.Selector.Default = true
	a.must(http.StatusOK, "PUT", configs+"/x", selected)
	if again := a.stored("x"); again.Status.CompiledGeneration != 2 || again.Status.ObservedGeneration != 2 || again.Compiled.Generation != 2 || again.Compiled.Hash != s.ConfigHash {
		t.Errorf("%+v", again.Status)
	}

	// A source that does not compile is stored, and the last good one served.
	bad := a.must(http.StatusOK, "PUT", configs+"/x", config("x", badSource))
	if len(bad.warnings) != 2 || !strings.Contains(bad.warnings[0], "spec.config: line 3:1") || !strings.Contains(bad.warnings[1], "generation 2") {
		t.Errorf("%q", bad.warnings)
	}
	broken := a.stored("x")
	if s := broken.Status; s.Phase != v1.PhaseError || !strings.Contains(s.ErrorMessage, "line 3:1") || s.ConfigHash != got.Status.ConfigHash ||
		s.ObservedGeneration != 3 || s.CompiledGeneration != 2 || broken.Compiled.Hash != got.Compiled.Hash || broken.Spec.Config != badSource {
		t.Errorf("%+v", s)
	}

	never := a.must(http.StatusCreated, "POST", configs, config("never", badSource))
	if len(never.warnings) != 1 || a.stored("never").Compiled != nil {
		t.Errorf("%q", never.warnings)
	}
	a.must(http.StatusOK, "PUT", configs+"/x", config("x", goodSource))
	if a.stored("x").Status.Phase != v1.PhaseReady {
		t.Error("mended, and still not ready")
	}
	if want := "x Normal Compiled, x Warning CompileFailed, never Warning CompileFailed, x Normal Compiled"; a.events.all() != want {
		t.Errorf("events: %s", a.events.all())
	}
}

func TestClientsNeverWriteStatusOrCompilation(t *testing.T) {
	a := start(t)
	body := `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"x","generation":9},"spec":{"type":"ignition","format":"butane","config":"variant: fcos\nversion: 1.5.0\nx: 1\n"},` +
		`"status":{"phase":"Ready","configHash":"sha256:1"},"compiled":{"artifact":"eA==","hash":"sha256:1"}}`
	a.must(http.StatusCreated, "POST", configs, body)
	check := func(when string) {
		t.Helper()
		if got := a.stored("x"); got.Compiled != nil || got.Status.Phase != v1.PhaseError || got.Status.ConfigHash != "" || got.Generation != 1 {
			t.Errorf("%s: %+v", when, got)
		}
	}
	check("POST")
	a.must(http.StatusOK, "PUT", configs+"/x", body)
	check("PUT")
	a.must(http.StatusOK, "PATCH", configs+"/x", `{"status":{"phase":"Ready"},"compiled":{"artifact":"eA=="}}`, "Content-Type", "application/merge-patch+json")
	check("PATCH")
	a.must(http.StatusBadRequest, "PATCH", configs+"/x?fieldManager=a&force=true", body, "Content-Type", "application/apply-patch+yaml")
	apply := body[:strings.Index(body, `,"compiled"`)] + "}"
	a.must(http.StatusOK, "PATCH", configs+"/x?fieldManager=a&force=true", apply, "Content-Type", "application/apply-patch+yaml")
	check("apply")
	a.must(http.StatusOK, "PUT", configs+"/x/status", strings.Replace(body, "Ready", "Error", 1))
	if a.stored("x").Compiled != nil {
		t.Error("the status endpoint takes a compilation")
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	before, events := a.stored("x"), a.events.all()
	answer := a.must(http.StatusOK, "PUT", configs+"/x?dryRun=All", config("x", badSource))
	if phase, _, _ := unstructured.NestedString(answer.object(t).Object, "status", "phase"); phase != v1.PhaseError || len(answer.warnings) == 0 {
		t.Errorf("phase %q, warnings %q", phase, answer.warnings)
	}
	elsewhere := "/api/v1/namespaces/elsewhere/ignitionconfigs"
	a.must(http.StatusCreated, "POST", elsewhere+"?dryRun=All", config("y", goodSource))
	a.must(http.StatusCreated, "PATCH", elsewhere+"/y?dryRun=All&fieldManager=a", config("y", goodSource), "Content-Type", "application/apply-patch+yaml")
	a.must(http.StatusNotFound, "GET", elsewhere+"/y", nil)
	a.must(http.StatusNotFound, "GET", "/api/v1/namespaces/elsewhere", nil)
	if after := a.stored("x"); after.ResourceVersion != before.ResourceVersion || a.events.all() != events {
		t.Error("a dry run was written")
	}
}

// slowly is a compiler that waits for gate.
func slowly(gate chan struct{}, calls *atomic.Int32) func(*Options) {
	return func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			calls.Add(1)
			<-gate
			return compile.Compile(src)
		}
	}
}

func TestSlowSourceIsFinishedInTheBackground(t *testing.T) {
	gate, calls := make(chan struct{}), &atomic.Int32{}
	a := start(t, slowly(gate, calls))
	a.server.compiler.patience = 50 * time.Millisecond
	answer := a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	if len(answer.warnings) != 1 || a.stored("x").Status.Phase != v1.PhasePending {
		t.Errorf("%q", answer.warnings)
	}
	// The selector may change meanwhile; the source is the same.
	selected := config("x", goodSource)
	selected.Spec.Selector.Default = true
	a.must(http.StatusOK, "PUT", configs+"/x", selected)
	close(gate)
	await(t, func() bool { return a.stored("x").Status.Phase == v1.PhaseReady })
	if got := a.stored("x"); got.Status.CompiledGeneration != 2 || got.Compiled == nil || a.events.all() == "" {
		t.Errorf("%+v", got.Status)
	}
	if calls.Load() != 1 {
		t.Errorf("compiled %d times", calls.Load())
	}
}

func TestOutdatedResultIsDropped(t *testing.T) {
	gate := make(chan struct{})
	a := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			if strings.Contains(src.Config, "slow") {
				<-gate
			}
			return compile.Compile(src)
		}
	})
	a.server.compiler.patience = 50 * time.Millisecond
	a.must(http.StatusCreated, "POST", configs, config("x", "# slow\n"+badSource))
	a.server.compiler.patience = time.Minute // the good one is not Pending on a busy machine
	a.must(http.StatusOK, "PUT", configs+"/x", config("x", goodSource))
	before := a.stored("x").ResourceVersion
	close(gate)
	await(t, func() bool { return a.server.compiler.find(Source(config("x", "# slow\n"+badSource))) == nil })
	if got := a.stored("x"); got.Status.Phase != v1.PhaseReady || got.ResourceVersion != before {
		t.Errorf("%+v", got.Status)
	}
}

func TestPendingIsResumedByTheNextServer(t *testing.T) {
	stores := newStores(t)
	left := config("x", goodSource)
	left.Namespace, left.Generation = "g10", 1
	left.Status = v1.IgnitionConfigStatus{Phase: v1.PhasePending, ObservedGeneration: 1}
	if err := stores[IgnitionConfigs].Create(t.Context(), configKey("g10", "x"), left, &v1.IgnitionConfig{}, 0); err != nil {
		t.Fatal(err)
	}
	a := startOn(t, stores, Door{Admin: true, Admitted: true})
	await(t, func() bool { return a.stored("x").Status.Phase == v1.PhaseReady })
}

func TestCompilersAreBounded(t *testing.T) {
	gate, calls := make(chan struct{}), &atomic.Int32{}
	a := start(t, slowly(gate, calls))
	a.server.compiler.patience = 50 * time.Millisecond
	slots := cap(a.server.compiler.slots)
	done := make(chan int)
	for i := range slots + 2 {
		go func() {
			done <- a.do("POST", configs, config("x"+string(rune('a'+i)), goodSource+"#"+string(rune('a'+i)))).code
		}()
	}
	for range slots + 2 {
		if code := <-done; code != http.StatusCreated {
			t.Errorf("%d", code)
		}
	}
	await(t, func() bool { return int(calls.Load()) >= slots })
	if int(calls.Load()) != slots {
		t.Errorf("%d compilations at a time, want %d", calls.Load(), slots)
	}
	close(gate)
	for i := range slots + 2 {
		await(t, func() bool { return a.stored("x"+string(rune('a'+i))).Status.Phase == v1.PhaseReady })
	}
}

func TestPanicOfTheCompilerIsAnError(t *testing.T) {
	a := start(t, func(opts *Options) {
		opts.Compile = func(compile.Source) (*compile.Artifact, report.Report) { panic("oops") }
	})
	if answer := a.must(http.StatusCreated, "POST", configs, config("x", goodSource)); len(answer.warnings) != 1 || !strings.Contains(answer.warnings[0], "oops") {
		t.Errorf("%q", answer.warnings)
	}
}

func TestWarningsOfConflicts(t *testing.T) {
	a := start(t, func(opts *Options) {
		opts.Conflicts = func(h *v1.BareMetalHost) []string {
			if h.Spec.IP == "" {
				return nil
			}
			return []string{"spec.ip: g10/other has " + h.Spec.IP + " too"}
		}
	})
	if got := a.must(http.StatusCreated, "POST", hosts, host("x")).warnings; len(got) != 1 || got[0] != "spec.ip: g10/other has 192.168.10.10 too" {
		t.Errorf("%q", got)
	}
	if got := a.must(http.StatusOK, "PUT", hosts+"/x", manifest("BareMetalHost", `{}`)).warnings; len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func TestCodec(t *testing.T) {
	original := config("x", goodSource)
	original.Compiled = &v1.Compiled{Artifact: []byte("{}"), Hash: "sha256:1", Generation: 3}
	value, err := configCodec{}.Encode(original)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"apiVersion":"v1"`, `"kind":"IgnitionConfig"`, `"compiled":{"artifact":"e30="`} {
		if !strings.Contains(string(value), want) {
			t.Errorf("%s lacks %s", value, want)
		}
	}
	into := config("old", "old")
	into.Spec.Selector.Default = true
	if err := (configCodec{}).Decode(value, into); err != nil {
		t.Fatal(err)
	}
	if again, err := (configCodec{}).Encode(into); err != nil || string(again) != string(value) {
		t.Errorf("%v: %s, was %s", err, again, value)
	}
	if into.Kind != "" || into.Compiled.Generation != 3 {
		t.Errorf("%+v", into)
	}
}
