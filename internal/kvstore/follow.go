package kvstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	fetchMessages = 2000
	fetchBytes    = 64 << 20 // above MaxPayload, or a large message would stall
	heartbeat     = 2 * time.Second
	checkInterval = 2 * time.Second
	// stallTimeout is how long an outstanding message may take to come. After
	// that it was expired meanwhile, or it cannot be read.
	stallTimeout = 3 * time.Second
	maxBackoff   = 2 * time.Second
	// recordInterval is how often the ledger learns of the revision reached.
	recordInterval = 30 * time.Second
)

var (
	errAway      = errors.New("NATS is away")
	errGap       = errors.New("a message of the bucket was missed")
	errRecreated = errors.New("the bucket was made anew")
	errBehind    = errors.New("the bucket's last messages did not come")
	errUnsure    = errors.New("the outcome of a write is not known")
)

// Run follows the bucket until ctx ends, over every loss of the server. It makes
// the bucket if it never existed. It always returns nil.
func (s *Store) Run(ctx context.Context, js jetstream.JetStream) error {
	expired := make(chan struct{})
	go func() {
		defer close(expired)
		s.expire(ctx)
	}()
	defer func() { <-expired }()

	f := &follower{Store: s, js: js}
	defer f.recordRevision(0)
	backoff := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		err := f.session(ctx)
		if ctx.Err() != nil {
			break
		}
		f.down(err)
		if time.Since(began) > 2*maxBackoff {
			backoff = 0
		}
		backoff = min(maxBackoff, max(2*backoff, 20*time.Millisecond))
		f.pause(ctx, backoff)
	}
	s.setDown(errors.New("the store is stopped"))
	return nil
}

// follower is what Run remembers from one session to the next.
type follower struct {
	*Store
	js jetstream.JetStream
	// created tells a bucket from another of the same name.
	created time.Time
	// contact is when the mirror was last known to be complete.
	contact time.Time
	logged  string
	// recorded is the revision in the ledger, and recordedAt since when.
	recorded   uint64
	recordedAt time.Time
}

// checkRevision raises an alarm if the bucket has lost its end.
func (f *follower) checkRevision(info *jetstream.StreamInfo) {
	ledger, ok := f.opts.Ledger.(RevisionLedger)
	if !ok {
		return
	}
	if had := ledger.Reached(f.kind.Bucket); info.State.LastSeq < had {
		f.metrics.lost.Store(had - info.State.LastSeq)
		f.opts.Logger.Error("the bucket ends before a revision that it had reached: writes are lost, or an older backup was restored. Compare it with a backup",
			"revision", info.State.LastSeq, "reached", had)
	}
}

// recordRevision puts the revision into the ledger, if it has changed and the
// last time is long enough ago.
func (f *follower) recordRevision(interval time.Duration) {
	ledger, ok := f.opts.Ledger.(RevisionLedger)
	rev := f.mirror.revision()
	if !ok || !f.Loaded() || rev == f.recorded || time.Since(f.recordedAt) < interval {
		return
	}
	if err := ledger.Reach(f.kind.Bucket, rev); err != nil {
		f.opts.Logger.Warn("the revision reached cannot be recorded", "err", err)
	}
	f.recorded, f.recordedAt = rev, time.Now()
}

// down records, and logs once, why the bucket is not followed.
func (f *follower) down(err error) {
	f.setDown(err)
	if msg := err.Error(); msg != f.logged {
		f.logged = msg
		f.opts.Logger.Warn("not following the bucket", "err", err)
	}
}

// setUp also says what is the matter if the next session has not noticed it yet.
func (s *Store) setUp() {
	s.setDown(errAway)
	s.up.Store(true)
}

func (s *Store) setDown(err error) {
	s.up.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downCause = err
}

// pause waits before the next session, and longer while there is no connection.
func (f *follower) pause(ctx context.Context, d time.Duration) {
	nc := f.js.Conn()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	timer := time.NewTimer(d)
	defer timer.Stop()
	if !nc.IsConnected() {
		timer.Reset(maxBackoff)
	}
	select {
	case <-ctx.Done():
	case <-connected:
	case <-timer.C:
	}
}

