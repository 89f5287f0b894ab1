package kvstore

import (
	"context"
	"sync"
)

// progress is the revision that a bucket has reached.
type progress struct {
	mu  sync.Mutex
	rev uint64
	// waiting are the revisions that callers wait for, by the channel that is closed then.
	waiting map[chan struct{}]uint64
}

// reach moves on to a revision.
func (p *progress) reach(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLocked(max(p.rev, rev))
}

// restart begins again at a revision, which may be lower.
func (p *progress) restart(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLocked(rev)
}

func (p *progress) setLocked(rev uint64) {
	p.rev = rev
	for reached, wanted := range p.waiting {
		if wanted <= rev {
			close(reached)
			delete(p.waiting, reached)
		}
	}
}

// await waits for a revision. It returns false if ctx ends first.
func (p *progress) await(ctx context.Context, rev uint64) bool {
	p.mu.Lock()
	if rev <= p.rev {
		p.mu.Unlock()
		return true
	}
	reached := make(chan struct{})
	if p.waiting == nil {
		p.waiting = map[chan struct{}]uint64{}
	}
	p.waiting[reached] = rev
	p.mu.Unlock()
	select {
	case <-reached:
		return true
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, reached)
		return rev <= p.rev
	}
}
