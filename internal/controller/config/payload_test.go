package config

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/store/natsd"
	"glowplug/internal/testkit"
)

// startSmall starts over a NATS server that takes messages of 256 KiB.
func startSmall(t *testing.T, change ...func(*Options)) (*site, *external) {
	t.Helper()
	nats := newExternal(t, 256<<10)
	return startOn(t, storeOn(t, nats.jetStream(), false), change...), nats
}

// letters is text that cannot be compressed to speak of.
func letters(n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789__"
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(b)
}

// refused reports whether a status says that the store does not take the result, and what
// to do.
func (s *site) refused(name string) bool {
	return s.fails(name, "cannot be stored") && s.fails(name, natsd.PayloadRemedy) &&
		strings.Contains(s.events.all(), name+" Warning CompileFailed")
}

// stale reports whether machines that are served a config are told that it is an older one.
func (s *site) stale(name string) bool {
	view := s.store.snap.View()
	return view.Config(model.Ref{Namespace: "g10", Name: name}).Stale
}

// TestLayersTooLargeForTheStoreAreSaid: two layers grow until what is merged over both
// no longer fits into a message.
func TestLayersTooLargeForTheStoreAreSaid(t *testing.T) {
	s, nats := startSmall(t)
	grown := func(name string, size int) *v1.IgnitionConfig { return over(name, letters(size)) }
	for _, name := range []string{"one", "two"} {
		s.put(grown(name, 50_000))
	}
	s.put(over("top", "mine", "one", "two"))
	testkit.Until(t, "it comes to pass", func() bool { return s.stored("top").Status.Phase == v1.PhaseReady })
	was := s.stored("top")
	for _, name := range []string{"one", "two"} {
		s.put(grown(name, 105_000))
	}
	testkit.Until(t, "it comes to pass", func() bool { return s.refused("top") })
	now := s.stored("top")
	if !s.stale("top") {
		t.Error("machines are not told that it is an older one")
	}
	if now.Compiled == nil || len(now.Compiled.Artifact) == 0 || now.Status.ConfigHash != now.Compiled.Hash {
		t.Errorf("it is no longer served: %+v", now.Status)
	}
	if now.Compiled.Hash == was.Compiled.Hash && now.Status.CompiledSize != was.Status.CompiledSize {
		t.Error("the status does not describe what is served")
	}
	// Once the server takes it, it is stored without a change of the object.
	nats.setMaxPayload(natsd.MaxPayload)
	if err := nats.conn.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it comes to pass", func() bool {
		s.queue.Enqueue(advance("top")) // as after a minute
		return s.stored("top").Status.Phase == v1.PhaseReady && len(s.stored("top").Compiled.Artifact) > 200_000
	})
}

// TestSlowCompilationTooLargeForTheStoreIsSaid: a source fits into a message, and what
// it compiles to in the background does not fit beside it.
func TestSlowCompilationTooLargeForTheStoreIsSaid(t *testing.T) {
	slow := make(chan struct{})
	s, nats := startSmall(t, func(o *Options) {
		o.Compile = func(src compile.Source) (*compile.Artifact, report.Report) {
			if len(src.Config) > 25_000 {
				<-slow
			}
			return compile.Compile(src)
		}
	})
	s.opts.AdmissionLimit = 50 * time.Millisecond
	s.put(over("x", "small"))
	small := s.stored("x")
	large := over("x", letters(225_000))
	s.put(large)
	if phase := s.stored("x").Status.Phase; phase != v1.PhasePending {
		t.Fatalf("the phase is %s", phase)
	}
	close(slow)
	testkit.Until(t, "it comes to pass", func() bool { return s.refused("x") })
	if !s.stale("x") {
		t.Error("machines are not told that it is an older one")
	}
	now := s.stored("x")
	if now.Compiled == nil || now.Compiled.Hash != small.Compiled.Hash || now.Status.ConfigHash != small.Compiled.Hash ||
		now.Status.ObservedGeneration != 2 {
		t.Errorf("the last good compilation is not what is served: %+v", now.Status)
	}
	nats.setMaxPayload(natsd.MaxPayload)
	if err := nats.conn.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it comes to pass", func() bool {
		s.queue.Enqueue(advance("x"))
		return s.stored("x").Status.Phase == v1.PhaseReady
	})
}
