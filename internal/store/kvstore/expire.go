package kvstore

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"
)

// expireRetry is the pause after a delete that failed.
const expireRetry = 2 * time.Second

// expiries are the entries with an end, the next one first. The server could
// expire them by itself, but tells nobody: a delete is what watches see.
type expiries struct {
	mu   sync.Mutex
	heap expiryHeap
	wake chan struct{}
}

type expiryItem struct {
	at  time.Time
	key string
	rev uint64
}

func (x *expiries) add(e *entry) {
	if e.expires.IsZero() {
		return
	}
	x.mu.Lock()
	heap.Push(&x.heap, expiryItem{at: e.expires, key: e.Key, rev: e.Revision})
	first := x.heap[0].rev == e.Revision
	x.mu.Unlock()
	if first {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

func (x *expiries) restart() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heap = nil
}

// next takes the first item that is due. If there is none, wait is the time
// until one may be.
func (x *expiries) next(now time.Time) (item expiryItem, due bool, wait time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.heap) == 0 {
		return item, false, time.Hour
	}
	if until := x.heap[0].at.Sub(now); until > 0 {
		return item, false, until
	}
	return heap.Pop(&x.heap).(expiryItem), true, 0
}

// expire deletes what is due until ctx ends. Every replica does; the revision
// lets one succeed.
func (s *writer) expire(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.expiries.wake:
		}
		timer.Reset(s.expireDue(ctx))
	}
}

// expireDue deletes what is due, and returns how long to wait for more.
func (s *writer) expireDue(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		item, due, wait := s.expiries.next(time.Now())
		if !due {
			return wait
		}
		e := s.mirror.get(item.key)
		if e == nil || e.Revision != item.rev {
			continue // it is gone, or was written since
		}
		_, err := s.publish(ctx, write{key: item.key, expect: item.rev})
		if err != nil && !errors.Is(err, errConflict) {
			s.expiries.add(e)
			return expireRetry
		}
	}
	return 0
}

type expiryHeap []expiryItem

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiryItem)) }
func (h *expiryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = expiryItem{}
	*h = old[:len(old)-1]
	return last
}
