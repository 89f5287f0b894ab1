package hostconfig

import (
	"slices"
	"sync"
)

// slots bound how much is rendered at a time. Who is urgent goes first.
type slots struct {
	mu             sync.Mutex
	free           int
	urgent, others []*turn
}

// turn is a place in the queue for a slot.
type turn struct {
	urgent bool
	// given is closed when the turn has a slot.
	given chan struct{}
}

func newSlots(n int) *slots { return &slots{free: n} }

func newTurn(urgent bool) *turn { return &turn{urgent: urgent, given: make(chan struct{})} }

// take waits for a slot until stop is closed; it tells whether there is one, which
// is to be given back.
func (s *slots) take(t *turn, stop <-chan struct{}) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	if t.urgent {
		s.urgent = append(s.urgent, t)
	} else {
		s.others = append(s.others, t)
	}
	s.mu.Unlock()
	select {
	case <-t.given:
		return true
	case <-stop:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.given: // at the same moment
		return true
	default:
	}
	gone := func(o *turn) bool { return o == t }
	s.urgent, s.others = slices.DeleteFunc(s.urgent, gone), slices.DeleteFunc(s.others, gone)
	return false
}

// hurry makes a turn urgent.
func (s *slots) hurry(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.urgent {
		return
	}
	t.urgent = true
	if i := slices.Index(s.others, t); i >= 0 {
		s.others = slices.Delete(s.others, i, i+1)
		s.urgent = append(s.urgent, t)
	}
}

// give passes a slot on.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := &s.urgent
	if len(*queue) == 0 {
		queue = &s.others
	}
	if len(*queue) == 0 {
		s.free++
		return
	}
	close((*queue)[0].given)
	*queue = (*queue)[1:]
}
