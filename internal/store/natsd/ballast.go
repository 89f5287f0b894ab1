package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/store/ledger"
	"glowplug/internal/store/replicas"
)

const (
	// BallastStream is the name of the stream that holds the ballast.
	BallastStream  = ledger.StreamPrefix + "BALLAST"
	ballastSubject = "GLOWPLUG.ballast"

	// ballastChunk is the size of a message of the ballast, in bytes. A delete takes a
	// few hundred; who else writes takes the rest.
	ballastChunk = 4 << 10
	// ballastShare is the part of a quota that the ballast takes, within its bounds,
	// in bytes for each replica.
	ballastShare           = 16
	minBallast, maxBallast = 1 << 20, 4 << 20
	// ballastInterval is how often the ballast is looked at, to fill it up.
	ballastInterval = 5 * time.Second
	ballastTimeout  = 5 * time.Second
	// releasePause is between two releases for one write: the servers of a cluster tell
	// each other at most every 250 ms what they have stored.
	releasePause = 300 * time.Millisecond
)

// Ballast is padding in an external store that gives its room to deletes: once the
// quota of an account is used up, by whomever, JetStream refuses the deletes that
// would make room included.
type Ballast struct {
	opts BallastOptions

	releasing sync.Mutex // one release at a time

	mu     sync.Mutex
	stored int64 // bytes of the ballast when last seen, in one replica
	// warned is true once it was logged that there is none, or that some is given up,
	// until the ballast is complete again.
	warned bool
}

// BallastOptions are the parts of a Ballast.
type BallastOptions struct {
	// Quota is of the same account.
	Quota *Quota
	// Guard says why the store must not be written.
	Guard func(ctx context.Context, js jetstream.JetStream) error
	// Replicas is how many servers hold the stream, where there are so many.
	Replicas int
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
}

// NewBallast makes a Ballast, which is empty until Run fills it.
func NewBallast(opts BallastOptions) *Ballast {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	b := &Ballast{opts: opts}
	if opts.Registerer != nil {
		opts.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_store_ballast_bytes",
			Help: "Padding in the external NATS that is given up for deletes when the quota of its account is used up, " +
				"in bytes for each replica.",
		}, func() float64 {
			b.mu.Lock()
			defer b.mu.Unlock()
			return float64(b.stored)
		}))
	}
	return b
}

// Run fills the ballast, now and whenever some of it was released and there is room
// again, until ctx ends.
func (b *Ballast) Run(ctx context.Context, js jetstream.JetStream) {
	ticker := time.NewTicker(ballastInterval)
	defer ticker.Stop()
	for {
		err := b.fill(ctx, js)
		if ctx.Err() != nil {
			return
		}
		b.report(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// report warns once where there is no room for the ballast.
func (b *Ballast) report(err error) {
	b.mu.Lock()
	none := b.stored == 0
	b.warned = b.warned && err != nil
	b.mu.Unlock()
	if full := new(QuotaError); none && errors.As(err, &full) {
		b.warn("the NATS account has no room for the ballast that is given up for deletes: "+
			"they are refused once the account is full", err)
	} else if err != nil {
		b.opts.Logger.Debug("the ballast is not filled", "error", err)
	}
}

// fill adds messages until the ballast is complete, or the quota leaves no room.
func (b *Ballast) fill(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, ballastTimeout)
	defer cancel()
	whole := b.opts.Quota.ballast()
	stream, err := js.Stream(ctx, BallastStream)
	if err == nil && b.isComplete(stream.CachedInfo(), whole) {
		b.saw(int64(stream.CachedInfo().State.Bytes))
		return nil
	}
	if guarded := b.opts.Guard(ctx, js); guarded != nil {
		return guarded
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = replicas.Create(ctx, js, ballastConfig(), b.opts.Replicas)
	}
	if err != nil {
		return fmt.Errorf("opening the stream %s: %w", BallastStream, err)
	}
	if _, err := replicas.Raise(ctx, js, stream.CachedInfo(), b.opts.Replicas); err != nil {
		return err
	}
	stored := int64(stream.CachedInfo().State.Bytes)
	defer func() { b.saw(stored) }()
	chunk := make([]byte, ballastChunk)
	for ; stored < whole; stored += ballastChunk {
		if err := b.opts.Quota.ballastRoom(ballastChunk); err != nil {
			return err
		}
		_, err := js.Publish(ctx, ballastSubject, chunk,
			jetstream.WithExpectStream(BallastStream), jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("filling the stream %s: %w", BallastStream, err)
		}
	}
	return nil
}

// isComplete reports whether the ballast has its full size and all its replicas.
func (b *Ballast) isComplete(info *jetstream.StreamInfo, whole int64) bool {
	return int64(info.State.Bytes) >= whole && (info.Config.Replicas >= b.opts.Replicas || !replicas.Clustered(info))
}

func ballastConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        BallastStream,
		Description: "padding that is given up for deletes when the quota of the account is used up",
		Subjects:    []string{ballastSubject},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		// Several servers may fill it at a time.
		MaxMsgs: maxBallast/ballastChunk + 1,
	}
}

// Release gives up a part of the ballast, four times as much with each attempt,
// the first of which is 0. It is false where nothing is left, or where that is not known.
func (b *Ballast) Release(ctx context.Context, js jetstream.JetStream, attempt int) bool {
	if attempt > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(releasePause):
		}
	}
	b.releasing.Lock()
	defer b.releasing.Unlock()
	stream, err := js.Stream(ctx, BallastStream)
	if err != nil || stream.CachedInfo().State.Msgs == 0 {
		b.warn("NATS has no room for a delete, and there is no ballast to give up; make room in the account", err)
		return false
	}
	before := stream.CachedInfo().State
	chunks := min(before.Msgs, 1<<min(2*attempt, 32))
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(before.FirstSeq+chunks)); err != nil {
		b.warn("NATS has no room for a delete, and the ballast cannot be given up", err)
		return false
	}
	b.saw(int64(before.Bytes) - int64(chunks)*ballastChunk)
	b.warn("NATS has no room: ballast is given up for deletes; make room in the account", nil)
	return true
}

// warn logs once until the ballast is complete again.
func (b *Ballast) warn(message string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.warned {
		b.warned = true
		var details []any
		if err != nil {
			details = []any{"error", err}
		}
		b.opts.Logger.Warn(message, details...)
	}
}

func (b *Ballast) saw(stored int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stored = max(0, stored)
}

// ballast is how large that of the account should be, in bytes for each replica.
func (q *Quota) ballast() int64 {
	q.refresh(quotaInterval)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit == 0 || q.limit == math.MaxInt64 {
		return maxBallast
	}
	return min(maxBallast, max(minBallast, q.limit/q.copies/ballastShare))
}
