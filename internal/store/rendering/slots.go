package rendering

import (
	"context"
	"net/netip"

	"golang.org/x/sync/semaphore"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

const (
	// maxStrangers bounds the renderings for machines that are no known hosts, waiting
	// and under way; maxPerSource those of one hardware address, and of one address
	// (of IPv6: of one /64).
	maxStrangers = 64
	maxPerSource = 8
)

// source is a hardware address, or an address of a network, that strangers are counted by.
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

// slots bound how much is rendered at a time. They are given in the order in which they
// are asked for, and strangers ask one after the other: a known host waits for one of
// them at most, and where there are several slots all but one are for hosts alone.
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

// admission counts the renderings for strangers, waiting and under way, in all and by
// source. Its owner holds a lock.
type admission struct {
	strangers int
	bySource  map[source]int
}

// admit counts a rendering in where the bounds allow it, and reports whether they do.
func (a *admission) admit(sources []source) bool {
	for _, from := range sources {
		if a.strangers >= maxStrangers || a.bySource[from] >= maxPerSource {
			return false
		}
	}
	a.add(sources, 1)
	return true
}

// add counts the rendering of a stranger in or out.
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
