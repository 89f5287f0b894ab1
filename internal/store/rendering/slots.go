package rendering

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// class is for whom a rendering is.
type class int

const (
	forHost class = iota
	forStranger
	// forViewer is for a client of the API, which waits for all machines.
	forViewer
)

// slots bound the renderings that run at the same time: of the templates of a namespace as many as there are
// processors, and of all namespaces twice as many, so that a namespace whose templates are slow leaves room for the
// others. The next slot is that of the namespace that has the fewest, then of that whose last one is longest ago;
// within a namespace they are acquired in the order of the calls. Strangers hold at most one slot, so that a known
// host waits for at most one rendering of a stranger, and so do viewers.
type slots struct {
	each               int
	strangers, viewers *semaphore.Weighted

	mu      sync.Mutex
	running int
	calls   uint64
	shares  map[string]*share // of the namespaces with a rendering that waits or runs
}

// share has the renderings of a namespace.
type share struct {
	running int
	last    uint64     // the call that was granted last
	waiting [2][]*call // of machines, and of viewers
}

// call is a rendering that waits for a slot.
type call struct {
	number  uint64
	granted chan struct{}
}

func newSlots(each int) *slots {
	return &slots{
		each: each, strangers: semaphore.NewWeighted(1), viewers: semaphore.NewWeighted(1), shares: map[string]*share{},
	}
}

// alone returns what only one rendering of a class holds at a time; nil: any number run.
func (s *slots) alone(c class) *semaphore.Weighted {
	return [...]*semaphore.Weighted{forHost: nil, forStranger: s.strangers, forViewer: s.viewers}[c]
}

// acquire waits for a slot for a template of a namespace, until ctx ends.
func (s *slots) acquire(ctx context.Context, c class, namespace string) error {
	alone := s.alone(c)
	if alone != nil {
		if err := alone.Acquire(ctx, 1); err != nil {
			return err
		}
	}
	err := s.wait(ctx, namespace, rankOf(c))
	if err != nil && alone != nil {
		alone.Release(1)
	}
	return err
}

// rankOf returns the place of a class in share.waiting.
func rankOf(c class) int {
	if c == forViewer {
		return 1
	}
	return 0
}

func (s *slots) wait(ctx context.Context, namespace string, rank int) error {
	s.mu.Lock()
	s.calls++
	one := &call{s.calls, make(chan struct{})}
	of := s.shares[namespace]
	if of == nil {
		of = &share{}
		s.shares[namespace] = of
	}
	of.waiting[rank] = append(of.waiting[rank], one)
	s.grantLocked()
	s.mu.Unlock()
	select {
	case <-one.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(of.waiting[rank], one)
	if at < 0 { // it was granted meanwhile
		return nil
	}
	of.waiting[rank] = slices.Delete(of.waiting[rank], at, at+1)
	s.forgetLocked(namespace)
	return ctx.Err()
}

// release gives a slot back.
func (s *slots) release(c class, namespace string) {
	s.mu.Lock()
	s.running--
	s.shares[namespace].running--
	s.forgetLocked(namespace)
	s.grantLocked()
	s.mu.Unlock()
	if alone := s.alone(c); alone != nil {
		alone.Release(1)
	}
}

// forgetLocked forgets a namespace of which nothing waits or runs.
func (s *slots) forgetLocked(namespace string) {
	if of := s.shares[namespace]; of.running == 0 && len(of.waiting[0])+len(of.waiting[1]) == 0 {
		delete(s.shares, namespace)
	}
}

// grantLocked grants the free slots: those of machines first.
func (s *slots) grantLocked() {
	for rank := range 2 {
		for s.running < 2*s.each {
			next := s.nextLocked(rank)
			if next == nil {
				break
			}
			one := next.waiting[rank][0]
			next.waiting[rank] = next.waiting[rank][1:]
			next.running, next.last = next.running+1, one.number
			s.running++
			close(one.granted)
		}
	}
}

// nextLocked returns the namespace whose turn is next; nil: none waits that may have a slot.
func (s *slots) nextLocked(rank int) (next *share) {
	for _, of := range s.shares {
		if len(of.waiting[rank]) == 0 || of.running == s.each {
			continue
		}
		if next == nil || cmp.Or(cmp.Compare(of.running, next.running), cmp.Compare(of.last, next.last),
			cmp.Compare(of.waiting[rank][0].number, next.waiting[rank][0].number)) < 0 {
			next = of
		}
	}
	return next
}
