package kvstore

import (
	"context"
	"sync"
)

// progress is the revision that a bucket has reached, with those who wait for one.
type progress struct {
	mu      sync.Mutex
	rev     uint64
	waiting []waiter
}

type waiter struct {
	rev     uint64
	reached chan struct{}
}

// reach moves on to a revision.
func (p *progress) reach(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rev = max(p.rev, rev)
	p.release()
}

// restart begins anew at a revision, which may be lower.
func (p *progress) restart(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rev = rev
	p.release()
}

func (p *progress) release() {
	kept := p.waiting[:0]
	for _, w := range p.waiting {
		if w.rev <= p.rev {
			close(w.reached)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
}

// await waits for a revision. It returns false if ctx ends first.
func (p *progress) await(ctx context.Context, rev uint64) bool {
	p.mu.Lock()
	if rev <= p.rev {
		p.mu.Unlock()
		return true
	}
	w := waiter{rev: rev, reached: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case <-w.reached:
		return true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.waiting {
		if p.waiting[i].reached == w.reached {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return false
		}
	}
	return true // it was reached meanwhile
}
