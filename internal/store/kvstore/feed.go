package kvstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"glowplug/internal/store/question"
)

// feed reads the messages of a bucket, in order and without a gap, from one
// ephemeral consumer.
type feed struct {
	*follower
	messages  jetstream.MessagesContext
	consumer  string
	stopAfter func() bool
	// left is how many messages are outstanding, by the server that the consumer
	// lives on.
	left      uint64
	delivered uint64
	// mark is a revision that the bucket has; 0 where left can be believed. seen is
	// the last one that came.
	mark, seen uint64
	// waiting is true until the feed was complete once.
	waiting bool
	// patience is how long an outstanding message may take to come.
	patience time.Duration
	closed   bool
}

// openFeed begins after the revision reached, or with the first message.
func (f *follower) openFeed(ctx context.Context, info *jetstream.StreamInfo, reached uint64, resume bool) (*feed,
	error) {
	cfg := jetstream.ConsumerConfig{
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		InactiveThreshold: time.Minute,
		MemoryStorage:     true,
		Replicas:          1,
	}
	if resume {
		cfg.DeliverPolicy = jetstream.DeliverByStartSequencePolicy
		cfg.OptStartSeq = reached + 1
	}
	createCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// With a name of our own the second of two questions finds what the first has made.
	cfg.Name = nuid.Next()
	consumer, err := question.Ask(createCtx, func(ctx context.Context) (jetstream.Consumer, error) {
		consumer, err := f.js.CreateConsumer(ctx, info.Config.Name, cfg)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			return f.js.Consumer(ctx, info.Config.Name, cfg.Name)
		}
		return consumer, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the bucket: %w", err)
	}
	messages, err := consumer.Messages(
		jetstream.PullMaxMessagesWithBytesLimit(fetchMessages, fetchBytes),
		jetstream.PullHeartbeat(heartbeat),
		jetstream.WithMessagesErrOnMissingHeartbeat(true),
	)
	if err != nil {
		return nil, fmt.Errorf("reading the bucket: %w", err)
	}
	patience := stallTimeout
	if f.mayLag(info) {
		patience = lagTimeout
	}
	state := consumer.CachedInfo()
	return &feed{
		follower:  f,
		messages:  messages,
		consumer:  state.Name,
		stopAfter: context.AfterFunc(ctx, messages.Stop),
		left:      state.NumPending,
		waiting:   state.NumPending > 0,
		patience:  patience,
	}, nil
}

// reopen replaces the feed's consumer by one that begins after a revision.
func (f *follower) reopen(ctx context.Context, fd *feed, info *jetstream.StreamInfo, rev uint64) error {
	fd.close()
	next, err := f.openFeed(ctx, info, rev, true)
	if err != nil {
		return err
	}
	*fd = *next
	return nil
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

// next waits for a message.
func (f *feed) next() (c change, err error) {
	var opts []jetstream.NextOpt
	if f.waiting {
		opts = []jetstream.NextOpt{jetstream.NextMaxWait(f.patience)}
	}
	msg, err := f.messages.Next(opts...)
	switch {
	case errors.Is(err, nats.ErrTimeout):
		return change{}, errBehind
	case err != nil:
		return change{}, fmt.Errorf("reading the bucket: %w", err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return change{}, fmt.Errorf("reading the bucket: %w", err)
	}
	f.delivered++
	if meta.Sequence.Consumer != f.delivered {
		return change{}, errGap
	}
	f.left, f.seen = meta.NumPending, meta.Sequence.Stream
	f.waiting = f.waiting && !f.complete()
	if msg.Subject() == f.subjectPrefix+barrierKey {
		return change{rev: meta.Sequence.Stream, skip: true}, nil
	}
	c, err = f.readChange(msg.Subject(), msg.Headers(), msg.Data(), meta.Sequence.Stream)
	if err != nil {
		f.foreign.Store(true)
		f.opts.Logger.Warn("leaving out a value whose key is not ours", "error", err)
		c = change{rev: meta.Sequence.Stream, skip: true}
	}
	return c, nil
}

// close ends the consumer; a server that is away forgets it by itself.
func (f *feed) close() {
	if f.closed {
		return
	}
	f.closed = true
	f.stopAfter()
	f.messages.Stop()
	if f.js.Conn().IsConnected() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = f.js.DeleteConsumer(ctx, f.streamName, f.consumer)
	}
}
