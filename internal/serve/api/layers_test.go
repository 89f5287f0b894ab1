package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// over is a config that writes a file, over layers.
func over(name, text string, layers ...string) *v1.IgnitionConfig {
	c := config(name, fmt.Sprintf("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/%s\n      contents: {inline: %s}\n", name, text))
	for _, layer := range layers {
		c.Spec.Layers = append(c.Spec.Layers, v1.LayerReference{Name: layer})
	}
	return c
}

// holds tells whether what a config is served as has all of the texts, and whether its
// status speaks of that.
func (a *api) holds(name string, texts ...string) bool {
	c := a.stored(name)
	if c.Compiled == nil || c.Status.ConfigHash != c.Compiled.Hash || c.Status.CompiledSize != int64(len(c.Compiled.Artifact)) {
		return false
	}
	for _, text := range texts {
		if !strings.Contains(string(c.Compiled.Artifact), text) {
			return false
		}
	}
	return true
}

func (a *api) fails(name, message string) bool {
	s := a.stored(name).Status
	return s.Phase == v1.PhaseError && strings.Contains(s.ErrorMessage, message)
}

func TestLayersAreMergedAsTheyAreWritten(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, over("base", "one"))
	if warnings := a.must(http.StatusCreated, "POST", configs, over("x", "mine", "base")).warnings; len(warnings) > 0 {
		t.Errorf("%q", warnings)
	}
	x, base := a.stored("x"), a.stored("base")
	s := x.Status
	if !a.holds("x", "/etc/base", "/etc/x") || s.Phase != v1.PhaseReady || s.CompiledGeneration != 1 || s.IgnitionVersion != "3.4.0" || s.LastCompiled == "" || len(s.Servable) != 12 {
		t.Errorf("%+v %s", s, x.Compiled.Artifact)
	}
	if len(s.Layers) != 1 || s.Layers[0] != (v1.LayerStatus{Name: "base", Hash: base.Status.ConfigHash}) {
		t.Errorf("%+v", s.Layers)
	}
	if base.Compiled.Own != nil || base.Status.Layers != nil {
		t.Error("a config without layers keeps what only one with layers needs")
	}

	// A selector alone changes nothing of it.
	selected := over("x", "mine", "base")
	selected.Spec.Selector.Default = true
	a.must(http.StatusOK, "PUT", configs+"/x", selected)
	if again := a.stored("x"); again.Status.CompiledGeneration != 2 || again.Compiled.Generation != 2 || again.Compiled.Own == nil || again.Compiled.Hash != s.ConfigHash {
		t.Errorf("%+v", again.Status)
	}
	// Without layers it is itself again.
	a.must(http.StatusOK, "PUT", configs+"/x", over("x", "mine"))
	if plain := a.stored("x"); a.holds("x", "/etc/base") || plain.Compiled.Own != nil || plain.Status.Layers != nil {
		t.Errorf("%+v", plain.Status)
	}
}

func TestChangeOfALayerReachesEveryConfigAbove(t *testing.T) {
	var compiled atomic.Int32
	a := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			compiled.Add(1)
			return compile.Compile(src)
		}
	})
	a.must(http.StatusCreated, "POST", configs, over("base", "one"))
	a.must(http.StatusCreated, "POST", configs, over("mid", "mid", "base"))
	const n = 20
	for i := range n {
		a.must(http.StatusCreated, "POST", configs, over(fmt.Sprintf("x%d", i), "top", "base", "mid"))
	}
	a.must(http.StatusCreated, "POST", configs, over("aside", "aside"))
	aside, before := a.stored("aside").ResourceVersion, compiled.Load()
	a.must(http.StatusOK, "PUT", configs+"/base", over("base", "two"))
	for i := range n {
		name := fmt.Sprintf("x%d", i)
		await(t, func() bool {
			s := a.stored(name).Status
			return a.holds(name, "data:,two", "/etc/mid", "/etc/x") && s.Phase == v1.PhaseReady && len(s.Servable) == 12 &&
				s.Layers[0].Hash == a.stored("base").Status.ConfigHash && s.Layers[1].Hash == a.stored("mid").Status.ConfigHash
		})
	}
	if got := compiled.Load() - before; got != 1 {
		t.Errorf("%d sources were compiled for a change of one", got)
	}
	if a.stored("aside").ResourceVersion != aside {
		t.Error("a config beside it was written")
	}
	// The same source again, or another label, is no change.
	versions := func() (all string) {
		for i := range n {
			all += a.stored(fmt.Sprintf("x%d", i)).ResourceVersion + " "
		}
		return all
	}
	was := versions()
	labeled := over("base", "two")
	labeled.Labels = map[string]string{"a": "b"}
	labeled.Spec.Selector.Default = true
	a.must(http.StatusOK, "PUT", configs+"/base", labeled)
	time.Sleep(50 * time.Millisecond)
	if versions() != was {
		t.Error("configs were written although their layer is the same")
	}
}

