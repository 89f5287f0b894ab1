package progress

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMachinesAreForgotten(t *testing.T) {
	m := newMachines()
	now := time.Unix(1_800_000_000, 0)
	for i := range fewMachines {
		h := &snapshot.Host{Ref: snapshot.Ref{Name: string(rune(i + 1))}, UID: "u", Revision: 1}
		known, _, _ := m.step(h, decide.ImageStep, now)
		if i%2 == 0 {
			known.Logged = true // and its status has it
		}
	}
	m.step(&snapshot.Host{Ref: snapshot.Ref{Name: "new"}}, decide.ImageStep, now)
	if got := len(m.byRef); got < fewMachines/2 || got > fewMachines/2+2 {
		t.Errorf("%d are remembered", got)
	}
}

func BenchmarkServed(b *testing.B) {
	j := New(Options{})
	host := &snapshot.Host{Ref: snapshot.Ref{Namespace: "g10", Name: "server1"}, UID: "u"}
	b.ReportAllocs()
	for b.Loop() {
		j.Served(host, config)
	}
}
