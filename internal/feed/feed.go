// Package feed hands changes to any number of subscribers. Each has a bounded backlog of its own, so that none of them
// can delay the writer or another subscriber.
package feed

import (
	"context"
	"slices"
	"sync"
)

// maxBacklog is how many changes wait for a subscriber at most. Then one value replaces them all: see New.
const maxBacklog = 4096

// Feed hands each change to all subscribers. It is safe for concurrent use.
type Feed[T any] struct {
	missed T
	mu     sync.Mutex
	subs   []*Subscription[T]
}

// New returns a feed without subscribers. When the backlog of a subscriber is full, the feed replaces it by the one
// value missed: the subscriber must then reconcile everything.
func New[T any](missed T) *Feed[T] { return &Feed[T]{missed: missed} }

// Publish hands a change to all subscribers, and does not wait for them.
func (f *Feed[T]) Publish(change T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.subs {
		if s.backlog = append(s.backlog, change); len(s.backlog) > maxBacklog {
			s.backlog = []T{f.missed}
		}
		select {
		case s.ready <- struct{}{}:
		default:
		}
	}
}

// Subscription is the backlog of one subscriber.
type Subscription[T any] struct {
	feed    *Feed[T]
	backlog []T // guarded by feed.mu
	ready   chan struct{}
}

// Subscribe returns a subscription to the changes from now on, which wait until Follow takes them.
func (f *Feed[T]) Subscribe() *Subscription[T] {
	s := &Subscription[T]{feed: f, ready: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subs = append(f.subs, s)
	return s
}

// Follow calls each with every change, in their order and one at a time, in a goroutine of its own until ctx ends.
// wait returns once that has ended. Call Follow once: only Follow removes the subscription from the feed.
func (s *Subscription[T]) Follow(ctx context.Context, each func(T)) (wait func()) {
	var following sync.WaitGroup
	following.Go(func() {
		defer s.end()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.ready:
			}
			for _, change := range s.Take() {
				each(change)
			}
		}
	})
	return following.Wait
}

// Take returns the changes that wait.
func (s *Subscription[T]) Take() []T {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	changes := s.backlog
	s.backlog = nil
	return changes
}

func (s *Subscription[T]) end() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.subs = slices.DeleteFunc(s.feed.subs, func(o *Subscription[T]) bool { return o == s })
	s.backlog = nil
}
