package rendering

import (
	"context"
	"net/netip"

	"golang.org/x/sync/semaphore"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

const (
	// maxStrangers bounds the renderings for strangers, waiting and running, and
	// maxPerSource those for one hardware address, and for one address (of IPv6: for one
	// /64).
	maxStrangers = 64
	maxPerSource = 8
)

// source is the hardware address, or the address or network, by which strangers are counted.
type source struct {
	mac  netaddr.MAC
	addr netip.Addr
}

// sourcesOf returns the sources of a stranger.
func sourcesOf(caller *identity.Caller) []source {
	sources := []source{{addr: netaddr.Source(caller.Addr)}}
	if caller.MAC != (netaddr.MAC{}) {
		sources = append(sources, source{mac: caller.MAC})
	}
	return sources
}

// slots bound the renderings that run at the same time. They are acquired in the order of
// the calls. Strangers hold at most one slot, so that a known host waits for at most one
// rendering of a stranger.
type slots struct{ all, strangers *semaphore.Weighted }

func newSlots(n int) slots {
	return slots{semaphore.NewWeighted(int64(n)), semaphore.NewWeighted(1)}
}

// acquire waits for a slot until ctx ends.
func (s *slots) acquire(ctx context.Context, stranger bool) error {
	if !stranger {
		return s.all.Acquire(ctx, 1)
	}
	if err := s.strangers.Acquire(ctx, 1); err != nil {
		return err
	}
	err := s.all.Acquire(ctx, 1)
	if err != nil {
		s.strangers.Release(1)
	}
	return err
}

func (s *slots) release(stranger bool) {
	s.all.Release(1)
	if stranger {
		s.strangers.Release(1)
	}
}

// admission counts the renderings for strangers, waiting and running, in all and by source.
// The cache's mutex guards it.
type admission struct {
	strangers int
	bySource  map[source]int
}

// admit counts a rendering if the bounds allow it, and reports whether they do.
func (a *admission) admit(sources []source) bool {
	for _, from := range sources {
		if a.strangers >= maxStrangers || a.bySource[from] >= maxPerSource {
			return false
		}
	}
	a.add(sources, 1)
	return true
}

// add adds n to the number of renderings for the sources of a stranger.
func (a *admission) add(sources []source, n int) {
	if len(sources) == 0 {
		return
	}
	a.strangers += n
	for _, from := range sources {
		if a.bySource[from] += n; a.bySource[from] == 0 {
			delete(a.bySource, from)
		}
	}
}