func TestLayersThatCannotBeMerged(t *testing.T) {
	a := start(t)
	answer := a.must(http.StatusCreated, "POST", configs, over("x", "mine", "base"))
	if len(answer.warnings) != 1 || answer.warnings[0] != "spec.layers: there is no config base in this namespace: x → base" {
		t.Errorf("%q", answer.warnings)
	}
	if x := a.stored("x"); !a.fails("x", "there is no config base") || len(x.Compiled.Artifact) > 0 || x.Compiled.Own == nil {
		t.Errorf("%+v", x.Status)
	}
	// A layer that is broken from the start.
	broken := over("base", "one")
	broken.Spec.Config = badSource
	a.must(http.StatusCreated, "POST", configs, broken)
	await(t, func() bool { return a.fails("x", "base has never compiled: x → base; base: line 3:1") })
	// It comes right, and so does what is above.
	a.must(http.StatusOK, "PUT", configs+"/base", over("base", "one"))
	await(t, func() bool { return a.holds("x", "/etc/base") && a.stored("x").Status.Phase == v1.PhaseReady })
	good := a.stored("x")

	// It breaks again: its last good compilation is used, with a warning.
	a.must(http.StatusOK, "PUT", configs+"/base", broken)
	await(t, func() bool { return len(a.stored("x").Status.Warnings) == 1 })
	if x := a.stored("x"); x.Status.Phase != v1.PhaseReady || x.Compiled.Hash != good.Compiled.Hash || !x.Status.Layers[0].Stale || x.Status.LastCompiled != good.Status.LastCompiled ||
		!strings.Contains(x.Status.Warnings[0], "base has an error, and its last good compilation is used; base: line 3:1") {
		t.Errorf("%+v", x.Status)
	}
	// A new source of the config itself is merged over that.
	if warnings := a.must(http.StatusOK, "PUT", configs+"/x", over("x", "more", "base")).warnings; len(warnings) != 1 || !a.holds("x", "more", "/etc/base") {
		t.Errorf("%q", warnings)
	}
	// Deleted, it is missing; what was served is served.
	was := a.stored("x")
	a.must(http.StatusOK, "DELETE", configs+"/base", nil)
	await(t, func() bool { return a.fails("x", "there is no config base") })
	if x := a.stored("x"); x.Compiled.Hash != was.Compiled.Hash || x.Status.ConfigHash != was.Compiled.Hash || len(x.Status.Layers) != 1 {
		t.Errorf("%+v", x.Status)
	}
	a.must(http.StatusCreated, "POST", configs, over("base", "new"))
	await(t, func() bool { return a.holds("x", "data:,new") && a.stored("x").Status.Phase == v1.PhaseReady })

	// A source of its own that does not compile: nothing is merged, and it is served as it was.
	bad := over("x", "mine", "base")
	bad.Spec.Config = badSource
	a.must(http.StatusOK, "PUT", configs+"/x", bad)
	a.must(http.StatusOK, "PUT", configs+"/base", over("base", "newer"))
	if x := a.stored("x"); x.Status.Phase != v1.PhaseError || x.Compiled.Own != nil || !a.holds("x", "data:,new") {
		t.Errorf("%+v", x.Status)
	}
	if all := a.events.all(); !strings.Contains(all, "x Warning CompileFailed") || !strings.Contains(all, "x Normal Compiled") {
		t.Errorf("events: %s", all)
	}
}

// A layer that fails for another reason than before is told of with that.
func TestCauseOfALayerChanges(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, over("base", "one"))
	a.must(http.StatusCreated, "POST", configs, over("mid", "mid", "base"))
	a.must(http.StatusCreated, "POST", configs, over("top", "mine", "mid"))
	await(t, func() bool { return a.stored("top").Status.Phase == v1.PhaseReady })
	warns := func(text string) func() bool {
		return func() bool { return strings.Contains(strings.Join(a.stored("top").Status.Warnings, "\n"), text) }
	}
	a.must(http.StatusOK, "DELETE", configs+"/base", nil)
	await(t, warns("there is no config base"))
	a.must(http.StatusCreated, "POST", configs, config("base", badSource))
	await(t, warns("base has never compiled"))
}

