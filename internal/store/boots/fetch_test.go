package boots

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
)

// TestFetchesAtTheSameMoment: as many configs are served as the host may receive, also where more
// clients ask at the same moment, and each client after the first is noticed.
func TestFetchesAtTheSameMoment(t *testing.T) {
	tracker := New(Options{})
	host := &model.Host{Ref: model.Ref{Namespace: "g10", Name: "server1"}, UID: "u", Created: time.Now()}
	var served, refused, second atomic.Int64
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			client := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			req := &decide.Request{At: time.Now(), Caller: identity.Caller{Addr: client}}
			notice, closed := tracker.Fetch(req, host, model.Limits{MaxFetches: 20})
			switch {
			case closed == "":
				served.Add(1)
			case notice.Reason != decide.ReasonWindowClosed:
				t.Errorf("refused without its event: %+v", notice)
			default:
				refused.Add(1)
			}
			if notice != nil && notice.Reason == decide.ReasonSecondClient {
				second.Add(1)
			}
		})
	}
	wg.Wait()
	if served.Load() != 20 || refused.Load() != 80 || second.Load() != 19 {
		t.Errorf("%d served, %d refused, %d second clients", served.Load(), refused.Load(), second.Load())
	}
	if boots, _ := tracker.Pending(); boots != 1 {
		t.Errorf("%d boots are pending", boots)
	}
}
