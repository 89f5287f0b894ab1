package kvstore

import (
	"context"
	"errors"
	"time"
)

// expireRetry is the pause after a delete that failed.
const expireRetry = 2 * time.Second

// expiring is an entry with an end. The server could expire messages by itself, but
// watches would not see that.
type expiring struct {
	key string
	rev uint64
}

// expireLater queues an entry for its end, if it has one.
func (s *contents) expireLater(e *entry) {
	if !e.expires.IsZero() {
		s.expiries.AddAfter(expiring{key: e.Key, rev: e.Revision}, time.Until(e.expires))
	}
}

// expire deletes entries at their end until ctx ends. Every replica does; the
// revision lets one succeed.
func (s *writer) expire(ctx context.Context) {
	context.AfterFunc(ctx, s.expiries.ShutDown)
	for {
		x, shutdown := s.expiries.Get()
		if shutdown {
			return
		}
		// An entry that was written since has another revision.
		if e := s.mirror.get(x.key); e != nil && e.Revision == x.rev && ctx.Err() == nil {
			_, err := s.publish(ctx, write{key: x.key, expect: x.rev})
			if err != nil && !errors.Is(err, errConflict) {
				s.expiries.Add(x)
				_ = pause(ctx, expireRetry)
			}
		}
		s.expiries.Done(x)
	}
}
