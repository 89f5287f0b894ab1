package config

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/testkit"
)

func TestStatusNamesWhatIsInTheWay(t *testing.T) {
	s := start(t)
	s.put(plain("x", "variant: fcos\nversion: 1.5.0\nkernel_arguments: {should_exist: [quiet]}\n"))
	testkit.Until(t, "it comes to pass", func() bool { return len(s.stored("x").Status.Servable) > 0 })
	blocked := []string{"$.kernelArguments: it is a field of spec 3.3.0 and later"}
	want := []v1.ServableVersions{
		{Versions: "2.0.0-2.4.0", BlockedBy: blocked}, {Versions: "3.0.0-3.2.0", BlockedBy: blocked},
		{Versions: "3.3.0-3.6.0"},
	}
	if got := s.stored("x").Status.Servable; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestCompiledAsItIsWritten(t *testing.T) {
	s := start(t)
	got := s.put(plain("x", goodSource))
	status := got.Status
	if status.Phase != v1.PhaseReady || status.ConfigHash != got.Compiled.Hash ||
		status.CompiledSize != int64(len(got.Compiled.Artifact)) ||
		status.LastCompiled == "" || status.ObservedGeneration != 1 || status.CompiledGeneration != 1 ||
		status.IgnitionVersion != "3.4.0" ||
		got.Compiled.Generation != 1 || status.ErrorMessage != "" {
		t.Errorf("%+v", status)
	}
	testkit.Until(t, "it comes to pass", func() bool { return len(s.stored("x").Status.Servable) > 0 })
	if all := s.stored("x").Status.Servable; len(all) != 2 || all[0].Versions != "2.0.0-2.4.0" || len(all[0].BlockedBy) > 0 ||
		all[1].Versions != "3.0.0-3.6.0" {
		t.Errorf("%+v", all)
	}

	// A selector alone is a new generation of the same compilation.
	selected := plain("x", goodSource)
	selected.Spec.Selector.Default = true
	s.put(selected)
	if again := s.stored("x"); again.Status.CompiledGeneration != 2 || again.Status.ObservedGeneration != 2 ||
		again.Compiled.Generation != 2 ||
		again.Compiled.Hash != status.ConfigHash || len(again.Status.Servable) != 2 {
		t.Errorf("%+v", again.Status)
	}

	// A source that does not compile is stored, and the last good one served.
	s.put(plain("x", badSource))
	broken := s.stored("x")
	if s := broken.Status; s.Phase != v1.PhaseError || !strings.Contains(s.ErrorMessage, "line 3:1") ||
		s.ConfigHash != got.Status.ConfigHash ||
		s.ObservedGeneration != 3 || s.CompiledGeneration != 2 || broken.Compiled.Hash != got.Compiled.Hash ||
		broken.Spec.Config != badSource {
		t.Errorf("%+v", s)
	}

	s.put(plain("never", badSource))
	if never := s.stored("never"); never.Compiled != nil || never.Status.Phase != v1.PhaseError {
		t.Errorf("%+v", never.Status)
	}
	s.put(plain("x", goodSource))
	if s.stored("x").Status.Phase != v1.PhaseReady {
		t.Error("mended, and still not ready")
	}
	if want := "x Normal Compiled, x Warning CompileFailed, never Warning CompileFailed, x Normal Compiled"; s.events.all() != want {
		t.Errorf("events: %s", s.events.all())
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
	s := start(t, slowly(gate, calls))
	s.opts.AdmissionLimit = 50 * time.Millisecond
	if phase := s.put(plain("x", goodSource)).Status.Phase; phase != v1.PhasePending {
		t.Errorf("the phase is %s", phase)
	}
	// The selector may change meanwhile; the source is the same.
	selected := plain("x", goodSource)
	selected.Spec.Selector.Default = true
	s.put(selected)
	close(gate)
	testkit.Until(t, "it comes to pass", func() bool { return s.stored("x").Status.Phase == v1.PhaseReady && s.events.all() != "" })
	if got := s.stored("x"); got.Status.CompiledGeneration != 2 || got.Compiled == nil {
		t.Errorf("%+v", got.Status)
	}
}

func TestSourceIsCompiledOnceHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, calls := make(chan struct{}), 0
		c := newCompiler(func(compile.Source) (*compile.Artifact, report.Report) {
			calls++
			<-gate
			return &compile.Artifact{}, nil
		}, nil)
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() {
				if made, err := c.run(t.Context(), compile.Source{Config: "x"}); err != nil || made.artifact == nil {
					t.Errorf("%v, %v", made, err)
				}
			})
		}
		synctest.Wait()
		close(gate)
		asking.Wait()
		if calls != 1 {
			t.Errorf("compiled %d times", calls)
		}
	})
}

