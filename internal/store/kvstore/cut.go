package kvstore

import (
	"context"
	"time"
)

const (
	// cutTries bounds how often Cut looks for a moment in which no other server has written, and cutPause is between two
	// tries.
	cutTries = 20
	cutPause = 50 * time.Millisecond
)

// Record is a stored value with what its message says of it.
type Record struct {
	// Key is the bucket key, UID that of the object; "": another program has put the value.
	Key, UID string
	// Expires is when the object expires; zero: never.
	Expires time.Time
	// Value is the stored JSON, decrypted. It must not be changed.
	Value []byte
}

// Cut returns what buckets held at one moment, in the order of the stores: a write that was answered before that
// moment is in it, and whatever is in it has all that was written before it. Where other servers write into the
// buckets without a pause, there is no such moment: settled is false then, and each bucket is as this server knew it.
func Cut(ctx context.Context, stores []*Store) (views []View, settled bool, err error) {
	for range cutTries {
		if err := catchUp(ctx, stores); err != nil {
			return nil, false, err
		}
		views = cut(stores)
		if allExclusive(stores) { // the mirrors have each write before it is answered
			return views, true, nil
		}
		// What others had written by the moment of the cut has come after this.
		if err := catchUp(ctx, stores); err != nil {
			return nil, false, err
		}
		if unchanged(views, cut(stores)) {
			return views, true, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(cutPause):
		}
	}
	return views, false, nil
}

func catchUp(ctx context.Context, stores []*Store) error {
	for _, s := range stores {
		if err := s.barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

func allExclusive(stores []*Store) bool {
	for _, s := range stores {
		if !s.bucket.opts.Exclusive {
			return false
		}
	}
	return true
}

// cut holds all mirrors at once. Nobody else holds two of them.
func cut(stores []*Store) (views []View) {
	for _, s := range stores {
		s.contents.mirror.mu.Lock()
		defer s.contents.mirror.mu.Unlock()
	}
	for _, s := range stores {
		views = append(views, View{s.bucket, s.contents.mirror.currentLocked()})
	}
	return views
}

// unchanged reports whether no object has changed between two cuts.
func unchanged(before, after []View) bool {
	for i := range before {
		if before[i].snap.next != after[i].snap.next {
			return false
		}
	}
	return true
}

// Len is the number of objects.
func (v View) Len() int { return v.snap.tree.Len() }

// Records calls f with what a backup has of each object, in the order of the keys, until f returns false.
func (v View) Records(f func(Record) bool) {
	v.snap.tree.Ascend(func(e *entry) bool {
		return f(Record{Key: e.Key, UID: e.uid, Expires: e.expires, Value: e.Value})
	})
}
