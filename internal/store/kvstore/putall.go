package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"glowplug/internal/store/batch"
)

// Put is one write of a batch.
type Put struct {
	// Key is the bucket key.
	Key string
	// Object is the new value; nil removes the key. Its resource version is removed.
	Object runtime.Object
	// Expect is the revision of the key's last message, be it a value or a tombstone; 0 if it has none.
	Expect uint64
}

// ConflictError says that nothing of a batch was written, because keys have another last message than the one
// that was expected. The mirror has these messages.
type ConflictError struct {
	// Keys are the bucket keys, in the order of the batch.
	Keys []string
	// Revisions are those of their last messages, which the next write has to expect; 0 where there is none.
	Revisions []uint64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%d keys of a batch have changed, the first is %s", len(e.Keys), e.Keys[0])
}

// PutAll does 1 to batch.Max writes of different keys, all of them or none, with one write to the disk. The kind
// is Batched. It returns the revision of the last write once the mirror and the observers have all of them; write
// i of n has the revision last-n+1+i. A *ConflictError and a 503 say that nothing was written, a 507 that there is
// no room, a 413 that a value is too large, and a 504 that all of it may or may not have been written.
func (s *Store) PutAll(ctx context.Context, puts []Put) (last uint64, err error) {
	if len(puts) == 0 || len(puts) > batch.Max {
		return 0, fmt.Errorf("a batch has 1 to %d writes, not %d", batch.Max, len(puts))
	}
	ws := make([]write, len(puts))
	keys := make(map[string]bool, len(puts))
	for _, put := range puts {
		if keys[put.Key] {
			return 0, fmt.Errorf("a batch writes %s twice", put.Key)
		}
		keys[put.Key] = true
	}
	if err := encodeAll(s.bucket, ws, puts); err != nil {
		return 0, err
	}
	last, err = s.publish(ctx, ws...)
	if errors.Is(err, errConflict) {
		return 0, s.conflict(ctx, ws)
	}
	return last, err
}

// encodeShare is how many writes one goroutine prepares: a single one would wait for its turn many times while
// thousands of requests are served.
const encodeShare = 64

// encodeAll prepares the writes of a batch.
func encodeAll(b *bucket, ws []write, puts []Put) error {
	var encoding errgroup.Group
	for begin := 0; begin < len(puts); begin += encodeShare {
		encoding.Go(func() (err error) {
			for i := begin; i < min(begin+encodeShare, len(puts)); i++ {
				if ws[i].key = puts[i].Key; puts[i].Object != nil {
					if ws[i], err = b.encode(puts[i].Key, puts[i].Object); err != nil {
						return err
					}
				}
				ws[i].expect = puts[i].Expect
			}
			return nil
		})
	}
	return encoding.Wait()
}

// conflict finds out which keys made a batch fail.
func (s *writer) conflict(ctx context.Context, ws []write) error {
	l, ok := s.connection.connected()
	if !ok {
		return s.connection.unavailable()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unread := s.connection.timeout("reading after a conflict")
	last, err := s.lastRevision(ctx, l)
	if err != nil || !s.contents.progress.await(ctx, last) {
		return unread
	}
	conflict, lost := &ConflictError{}, s.contents.metrics.lostKeys()
	for _, w := range ws {
		rev := s.contents.keys.Get(w.key).Revision
		if slices.Contains(lost, w.key) { // of which the key log has what is not there any more
			message, err := s.lastMessage(ctx, l, w.key)
			if err != nil {
				return unread
			}
			rev = message.rev
		}
		if rev != w.expect {
			conflict.Keys, conflict.Revisions = append(conflict.Keys, w.key), append(conflict.Revisions, rev)
		}
	}
	switch {
	case len(conflict.Keys) == 0: // the server refuses a write while it does another one of the key
		busy := apierrors.NewServiceUnavailable(fmt.Sprintf("the store of %s is doing another write of the same objects",
			s.bucket.kind.Resource))
		busy.ErrStatus.Details = retryDetails
		return busy
	case !s.contents.progress.await(ctx, slices.Max(conflict.Revisions)):
		return unread
	}
	return conflict
}
