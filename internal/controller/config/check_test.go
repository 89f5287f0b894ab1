package config

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/testkit"
)

// TestCheckStoresNothing: a config that is not to be stored is compiled and merged as a new one, also over a layer that
// a write would not wait for, and leaves no trace.
func TestCheckStoresNothing(t *testing.T) {
	s := start(t)
	s.put(over("base", strings.Repeat("x", maxMergedAtOnce)))
	for _, c := range []struct {
		config *v1.IgnitionConfig
		phase  string
		want   string
	}{
		{over("x", "mine", "base"), v1.PhaseReady, ""},
		{over("x", "mine", "none"), v1.PhaseError, "spec.layers: there is no config none in this namespace: x → none"},
		{over("x", "{{", "base"), v1.PhaseError, "line 6:"},
	} {
		c.config.Namespace = "g10"
		found, err := s.Check(t.Context(), c.config)
		if status := c.config.Status; err != nil || status.Phase != c.phase || !strings.HasPrefix(found.Summary(), c.want) {
			t.Errorf("%q %v %+v", found.Strings(), err, status)
		}
	}
	if config, err := s.get(t.Context(), refOf(&v1.IgnitionConfig{ObjectMeta: over("x", "").ObjectMeta})); config != nil || err != nil {
		t.Errorf("%+v %v", config, err)
	}
}

// TestCheckWaitsForAProcessor: the end of the request ends the wait, and not the compilation.
func TestCheckWaitsForAProcessor(t *testing.T) {
	release := make(chan struct{})
	s := start(t, func(opts *Options) {
		opts.Compile = func(src compile.Source) (*compile.Artifact, report.Report) { <-release; return compile.Compile(src) }
	})
	done := make(chan error)
	check := func(ctx context.Context) { _, err := s.Check(ctx, over("x", "x")); done <- err }
	for range s.compiler.most {
		go check(t.Context())
	}
	testkit.Until(t, "all processors are at work", func() bool {
		free := s.compiler.slots.TryAcquire(1)
		if free {
			s.compiler.slots.Release(1)
		}
		return !free
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	go check(ctx)
	if err := <-done; err == nil {
		t.Error("a request that is over is compiled")
	}
	close(release)
	for range s.compiler.most {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