func TestCirclesOfLayers(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, over("a", "a"))
	a.must(http.StatusCreated, "POST", configs, over("b", "b", "a"))
	a.must(http.StatusCreated, "POST", configs, over("x", "x", "b"))
	if warnings := a.must(http.StatusOK, "PUT", configs+"/a", over("a", "anew", "b")).warnings; len(warnings) != 2 ||
		warnings[0] != "spec.layers: the layers go in a circle: a → b → a" || !strings.Contains(warnings[1], "last good source") {
		t.Errorf("%q", warnings)
	}
	await(t, func() bool { return a.fails("b", "the layers go in a circle: b → a → b") })
	await(t, func() bool { return len(a.stored("x").Status.Warnings) == 1 && a.stored("x").Status.Layers[0].Stale })
	if !a.holds("a", "data:,a") || a.holds("a", "anew") || !a.holds("b", "/etc/a", "/etc/b") || !a.holds("x", "/etc/a", "/etc/b", "/etc/x") {
		t.Error("what was served is not served any more")
	}
	// It comes to rest.
	time.Sleep(100 * time.Millisecond)
	was := a.stored("a").ResourceVersion + a.stored("b").ResourceVersion + a.stored("x").ResourceVersion
	time.Sleep(100 * time.Millisecond)
	if a.stored("a").ResourceVersion+a.stored("b").ResourceVersion+a.stored("x").ResourceVersion != was {
		t.Error("configs are written again and again")
	}
	a.must(http.StatusOK, "PUT", configs+"/a", over("a", "anew"))
	for _, name := range []string{"a", "b", "x"} {
		await(t, func() bool { return a.holds(name, "anew") && a.stored(name).Status.Phase == v1.PhaseReady })
	}
	if a.stored("x").Status.Warnings != nil {
		t.Errorf("%q", a.stored("x").Status.Warnings)
	}
}

func TestDepthOfLayers(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, over("l0", "bottom"))
	for i := 1; i <= 17; i++ {
		a.must(http.StatusCreated, "POST", configs, over(fmt.Sprintf("l%d", i), "x", fmt.Sprintf("l%d", i-1)))
	}
	if !a.holds("l16", "/etc/l0") || !a.fails("l17", "more than 16 layers lie under one another: l17 → l16 → l15") {
		t.Errorf("%+v", a.stored("l17").Status)
	}
	// One more at the bottom, and the top of the rest is too high.
	a.must(http.StatusCreated, "POST", configs, over("lower", "lower"))
	a.must(http.StatusOK, "PUT", configs+"/l0", over("l0", "bottom", "lower"))
	await(t, func() bool { return a.fails("l16", "more than 16 layers") && a.holds("l15", "/etc/lower") })
	a.must(http.StatusOK, "PUT", configs+"/l0", over("l0", "other"))
	await(t, func() bool { return a.holds("l16", "other") && a.stored("l16").Status.Phase == v1.PhaseReady })
	// A change goes all the way up.
	a.must(http.StatusOK, "PUT", configs+"/l17", over("l17", "x", "l15"))
	a.must(http.StatusOK, "PUT", configs+"/l0", over("l0", "last"))
	await(t, func() bool { return a.holds("l17", "data:,last") && a.holds("l16", "data:,last") })
}

func TestLayersOfTheNamespaceAlone(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", "/api/v1/namespaces/other/ignitionconfigs", over("base", "theirs"))
	a.must(http.StatusCreated, "POST", configs, over("x", "mine", "base"))
	if !a.fails("x", "there is no config base in this namespace") {
		t.Errorf("%+v", a.stored("x").Status)
	}
}

