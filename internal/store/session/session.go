// Package session has what those share who follow a JetStream stream: one session
// after the other, the consumer of a session, and the doubt whether the stream is the
// one that was followed before.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"glowplug/internal/store/question"
)

const (
	// firstPause and maxPause bound the pause between two sessions; refusedPause is the
	// one after a stream that is not followed until an operator does something.
	firstPause   = 20 * time.Millisecond
	maxPause     = 500 * time.Millisecond
	refusedPause = 2 * time.Second
	// doubtTime is for how long a stream has to look like another one: servers that
	// were apart contradict each other for a moment.
	doubtTime = 3 * time.Second
)

// ErrAway ends a session whose connection was lost.
var ErrAway = errors.New("NATS is away")

// Follower follows a stream.
type Follower struct {
	JS     jetstream.JetStream
	Logger *slog.Logger
	// Message is logged with the error that ended a session, once for each error.
	Message string
	// Session follows the stream until that fails, or ctx ends with the connection.
	Session func(ctx context.Context) error
	// Down is called with the error that ended a session.
	Down func(error)
	// Refused reports whether an error stays until an operator does something.
	Refused func(error) bool

	logged string
}

// Run begins sessions until ctx ends, with a pause in between that grows while they
// are short.
func (f *Follower) Run(ctx context.Context) {
	pause := firstPause / 2
	for {
		began := time.Now()
		err := f.session(ctx)
		if ctx.Err() != nil {
			return
		}
		f.Down(err)
		f.log(ctx, err)
		switch {
		case f.Refused(err):
			pause = refusedPause
		case time.Since(began) > 2*maxPause:
			pause = firstPause
		default:
			pause = min(2*pause, maxPause)
		}
		f.pause(ctx, pause)
	}
}

// Following is called once a session follows the stream. It reports whether an error
// was logged before: an operator who read of the loss reads of its end.
func (f *Follower) Following() (logged bool) {
	logged = f.logged != ""
	f.logged = ""
	return logged
}

func (f *Follower) log(ctx context.Context, err error) {
	if err.Error() == f.logged {
		return
	}
	f.logged = err.Error()
	level := slog.LevelWarn
	if f.Refused(err) {
		level = slog.LevelError
	}
	f.Logger.Log(ctx, level, f.Message, "error", err)
}

// pause waits before the next session, and longer while there is no connection.
func (f *Follower) pause(ctx context.Context, d time.Duration) {
	nc := f.JS.Conn()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	if !nc.IsConnected() {
		d = max(d, maxPause)
	}
	select {
	case <-ctx.Done():
	case <-connected:
	case <-time.After(d):
	}
}

// session ends with the connection.
func (f *Follower) session(ctx context.Context) error {
	nc := f.JS.Conn()
	if !nc.IsConnected() {
		return ErrAway
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	go func() {
		select {
		case <-lost:
			cancel(ErrAway)
		case <-ctx.Done():
		}
	}()
	return CauseOr(ctx, f.Session(ctx))
}

// CauseOr returns why ctx was cancelled, or else err.
func CauseOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Doubt is since when a stream has looked like another, or an older, one.
type Doubt struct{ since time.Time }

// Clear ends the doubt.
func (d *Doubt) Clear() { d.since = time.Time{} }

// Confirmed reports whether the stream has looked so for long enough.
func (d *Doubt) Confirmed() bool {
	if d.since.IsZero() {
		d.since = time.Now()
	}
	return time.Since(d.since) >= doubtTime
}

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
