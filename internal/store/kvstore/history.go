package kvstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/encryption"
	"glowplug/internal/store/session"
)

// A bucket that is not the one which this server knows is neither followed nor
// written, until an operator says that it is right.
var (
	errRefused = errors.New("the store is not used")

	errBucketLost = fmt.Errorf(
		"%w: the bucket existed and is missing. Restore it from a backup, or accept what NATS has now with glowplug store "+
			"adopt", errRefused)
	errReplaced = fmt.Errorf(
		"%w: the bucket was deleted and made anew by somebody else. Restore it from a backup, or accept what NATS has now "+
			"with glowplug store adopt", errRefused)
	errOlder = fmt.Errorf("%w: the bucket is older than what this server has seen. Restore the newer data, or accept "+
		"what NATS has now with glowplug store adopt", errRefused)

	errNoLeader = errors.New("the bucket has no leader at the moment")
	errDoubted  = errors.New("the bucket looks older than what this server has seen; asking again")
)

func isRefused(err error) bool {
	return errors.Is(err, errRefused) || errors.As(err, new(*encryption.KeyError))
}

// checkHistory returns an error unless the bucket is the one that this server
// knows, from this process's life or from its files, and has all of its revisions.
func (f *follower) checkHistory(info *jetstream.StreamInfo) error {
	reached := f.store.contents.keys.Revision()
	if f.store.Loaded() {
		reached = max(reached, f.store.contents.mirror.revision())
	}
	if ledger, ok := f.store.bucket.opts.Ledger.(RevisionLedger); ok {
		reached = max(reached, ledger.Reached(f.store.bucket.kind.Bucket))
	}
	// Of an embedded bucket the description may have been restored by hand; its keys
	// are verified all the same.
	var err error
	switch {
	case replaced(f.created, info.Created) ||
		!f.store.bucket.opts.Exclusive && replaced(f.store.contents.keys.Created(), info.Created):
		err = errReplaced
	case info.State.LastSeq < reached:
		err = fmt.Errorf("%w (revision %d, and this server has seen %d)", errOlder, info.State.LastSeq, reached)
	default:
		f.history.Clear()
		f.store.contents.metrics.lost.Store(0)
		return nil
	}
	if confirmed := f.history.Confirmed(); !confirmed && !f.store.bucket.opts.Exclusive {
		return errDoubted
	}
	f.store.contents.metrics.lost.Store(reached - min(reached, info.State.LastSeq))
	return err
}

// replaced reports whether a bucket that was made at a known time is another one.
func replaced(known, created time.Time) bool { return !known.IsZero() && !known.Equal(created) }

// feed reads the changes of a bucket from one consumer.
type feed struct {
	follower *follower
	store    *Store
	ctx      context.Context // of the session
	consumer *session.Consumer
	// left is how many messages are outstanding, by the server that the consumer
	// lives on.
	left uint64
	// mark is a revision that the bucket has; 0 where left can be believed. seen is
	// the last one that came.
	mark, seen uint64
	// waiting is true until the feed was complete once.
	waiting bool
	// mayLag is true where the consumer's server may be behind.
	mayLag bool
}

// openFeed begins with a revision.
func (f *follower) openFeed(ctx context.Context, info *jetstream.StreamInfo, from uint64) (*feed, error) {
	consumer, err := session.Open(ctx, f.js, f.store.bucket.streamName, from, fetchMessages, fetchBytes)
	if err != nil {
		return nil, err
	}
	return &feed{
		follower: f,
		store:    f.store,
		ctx:      ctx,
		consumer: consumer,
		left:     consumer.Pending,
		waiting:  consumer.Pending > 0,
		mayLag:   f.mayLag(info),
	}, nil
}

// until makes the feed complete only once it has brought a revision.
func (f *feed) until(mark uint64) {
	f.mark = mark
	f.waiting = !f.complete()
}

// complete reports whether the feed has brought what there was when it was opened.
func (f *feed) complete() bool {
	if f.mark > 0 {
		return f.seen >= f.mark
	}
	return f.left == 0
}

// next waits for a change.
func (f *feed) next() (change, error) {
	msg, meta, err := f.consumer.Next(f.waiting, f.mayLag)
	if err != nil {
		return change{}, err
	}
	f.left, f.seen = meta.NumPending, meta.Sequence.Stream
	f.waiting = f.waiting && !f.complete()
	if msg.Subject() == f.store.bucket.subjectPrefix+barrierKey {
		return change{rev: f.seen, skip: true}, nil
	}
	c, err := f.store.bucket.readChange(f.ctx, msg.Subject(), msg.Headers(), msg.Data(), f.seen)
	if errors.Is(err, errForeignKey) {
		f.store.contents.foreign.Store(true)
		f.store.bucket.opts.Logger.Warn(err.Error())
		return change{rev: f.seen, skip: true}, nil
	}
	return c, err
}
