package kvstore

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/session"
)

// feed reads the changes of a bucket from one consumer.
type feed struct {
	*follower
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
	consumer, err := session.Open(ctx, f.js, f.streamName, from, fetchMessages, fetchBytes)
	if err != nil {
		return nil, err
	}
	return &feed{
		follower: f,
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
	if msg.Subject() == f.subjectPrefix+barrierKey {
		return change{rev: f.seen, skip: true}, nil
	}
	c, err := f.readChange(msg.Subject(), msg.Headers(), msg.Data(), f.seen)
	if err != nil {
		f.foreign.Store(true)
		f.opts.Logger.Warn("leaving out a value whose key is not ours", "error", err)
		c = change{rev: f.seen, skip: true}
	}
	return c, nil
}