func TestLayersThatCannotBeNamed(t *testing.T) {
	a := start(t)
	var many []string
	for i := range v1.MaxLayers + 1 {
		many = append(many, fmt.Sprint("l", i))
	}
	for _, c := range []struct {
		layers []string
		want   string
	}{
		{[]string{"x"}, "spec.layers[0].name"}, {[]string{"a", "a"}, "spec.layers[1].name"}, {[]string{""}, "spec.layers[0].name"},
		{[]string{"Base"}, "spec.layers[0].name"}, {[]string{"../a"}, "spec.layers[0].name"}, {[]string{strings.Repeat("a", 300)}, "spec.layers[0].name"}, {many, "spec.layers"},
	} {
		if got := a.must(http.StatusUnprocessableEntity, "POST", configs, over("x", "x", c.layers...)).fields(t); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q: %q", c.layers, got)
		}
	}
	kickstart := over("x", "x", "base")
	kickstart.Spec.Type, kickstart.Spec.Format = v1.TypeKickstart, v1.FormatKickstart
	if got := a.must(http.StatusUnprocessableEntity, "POST", configs, kickstart).fields(t); len(got) != 1 || got[0] != "spec.layers" {
		t.Errorf("%q", got)
	}
	kickstart.Spec.Layers = nil
	kickstart.Name, kickstart.Spec.Config = "base", "text\n"
	a.must(http.StatusCreated, "POST", configs, kickstart)
	a.must(http.StatusCreated, "POST", configs, over("x", "x", "base"))
	if !a.fails("x", "base is a kickstart") {
		t.Errorf("%+v", a.stored("x").Status)
	}
}

// TestLayersThatChangedMeanwhile begins with what a server left that was stopped
// before it had merged, or another wrote that does not merge.
func TestLayersThatChangedMeanwhile(t *testing.T) {
	stores := newStores(t)
	func() {
		a := startOn(t, stores, Door{Admin: true, Admitted: true})
		a.must(http.StatusCreated, "POST", configs, over("base", "one"))
		a.must(http.StatusCreated, "POST", configs, over("x", "x", "base"))
		a.must(http.StatusCreated, "POST", configs, over("same", "x", "x"))
		if err := a.server.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	var base v1.IgnitionConfig
	ctx := context.Background()
	err := stores[IgnitionConfigs].GuaranteedUpdate(ctx, configKey("g10", "base"), &base, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		c := obj.(*v1.IgnitionConfig)
		artifact, _ := compile.Compile(Source(over("base", "two")))
		serve(c, artifact, time.Now())
		return c, nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := startOn(t, stores, Door{Admin: true, Admitted: true})
	await(t, func() bool { return a.holds("x", "data:,two") && a.holds("same", "data:,two") })
	b := startOn(t, stores, Door{Admin: true, Admitted: true}) // a second server on the same store
	a.must(http.StatusOK, "PUT", configs+"/base", over("base", "three"))
	await(t, func() bool { return b.holds("x", "data:,three") && b.holds("same", "data:,three") })
	await(t, func() bool {
		return len(b.stored("same").Status.Servable) > 0 && len(b.stored("x").Status.Servable) > 0
	})
	was := b.stored("x").ResourceVersion + b.stored("same").ResourceVersion
	c := startOn(t, stores, Door{Admin: true, Admitted: true})
	time.Sleep(100 * time.Millisecond)
	if c.stored("x").ResourceVersion+c.stored("same").ResourceVersion != was {
		t.Error("a start has written what is the same")
	}
}

// TestLayerThatIsCompiledForTheFirstTime is waited for.
func TestLayerThatIsCompiledForTheFirstTime(t *testing.T) {
	gate := make(chan struct{})
	a := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			if strings.Contains(src.Config, "/etc/base") {
				<-gate
			}
			return compile.Compile(src)
		}
	})
	a.server.compiler.patience = 50 * time.Millisecond
	a.must(http.StatusCreated, "POST", configs, over("base", "one"))
	a.must(http.StatusCreated, "POST", configs, over("x", "mine", "base"))
	if s := a.stored("x").Status; s.Phase != v1.PhasePending || s.ErrorMessage != "" {
		t.Errorf("%+v", s)
	}
	close(gate)
	await(t, func() bool { return a.holds("x", "/etc/base") && a.stored("x").Status.Phase == v1.PhaseReady })
}

// TestLargeLayersAreMergedInTheBackground: a writer does not wait for them.
func TestLargeLayersAreMergedInTheBackground(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", configs, over("base", strings.Repeat("x", 2*maxAtOnce)))
	a.must(http.StatusCreated, "POST", configs, over("x", "mine", "base"))
	await(t, func() bool {
		s := a.stored("x").Status
		return a.holds("x", "/etc/base") && s.Phase == v1.PhaseReady && len(s.Servable) == 12
	})
}
