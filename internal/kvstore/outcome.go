package kvstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// What became of a write is not always what NATS answers. Where servers of a
// cluster were apart, the leader that was deposed and the new one may both get the
// message: the first refuses it by what it knew before, the second stores it, and
// the first answer counts. Of a write without an answer nothing is known at all.
// Only a message that is in the bucket is proof, and the bucket's consumer shows it.

// ownWrites are the writes under way, by their ids.
type ownWrites struct {
	mu   sync.Mutex
	byID map[string]uint64 // the revision, once it is known
}

func (o *ownWrites) add(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[string]uint64{}
	}
	o.byID[id] = 0
}

func (o *ownWrites) remove(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byID, id)
}

// applied takes the id and the revision of a message that the bucket holds.
func (o *ownWrites) applied(id string, rev uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.byID[id]; ok {
		o.byID[id] = rev
	}
}

// revision gives the revision of a write that is in the bucket; 0 if it was not
// seen there.
func (o *ownWrites) revision(id string) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID[id]
}

// conflict decides about a write that was refused because the key has changed.
func (s *Store) conflict(ctx context.Context, l *link, w write, id string, refusal *jetstream.APIError) (rev uint64, err error) {
	if s.opts.Exclusive || l.replicas < 2 {
		return 0, errConflict // by the only server
	}
	if err := s.barrier(ctx); err != nil {
		return 0, s.timeout("reading after a conflict")
	}
	if rev := s.own.revision(id); rev != 0 {
		return rev, nil
	}
	var last uint64
	_, _ = fmt.Sscanf(refusal.Description, "wrong last sequence: %d", &last) // another refusal names none
	if last > w.expect || s.keys.Get(w.key).Revision <= w.expect {
		return 0, errConflict
	}
	// The server that refused it did not know what the key is now, and the one that
	// does may have taken it before another write replaced it.
	return 0, s.timeout("writing")
}

// confirm finds out what became of a write that was not acknowledged.
func (s *Store) confirm(ctx context.Context, l *link, w write, id string) (rev uint64, err error) {
	if l.js.Conn().IsConnected() {
		if rev := s.lookUp(ctx, l, w, id); rev != 0 {
			return rev, nil
		}
	}
	s.doubt()
	return 0, s.timeout("writing")
}

// doubt makes the session of an exclusive store read what the bucket holds.
func (s *Store) doubt() {
	select {
	case s.unsure <- struct{}{}:
	default:
	}
}

// lookUp gives the revision of a write if the bucket holds it, or held it; else 0.
func (s *Store) lookUp(ctx context.Context, l *link, w write, id string) uint64 {
	if l.replicas < 2 {
		if last, err := s.lastMessage(ctx, l, w.key); err == nil && last.write == id {
			return last.rev
		}
	} else {
		_ = s.barrier(ctx) // what the consumer has shown counts all the same
	}
	return s.own.revision(id)
}

// settle is called after a conflict: it brings the mirror up to the key's last
// message and returns the entry, nil if there is none, with the revision that
// the next write of the key has to expect. That is not the entry's own where a
// tombstone, or a damaged value, came after it.
func (s *Store) settle(ctx context.Context, key string) (e *entry, expect uint64, err error) {
	l, ok := s.connected()
	if !ok {
		return nil, 0, s.unavailable()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var last uint64
	if l.replicas < 2 || s.metrics.isDamaged(key) {
		message, err := s.lastMessage(ctx, l, key)
		if err != nil || !s.progress.await(ctx, message.rev) {
			return nil, 0, s.timeout("reading after a conflict")
		}
		last = message.rev
	} else {
		if err := s.barrier(ctx); err != nil {
			return nil, 0, s.timeout("reading after a conflict")
		}
		last = s.keys.Get(key).Revision
	}
	if e = s.mirror.get(key); e != nil {
		last = max(last, e.Revision)
	}
	return e, last, nil
}