// session follows the bucket for as long as one consumer lives.
func (f *follower) session(ctx context.Context) error {
	nc := f.js.Conn()
	if !nc.IsConnected() {
		return errAway
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopStatus := onDisconnect(nc, func() { cancel(errAway) })
	defer stopStatus()

	stream, info, err := f.openBucket(ctx, f.js)
	if err != nil {
		return sessionError(ctx, err)
	}
	f.link.Store(&link{js: f.js, stream: stream})
	reached := f.mirror.revision()
	resume := f.Loaded() && info.Created.Equal(f.created) && info.State.LastSeq >= reached &&
		time.Since(f.contact) < tombstoneTTL/2
	feed, err := f.openFeed(ctx, info, reached, resume)
	if err != nil {
		return sessionError(ctx, err)
	}
	if resume {
		if err = f.catchUp(feed, info); errors.Is(err, errBehind) {
			f.created = time.Time{} // what cannot be read is found by a load
		}
	} else {
		f.checkRevision(info)
		err = f.load(ctx, feed, stream, info)
	}
	if err == nil {
		f.created, f.contact = info.Created, time.Now()
		level := slog.LevelDebug
		if f.logged != "" { // an operator who read of the loss reads of its end
			level = slog.LevelInfo
		}
		f.logged = ""
		f.setUp()
		f.opts.Logger.Log(ctx, level, "following the bucket", "objects", f.count(), "revision", f.mirror.revision(), "resumed", resume)
		checked := make(chan struct{})
		go func() {
			defer close(checked)
			cancel(f.check(ctx, stream, info.Created))
		}()
		err = f.live(ctx, feed)
		cancel(nil)
		<-checked
	}
	feed.close()
	return sessionError(ctx, err)
}

// live keeps the mirror up to date until the session ends.
func (f *follower) live(ctx context.Context, feed *feed) error {
	if f.opts.Exclusive {
		feed.close()
		f.goLive()
		defer f.endLive()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.unsure:
			return errUnsure
		}
	}
	for {
		c, _, err := feed.next()
		if err != nil {
			return err
		}
		f.apply(c)
	}
}

// sessionError prefers the reason why a session was ended to what that caused.
func sessionError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// onDisconnect calls f when the connection is lost, until it is stopped.
func onDisconnect(nc *nats.Conn, f func()) (stop func()) {
	lost := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-lost:
			f()
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		nc.RemoveStatusListener(lost)
	}
}

// catchUp applies what was missed since the last session.
func (f *follower) catchUp(feed *feed, info *jetstream.StreamInfo) error {
	for pending := feed.pending; pending > 0; {
		c, left, err := feed.next()
		if err != nil {
			return err
		}
		f.apply(c)
		pending = left
	}
	f.reach(info.State.LastSeq)
	return nil
}

// check asks the server now and then whether the bucket is still the one that is
// followed. It returns when it is not, or when ctx ends.
func (f *follower) check(ctx context.Context, stream jetstream.Stream, created time.Time) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	var behind uint64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		// Before the question: what is written meanwhile is no sign of another bucket.
		reached := f.mirror.revision()
		infoCtx, cancel := context.WithTimeout(ctx, barrierTimeout)
		info, err := stream.Info(infoCtx)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return errBucketLost
		case err != nil:
			continue // the feed's heartbeat tells whether the server is away
		case !info.Created.Equal(created) || info.State.LastSeq < reached:
			return errRecreated
		case info.State.LastSeq > reached && behind == reached:
			return fmt.Errorf("%w: revision %d of %d", errBehind, reached, info.State.LastSeq)
		case info.State.LastSeq > reached:
			behind = reached
		default:
			behind = 0
			f.contact = time.Now()
			f.recordRevision(recordInterval)
		}
		f.metrics.observeLast(info.State.LastSeq)
	}
}

func (s *Store) count() int64 {
	n, _ := s.mirror.stats()
	return n
}
