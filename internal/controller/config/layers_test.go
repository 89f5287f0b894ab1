package config

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/testkit"
)

// holds reports whether what a config is served as has all of the texts, and whether its
// status speaks of that.
func (s *site) holds(name string, texts ...string) bool {
	c := s.stored(name)
	if c.Compiled == nil || c.Status.ConfigHash != c.Compiled.Hash ||
		c.Status.CompiledSize != int64(len(c.Compiled.Artifact)) {
		return false
	}
	for _, text := range texts {
		if !strings.Contains(string(c.Compiled.Artifact), text) {
			return false
		}
	}
	return true
}

func (s *site) fails(name, message string) bool {
	status := s.stored(name).Status
	return status.Phase == v1.PhaseError && strings.Contains(status.ErrorMessage, message)
}

func TestLayersAreMergedAsTheyAreWritten(t *testing.T) {
	s := start(t)
	s.put(over("base", "one"))
	x, base := s.put(over("x", "mine", "base")), s.stored("base")
	status := x.Status
	if !s.holds("x", "/etc/base", "/etc/x") || status.Phase != v1.PhaseReady || status.CompiledGeneration != 1 ||
		status.IgnitionVersion != "3.4.0" || status.LastCompiled == "" {
		t.Errorf("%+v %s", s, x.Compiled.Artifact)
	}
	if len(status.Layers) != 1 || status.Layers[0] != (v1.LayerStatus{Name: "base", Hash: base.Status.ConfigHash}) {
		t.Errorf("%+v", status.Layers)
	}
	if base.Compiled.Own != nil || base.Status.Layers != nil {
		t.Error("a config without layers keeps what only one with layers needs")
	}

	// A selector alone changes nothing of it.
	selected := over("x", "mine", "base")
	selected.Spec.Selector.Default = true
	s.put(selected)
	if again := s.stored("x"); again.Status.CompiledGeneration != 2 || again.Compiled.Generation != 2 ||
		again.Compiled.Own == nil || again.Compiled.Hash != status.ConfigHash {
		t.Errorf("%+v", again.Status)
	}
	// Without layers it is itself again.
	s.put(over("x", "mine"))
	if plain := s.stored("x"); s.holds("x", "/etc/base") || plain.Compiled.Own != nil || plain.Status.Layers != nil {
		t.Errorf("%+v", plain.Status)
	}
}

func TestChangeOfALayerReachesEveryConfigAbove(t *testing.T) {
	var compiled atomic.Int32
	s := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			compiled.Add(1)
			return compile.Compile(src)
		}
	})
	s.put(over("base", "one"))
	s.put(over("mid", "mid", "base"))
	const n = 20
	for i := range n {
		s.put(over(fmt.Sprintf("x%d", i), "top", "base", "mid"))
	}
	s.put(over("aside", "aside"))
	aside, before := s.rest("aside"), compiled.Load()
	s.put(over("base", "two"))
	for i := range n {
		name := fmt.Sprintf("x%d", i)
		testkit.Until(t, "it comes to pass", func() bool {
			status := s.stored(name).Status
			return s.holds(name, "data:,two", "/etc/mid", "/etc/x") && status.Phase == v1.PhaseReady &&
				len(status.Servable) > 0 &&
				status.Layers[0].Hash == s.stored("base").Status.ConfigHash &&
				status.Layers[1].Hash == s.stored("mid").Status.ConfigHash
		})
	}
	if got := compiled.Load() - before; got != 1 {
		t.Errorf("%d sources were compiled for a change of one", got)
	}
	if s.stored("aside").ResourceVersion+" " != aside {
		t.Error("a config beside it was written")
	}
	// The same source again, or another label, is no change.
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("x%d", i))
	}
	was := s.rest(names...)
	labeled := over("base", "two")
	labeled.Labels = map[string]string{"a": "b"}
	labeled.Spec.Selector.Default = true
	s.put(labeled)
	if s.rest(names...) != was {
		t.Error("configs were written although their layer is the same")
	}
}

