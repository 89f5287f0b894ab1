package kvstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// What became of a write is not always what NATS answers. Where servers of a
// cluster were apart, the leader that was deposed and the new one may both get the
// message: the first refuses it by what it knew before, the second stores it, and
// the first answer counts. Of a write without an answer nothing is known at all.
// Only a message that is in the bucket is proof, and the bucket's consumer shows it. Of a batch that is the last
// one: a server that keeps the only copy stores them one after the other.

// ownWrites are the writes under way. There are few: the requests in flight are bounded.
type ownWrites struct {
	mu       sync.Mutex
	underWay []*ownWrite
}

// ownWrite is a write, or a batch of them, and what the consumer has shown of it.
type ownWrite struct {
	id string
	// expects are the revisions that it replaces, by key; last is the key of the last message.
	expects map[string]uint64
	last    string
	// connection is the one that it was sent over, by the number of reconnects.
	connection uint64
	// rev is the revision of the last message; 0 while that was not seen.
	rev uint64
	// beaten is set once another message was seen that replaced what one of these
	// expects.
	beaten bool
}

func (o *ownWrites) add(ws []write, id string, connection uint64) *ownWrite {
	own := &ownWrite{id: id, expects: make(map[string]uint64, len(ws)), connection: connection}
	for _, w := range ws {
		own.expects[w.key], own.last = w.expect, w.key
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.underWay = append(o.underWay, own)
	return own
}

func (o *ownWrites) remove(own *ownWrite) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.underWay = slices.DeleteFunc(o.underWay, func(other *ownWrite) bool { return other == own })
}

// observe compares a message of the bucket with the writes under way.
func (o *ownWrites) observe(c change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, own := range o.underWay {
		expect, ours := own.expects[c.key]
		switch {
		case !ours:
		case c.write == own.id && c.key == own.last:
			own.rev = c.rev
		case c.write != own.id && c.hasPrev && c.prev == expect:
			own.beaten = true
		}
	}
}

// seen returns the revision of a write and whether it was beaten, as the consumer has
// shown.
func (o *ownWrites) seen(own *ownWrite) (rev uint64, beaten bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return own.rev, own.beaten
}

// refused decides about a write that NATS refused. The verdict is the error where the write is not in the bucket.
func (s *writer) refused(ctx context.Context, l *link, own *ownWrite, refusal *jetstream.APIError, verdict error) (
	rev uint64, err error) {
	if s.bucket.opts.Exclusive || l.replicas < 2 {
		return 0, verdict // by the only server
	}
	// The leader has decided about the write before it takes the barrier's message,
	// which comes after it on the same connection.
	if err := s.barrier(ctx); err != nil {
		return 0, s.connection.timeout("reading after a refusal")
	}
	inOrder := l.js.Conn().Stats().Reconnects == own.connection
	rev, beaten := s.contents.own.seen(own)
	if rev != 0 {
		return rev, nil
	}
	var last uint64
	_, _ = fmt.Sscanf(refusal.Description, "wrong last sequence: %d", &last) // another refusal names none
	newest := slices.Max(slices.Collect(maps.Values(own.expects)))
	if beaten || last > newest || inOrder && s.contents.unchanged(own) {
		return 0, verdict
	}
	// Some messages of a key were replaced before the consumer came to them, or the
	// write may still be on its way.
	return 0, s.connection.timeout("writing")
}

// unchanged reports whether a key has no message after the one that was expected.
func (s *contents) unchanged(own *ownWrite) bool {
	for key, expect := range own.expects {
		if s.keys.Get(key).Revision <= expect {
			return true
		}
	}
	return false
}

// confirm finds out what became of a write that was not acknowledged.
func (s *writer) confirm(ctx context.Context, l *link, own *ownWrite) (rev uint64, err error) {
	if l.js.Conn().IsConnected() {
		if l.replicas < 2 {
			if last, err := s.lastMessage(ctx, l, own.last); err == nil && last.write == own.id {
				return last.rev, nil
			}
		} else {
			_ = s.barrier(ctx) // what the consumer has shown counts all the same
		}
	}
	if rev, _ := s.contents.own.seen(own); rev != 0 {
		return rev, nil
	}
	s.doubt()
	return 0, s.connection.timeout("writing")
}

// doubt makes the session of an exclusive store read what the bucket holds.
func (s *writer) doubt() {
	select {
	case s.unsure <- struct{}{}:
	default:
	}
}

// settle is called after a conflict: it brings the mirror up to the key's last
// message and returns the entry, nil if there is none, with the revision that
// the next write of the key has to expect. That is not the entry's own where a
// tombstone, or a damaged value, came after it.
func (s *writer) settle(ctx context.Context, key string) (e *entry, expect uint64, err error) {
	l, ok := s.connection.connected()
	if !ok {
		return nil, 0, s.connection.unavailable()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var last uint64
	if l.replicas < 2 || slices.Contains(s.contents.metrics.lostKeys(), key) {
		message, err := s.lastMessage(ctx, l, key)
		if err != nil {
			return nil, 0, s.connection.timeout("reading after a conflict")
		}
		last = message.rev
	} else {
		if err := s.barrier(ctx); err != nil {
			return nil, 0, s.connection.timeout("reading after a conflict")
		}
		last = s.contents.keys.Get(key).Revision
	}
	e, expect, ok = s.contents.entryAfter(ctx, key, last)
	if !ok {
		return nil, 0, s.connection.timeout("reading after a conflict")
	}
	return e, expect, nil
}

// entryAfter returns the mirror's entry of a key, nil if there is none, once the mirror has the key's
// message of a revision, with the revision that the next write of the key has to expect. The key log
// has a revision before the mirror has it: without the wait a write that is made of what the mirror
// had before would expect a revision that it does not know, and replace it.
func (s *contents) entryAfter(ctx context.Context, key string, last uint64) (e *entry, expect uint64, ok bool) {
	if !s.progress.await(ctx, last) {
		return nil, 0, false
	}
	if e = s.mirror.get(key); e != nil {
		last = max(last, e.Revision)
	}
	return e, last, true
}
