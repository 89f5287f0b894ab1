package kvstore

import "sync"

// sequencer feeds the mirror of an exclusive store from its own
// acknowledgements. A consumer would tell the same a little later, and would
// compete with every write for the stream's lock, which is held over an fsync.
//
// Acknowledgements come in any order and are applied in the order of revisions.
// A revision that is never acknowledged, because its write timed out, stops the
// sequence: the session then ends and the next one reads what was missed.
type sequencer struct {
	mu      sync.Mutex
	live    bool
	next    uint64
	pending map[uint64]change
}

// acked takes a write of ours that is in the bucket.
func (s *contents) acked(c change) {
	q := &s.sequencer
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == nil {
		q.pending = map[uint64]change{}
	}
	q.pending[c.rev] = c
	if q.live {
		s.applyPending()
	}
}

// goLive begins to apply acknowledgements, after the revision that the mirror
// has reached by other means. The caller then must not apply anything itself.
func (s *contents) goLive() {
	q := &s.sequencer
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = s.mirror.revision() + 1
	for rev := range q.pending {
		if rev < q.next {
			delete(q.pending, rev)
		}
	}
	q.live = true
	s.applyPending()
}

// endLive only gathers acknowledgements from here on.
func (s *contents) endLive() {
	s.sequencer.mu.Lock()
	defer s.sequencer.mu.Unlock()
	s.sequencer.live = false
}

func (s *contents) applyPending() {
	q := &s.sequencer
	for {
		c, ok := q.pending[q.next]
		if !ok {
			return
		}
		delete(q.pending, q.next)
		q.next++
		s.apply(c)
	}
}