func TestLayersThatCannotBeMerged(t *testing.T) {
	s := start(t)
	if message := s.put(over("x", "mine",
		"base")).Status.ErrorMessage; message != "spec.layers: there is no config base in this namespace: x → base" {
		t.Errorf("%q", message)
	}
	if x := s.stored("x"); !s.fails("x", "there is no config base") || len(x.Compiled.Artifact) > 0 ||
		x.Compiled.Own == nil {
		t.Errorf("%+v", x.Status)
	}
	// A layer that is broken from the start.
	broken := over("base", "one")
	broken.Spec.Config = badSource
	s.put(broken)
	testkit.Until(t, "it comes to pass", func() bool { return s.fails("x", "base has no compiled result: x → base; base: line 3:1") })
	// It comes right, and so does what is above.
	s.put(over("base", "one"))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("x", "/etc/base") && s.stored("x").Status.Phase == v1.PhaseReady })
	good := s.stored("x")

	// It breaks again: its last good compilation is used, with a warning.
	s.put(broken)
	testkit.Until(t, "it comes to pass", func() bool { return len(s.stored("x").Status.Warnings) == 1 })
	if x := s.stored("x"); x.Status.Phase != v1.PhaseReady || x.Compiled.Hash != good.Compiled.Hash ||
		!x.Status.Layers[0].Stale || x.Status.LastCompiled != good.Status.LastCompiled ||
		!strings.Contains(x.Status.Warnings[0], "base has an error, and its last good compilation is used; base: line 3:1") {
		t.Errorf("%+v", x.Status)
	}
	// A new source of the config itself is merged over that.
	if warnings := s.put(over("x", "more", "base")).Status.Warnings; len(warnings) != 1 ||
		!s.holds("x", "more", "/etc/base") {
		t.Errorf("%q", warnings)
	}
	// Deleted, it is missing; what was served is served.
	was := s.stored("x")
	s.delete("base")
	testkit.Until(t, "it comes to pass", func() bool { return s.fails("x", "there is no config base") })
	if x := s.stored("x"); x.Compiled.Hash != was.Compiled.Hash || x.Status.ConfigHash != was.Compiled.Hash ||
		len(x.Status.Layers) != 1 {
		t.Errorf("%+v", x.Status)
	}
	s.put(over("base", "new"))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("x", "data:,new") && s.stored("x").Status.Phase == v1.PhaseReady })

	// A source of its own that does not compile: nothing is merged, and it is served as it was.
	bad := over("x", "mine", "base")
	bad.Spec.Config = badSource
	s.put(bad)
	s.put(over("base", "newer"))
	if x := s.stored("x"); x.Status.Phase != v1.PhaseError || x.Compiled.Own != nil || !s.holds("x", "data:,new") {
		t.Errorf("%+v", x.Status)
	}
	if all := s.events.all(); !strings.Contains(all, "x Warning CompileFailed") ||
		!strings.Contains(all, "x Normal Compiled") {
		t.Errorf("events: %s", all)
	}
}

// A layer that fails for another reason than before is told of with that.
func TestCauseOfALayerChanges(t *testing.T) {
	s := start(t)
	s.put(over("base", "one"))
	s.put(over("mid", "mid", "base"))
	s.put(over("top", "mine", "mid"))
	testkit.Until(t, "it comes to pass", func() bool { return s.stored("top").Status.Phase == v1.PhaseReady })
	warns := func(text string) func() bool {
		return func() bool { return strings.Contains(strings.Join(s.stored("top").Status.Warnings, "\n"), text) }
	}
	s.delete("base")
	testkit.Until(t, "it comes to pass", warns("there is no config base"))
	s.put(plain("base", badSource))
	testkit.Until(t, "it comes to pass", warns("base has no compiled result"))
}

func TestCirclesOfLayers(t *testing.T) {
	s := start(t)
	s.put(over("a", "a"))
	s.put(over("b", "b", "a"))
	s.put(over("x", "x", "b"))
	if message := s.put(over("a", "anew",
		"b")).Status.ErrorMessage; message != "spec.layers: the layers go in a circle: a → b → a" {
		t.Errorf("%q", message)
	}
	testkit.Until(t, "it comes to pass", func() bool { return s.fails("b", "the layers go in a circle: b → a → b") })
	testkit.Until(t, "it comes to pass", func() bool { return len(s.stored("x").Status.Warnings) == 1 && s.stored("x").Status.Layers[0].Stale })
	if !s.holds("a", "data:,a") || s.holds("a", "anew") || !s.holds("b", "/etc/a", "/etc/b") ||
		!s.holds("x", "/etc/a", "/etc/b", "/etc/x") {
		t.Error("what was served is not served any more")
	}
	s.rest("a", "b", "x")
	s.put(over("a", "anew"))
	for _, name := range []string{"a", "b", "x"} {
		testkit.Until(t, "it comes to pass", func() bool { return s.holds(name, "anew") && s.stored(name).Status.Phase == v1.PhaseReady })
	}
	if s.stored("x").Status.Warnings != nil {
		t.Errorf("%q", s.stored("x").Status.Warnings)
	}
}

func TestDepthOfLayers(t *testing.T) {
	s := start(t)
	s.put(over("l0", "bottom"))
	for i := 1; i <= 17; i++ {
		s.put(over(fmt.Sprintf("l%d", i), "x", fmt.Sprintf("l%d", i-1)))
	}
	if !s.holds("l16", "/etc/l0") || !s.fails("l17", "more than 16 layers lie under one another: l17 → l16 → l15") {
		t.Errorf("%+v", s.stored("l17").Status)
	}
	// One more at the bottom, and the top of the rest is too high.
	s.put(over("lower", "lower"))
	s.put(over("l0", "bottom", "lower"))
	testkit.Until(t, "it comes to pass", func() bool { return s.fails("l16", "more than 16 layers") && s.holds("l15", "/etc/lower") })
	s.put(over("l0", "other"))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("l16", "other") && s.stored("l16").Status.Phase == v1.PhaseReady })
	// A change goes all the way up.
	s.put(over("l17", "x", "l15"))
	s.put(over("l0", "last"))
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("l17", "data:,last") && s.holds("l16", "data:,last") })
}

