package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"glowplug/internal/store/question"
)

const (
	callTimeout = 5 * time.Second
	heartbeat   = 2 * time.Second
	// stallTimeout is how long an outstanding message may take to come. After that it
	// cannot be read.
	stallTimeout = 3 * time.Second
	// lagTimeout is the same where the consumer's server may be behind: it brings
	// nothing then, and the next consumer may live on another server.
	lagTimeout = 400 * time.Millisecond
	// MaxLags is how many consumers in a row may live on a server that is behind.
	MaxLags = 8
)

var (
	// ErrStalled says that an outstanding message did not come.
	ErrStalled = errors.New("the newest messages of the stream did not come")
	errGap     = errors.New("a message of the stream was missed")
)

// Consumer reads the messages of a stream, in order and without a gap.
type Consumer struct {
	// Pending is how many messages there were when the consumer was made, by the server
	// that it lives on.
	Pending uint64
	// Close ends the consumer.
	Close func()

	messages  jetstream.MessagesContext
	delivered uint64
}

// Open makes an ephemeral consumer of the messages from a sequence on, until ctx ends.
// It keeps at most so many messages and bytes in memory.
func Open(ctx context.Context, js jetstream.JetStream, stream string, from uint64, messages, bytes int) (*Consumer,
	error) {
	c, err := open(ctx, js, stream, from, messages, bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the stream %s: %w", stream, err)
	}
	return c, nil
}

func open(ctx context.Context, js jetstream.JetStream, stream string, from uint64, messages, bytes int) (*Consumer,
	error) {
	cfg := jetstream.ConsumerConfig{
		Name:              nuid.Next(), // by which a repeated request finds what the first has made
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		InactiveThreshold: time.Minute,
		MemoryStorage:     true,
		Replicas:          1,
	}
	createCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	consumer, err := question.Ask(createCtx, func(ctx context.Context) (jetstream.Consumer, error) {
		consumer, err := js.CreateConsumer(ctx, stream, cfg)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			return js.Consumer(ctx, stream, cfg.Name)
		}
		return consumer, err
	})
	if err != nil {
		return nil, err
	}
	iterator, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(messages, bytes),
		jetstream.PullHeartbeat(heartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, iterator.Stop)
	return &Consumer{
		Pending:  consumer.CachedInfo().NumPending,
		messages: iterator,
		Close: sync.OnceFunc(func() {
			stop()
			iterator.Stop()
			if js.Conn().IsConnected() { // a server that is away forgets the consumer by itself
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = js.DeleteConsumer(ctx, stream, cfg.Name)
			}
		}),
	}, nil
}

// Next waits for a message. Where one is outstanding it returns ErrStalled after a
// time, which is short if the consumer's server may be behind.
func (c *Consumer) Next(outstanding, mayLag bool) (jetstream.Msg, *jetstream.MsgMetadata, error) {
	var opts []jetstream.NextOpt
	switch {
	case outstanding && mayLag:
		opts = append(opts, jetstream.NextMaxWait(lagTimeout))
	case outstanding:
		opts = append(opts, jetstream.NextMaxWait(stallTimeout))
	}
	msg, err := c.messages.Next(opts...)
	if errors.Is(err, nats.ErrTimeout) {
		return nil, nil, ErrStalled
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the stream: %w", err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the stream: %w", err)
	}
	if c.delivered++; meta.Sequence.Consumer != c.delivered {
		return nil, nil, errGap
	}
	return msg, meta, nil
}