func TestOutdatedResultIsDropped(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			if strings.Contains(src.Config, "slow") {
				<-gate
			}
			return compile.Compile(src)
		}
	})
	s.opts.AdmissionLimit = 50 * time.Millisecond
	s.put(plain("x", "# slow\n"+badSource))
	s.opts.AdmissionLimit = time.Minute // the good one is not Pending on a busy machine
	s.put(plain("x", goodSource))
	before := s.rest("x")
	close(gate)
	s.stop() // once the outdated one has been compiled
	if got := s.stored("x"); got.Status.Phase != v1.PhaseReady || got.ResourceVersion+" " != before {
		t.Errorf("%+v", got.Status)
	}
}

func TestPendingIsResumedByTheNextServer(t *testing.T) {
	store := newStore(t)
	left := plain("x", goodSource)
	left.Namespace, left.Generation = "g10", 1
	left.Status = v1.IgnitionConfigStatus{Phase: v1.PhasePending, ObservedGeneration: 1}
	if err := store.Create(t.Context(), "/ignitionconfigs/g10/x", left, &v1.IgnitionConfig{}, 0); err != nil {
		t.Fatal(err)
	}
	s := startOn(t, store)
	testkit.Until(t, "it comes to pass", func() bool { return s.stored("x").Status.Phase == v1.PhaseReady })
}

func TestCompilersAreBounded(t *testing.T) {
	gate, calls := make(chan struct{}), &atomic.Int32{}
	s := start(t, slowly(gate, calls))
	s.opts.AdmissionLimit = 50 * time.Millisecond
	slots := int(s.compiler.most)
	done := make(chan string)
	for i := range slots + 2 {
		go func() {
			done <- s.put(plain("x"+string(rune('a'+i)), goodSource+"#"+string(rune('a'+i)))).Status.Phase
		}()
	}
	for range slots + 2 {
		if phase := <-done; phase != v1.PhasePending {
			t.Errorf("the phase is %s", phase)
		}
	}
	testkit.Until(t, "it comes to pass", func() bool { return int(calls.Load()) >= slots })
	if int(calls.Load()) != slots {
		t.Errorf("%d compilations at a time, want %d", calls.Load(), slots)
	}
	close(gate)
	for i := range slots + 2 {
		testkit.Until(t, "it comes to pass", func() bool { return s.stored("x"+string(rune('a'+i))).Status.Phase == v1.PhaseReady })
	}
}

func TestWorkIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := start(t, func(opts *Options) {
		opts.Registerer, opts.Metrics = registry, controller.NewMetrics(registry)
	})
	s.put(plain("x", goodSource))
	s.put(plain("y", badSource))
	testkit.Until(t, "it comes to pass", func() bool { return len(s.stored("x").Status.Servable) > 0 })
	for name, want := range map[string]int{"glowplug_compile_duration_seconds": 2,
		"glowplug_controller_reconciles_total": 1} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n < want {
			t.Errorf("%s: %d series, %v; want %d", name, n, err, want)
		}
	}
}

func TestPanicOfTheCompilerIsAnError(t *testing.T) {
	s := start(t, func(opts *Options) {
		opts.Compile = func(compile.Source) (*compile.Artifact, report.Report) { panic("oops") }
	})
	if s := s.put(plain("x", goodSource)).Status; s.Phase != v1.PhaseError || !strings.Contains(s.ErrorMessage, "oops") {
		t.Errorf("%+v", s)
	}
}