func TestLayersOfTheNamespaceAlone(t *testing.T) {
	s := start(t)
	theirs := over("base", "theirs")
	theirs.Namespace = "other"
	s.put(theirs)
	s.put(over("x", "mine", "base"))
	if !s.fails("x", "there is no config base in this namespace") {
		t.Errorf("%+v", s.stored("x").Status)
	}
}

func TestLayerOfAnotherType(t *testing.T) {
	s := start(t)
	kickstart := plain("base", "text\n")
	kickstart.Spec.Type, kickstart.Spec.Format = v1.TypeKickstart, v1.FormatKickstart
	s.put(kickstart)
	s.put(over("x", "x", "base"))
	if !s.fails("x", "base is a kickstart") {
		t.Errorf("%+v", s.stored("x").Status)
	}
}

// TestLayersThatChangedMeanwhile begins with what a server left that was stopped
// before it had merged, or another wrote that does not merge.
func TestLayersThatChangedMeanwhile(t *testing.T) {
	store := newStore(t)
	former := startOn(t, store)
	former.put(over("base", "one"))
	former.put(over("x", "x", "base"))
	former.put(over("same", "x", "x"))
	former.stop()
	_, err := former.update(t.Context(), advance("base").Ref, func(config *v1.IgnitionConfig) error {
		artifact, _ := compile.Compile(source(over("base", "two")))
		setServed(config, artifact, time.Now(), false)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := startOn(t, store)
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("x", "data:,two") && s.holds("same", "data:,two") })
	b := startOn(t, store) // a second server on the same store
	s.put(over("base", "three"))
	testkit.Until(t, "it comes to pass", func() bool { return b.holds("x", "data:,three") && b.holds("same", "data:,three") })
	testkit.Until(t, "it comes to pass", func() bool {
		return len(b.stored("same").Status.Servable) > 0 && len(b.stored("x").Status.Servable) > 0
	})
	was := b.rest("x", "same")
	if startOn(t, store).rest("x", "same") != was {
		t.Error("a start has written what is the same")
	}
}

// TestLayerThatIsCompiledForTheFirstTime is waited for.
func TestLayerThatIsCompiledForTheFirstTime(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			if strings.Contains(src.Config, "/etc/base") {
				<-gate
			}
			return compile.Compile(src)
		}
	})
	s.opts.AdmissionLimit = 50 * time.Millisecond
	s.put(over("base", "one"))
	s.put(over("x", "mine", "base"))
	if s := s.stored("x").Status; s.Phase != v1.PhasePending || s.ErrorMessage != "" {
		t.Errorf("%+v", s)
	}
	close(gate)
	testkit.Until(t, "it comes to pass", func() bool { return s.holds("x", "/etc/base") && s.stored("x").Status.Phase == v1.PhaseReady })
}

// TestLargeLayersAreMergedInTheBackground: a writer does not wait for them.
func TestLargeLayersAreMergedInTheBackground(t *testing.T) {
	s := start(t)
	s.put(over("base", strings.Repeat("x", 2*maxMergedAtOnce)))
	s.put(over("x", "mine", "base"))
	testkit.Until(t, "it comes to pass", func() bool {
		status := s.stored("x").Status
		return s.holds("x", "/etc/base") && status.Phase == v1.PhaseReady && len(status.Servable) > 0
	})
}

// TestConfidentialArtifacts: what machines are served of a confidential source, or over a confidential layer, stays
// confidential as long as it is served.
func TestConfidentialArtifacts(t *testing.T) {
	s := start(t)
	expect := func(step, name string, want bool) {
		t.Helper()
		testkit.Until(t, "it comes to pass", func() bool { return s.stored(name).Compiled.Confidential == want })
		if got := s.stored(name).Compiled.Confidential; got != want {
			t.Errorf("%s: %s is confidential: %t", step, name, got)
		}
	}
	secret := over("secret", "s3cr3t")
	secret.Spec.Confidential = true
	s.put(secret)
	s.put(over("mid", "x", "secret"))
	s.put(over("top", "x", "mid"))
	for _, name := range []string{"secret", "mid", "top"} {
		expect("merged", name, true)
	}
	broken := over("top", "x")
	broken.Spec.Config = "variant: nonsense\n"
	s.put(broken)
	expect("the former merge is served", "top", true)
	s.put(over("top", "x"))
	expect("a source of its own", "top", false)
	s.put(over("secret", "s3cr3t"))
	expect("an open layer with the same bytes", "mid", false)
	s.put(secret)
	expect("confidential again", "mid", true)
	template := templated("template", "variant: fcos\nversion: 1.5.0\n# {{ .Name }} s3cr3t\n")
	template.Spec.Confidential = true
	s.put(template)
	expect("a template", "template", true)
	s.put(templated("template", "{{ .Nonsense"))
	testkit.Until(t, "it comes to pass", func() bool { return s.stored("template").Status.ErrorMessage != "" })
	expect("the former template is served", "template", true)
}
