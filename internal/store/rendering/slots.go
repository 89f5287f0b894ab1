package rendering

import (
	"net/netip"
	"slices"
	"sync"

	"glowplug/internal/domain/netaddr"
)

const (
	// maxStrangers bounds the renderings for machines that are no known hosts, waiting
	// and under way; maxPerSource those of one hardware address, and of one address
	// (of IPv6: of one /64).
	maxStrangers = 64
	maxPerSource = 8
)

// rank is who a rendering is for. The first goes first.
type rank uint8

const (
	// asking is a known host that waits for its config.
	asking rank = iota
	// ahead is a known host that has not asked yet.
	ahead
	// stranger is a machine that is no known host.
	stranger
	ranks
)

// source is what a stranger is counted by: a hardware address, or what its address counts as.
type source struct {
	mac  netaddr.MAC
	addr netip.Addr
}

// turn is a place in the queue for a slot.
type turn struct {
	rank rank
	// sources are those of a stranger.
	sources []source
	// given is closed when the turn has a slot, dropped when it is to have none.
	given, dropped chan struct{}
}

func newTurn(r rank) *turn {
	return &turn{rank: r, given: make(chan struct{}), dropped: make(chan struct{})}
}

// slots bound how much is rendered at a time. Strangers have one slot at most, and are
// given it only while no known host waits: a host that asks waits at most for one
// stranger, whose rendering is under way, and where there are several slots all but
// one are for hosts alone.
type slots struct {
	mu     sync.Mutex
	free   int
	queues [ranks][]*turn
	// strangers counts the turns of strangers, waiting and with a slot, and sources
	// those of each source. serving is true while a stranger has a slot.
	strangers int
	sources   map[source]int
	serving   bool
}

func newSlots(n int) *slots { return &slots{free: n, sources: map[source]int{}} }

// enter puts a turn into its queue. It is false for a stranger for whom there is no
// place.
func (s *slots) enter(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.rank == stranger && !s.admit(t) {
		return false
	}
	s.queues[t.rank] = append(s.queues[t.rank], t)
	s.pass()
	return true
}

// admit counts a stranger in, where the bounds allow it.
func (s *slots) admit(t *turn) bool {
	if s.strangers >= maxStrangers {
		return false
	}
	for _, from := range t.sources {
		if s.sources[from] >= maxPerSource {
			return false
		}
	}
	s.strangers++
	for _, from := range t.sources {
		s.sources[from]++
	}
	return true
}

// release counts a stranger out.
func (s *slots) release(t *turn) {
	if t.rank != stranger {
		return
	}
	s.strangers--
	for _, from := range t.sources {
		if s.sources[from]--; s.sources[from] == 0 {
			delete(s.sources, from)
		}
	}
}

// pass gives the free slots to those who are next.
func (s *slots) pass() {
	for s.free > 0 {
		t := s.next()
		if t == nil {
			return
		}
		s.queues[t.rank] = s.queues[t.rank][1:]
		s.free--
		s.serving = s.serving || t.rank == stranger
		close(t.given)
	}
}

// next is the turn that is to have the next slot; nil: none.
func (s *slots) next() *turn {
	for r, queue := range s.queues {
		if len(queue) > 0 && (rank(r) != stranger || !s.serving) {
			return queue[0]
		}
	}
	return nil
}

// wait waits for a slot until stop is closed or the turn is dropped; it reports whether
// the turn has a slot. The caller returns a slot with give.
func (s *slots) wait(t *turn, stop <-chan struct{}) bool {
	select {
	case <-t.given:
		return true
	case <-t.dropped:
		return false
	case <-stop:
		return !s.drop(t)
	}
}

// drop takes a turn out of its queue; it is false where the turn has a slot already.
func (s *slots) drop(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queues[t.rank], t)
	if i < 0 {
		select {
		case <-t.dropped:
			return true
		default:
			return false
		}
	}
	s.queues[t.rank] = slices.Delete(s.queues[t.rank], i, i+1)
	s.release(t)
	close(t.dropped)
	return true
}

// hurry makes the turn of a host that has not asked yet that of one that has.
func (s *slots) hurry(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.rank != ahead {
		return
	}
	t.rank = asking
	if i := slices.Index(s.queues[ahead], t); i >= 0 {
		s.queues[ahead] = slices.Delete(s.queues[ahead], i, i+1)
		s.queues[asking] = append(s.queues[asking], t)
	}
}

// give passes the slot of a turn on.
func (s *slots) give(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if t.rank == stranger {
		s.serving = false
		s.release(t)
	}
	s.pass()
}

// waiting counts the turns in the queues of some ranks.
func (s *slots) waiting(of ...rank) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range of {
		n += len(s.queues[r])
	}
	return n
}
