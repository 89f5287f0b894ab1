package progress

import (
	"testing"

	"go.uber.org/goleak"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMachinesAreForgotten(t *testing.T) {
	tracker := New(Options{})
	for i := range fewMachines {
		h := &model.Host{Ref: model.Ref{Name: string(rune(i + 1))}, UID: "u", Revision: 1}
		tracker.advance(h, decide.ImageStep)
		if i%2 == 0 { // it is logged, and its status is up to date
			m := tracker.machines[h.Ref]
			m.Logged, m.queued, m.unwritten = true, false, false
		}
	}
	tracker.advance(&model.Host{Ref: model.Ref{Name: "new"}}, decide.ImageStep)
	if got := len(tracker.machines); got < fewMachines/2 || got > fewMachines/2+2 {
		t.Errorf("%d are remembered", got)
	}
}

func BenchmarkServed(b *testing.B) {
	j := New(Options{})
	host := &model.Host{Ref: model.Ref{Namespace: "g10", Name: "server1"}, UID: "u"}
	b.ReportAllocs()
	for b.Loop() {
		j.Served(host, config)
	}
}
