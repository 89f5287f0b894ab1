package kvstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/replicas"
)

const (
	fetchMessages = 2000
	fetchBytes    = 64 << 20 // above MaxPayload, or a large message would stall
	heartbeat     = 2 * time.Second
	checkInterval = 2 * time.Second
	// stallTimeout is how long an outstanding message may take to come. After
	// that it was expired meanwhile, or it cannot be read.
	stallTimeout = 3 * time.Second
	// lagTimeout is the same in a cluster for the first maxLags consumers: one that
	// lives on a server which is behind brings nothing, and the next may live on
	// another.
	lagTimeout = 400 * time.Millisecond
	maxLags    = 8
	// maxBackoff is the longest pause between two sessions; refusedPause is the one
	// after a bucket that is not followed until somebody does something about it.
	maxBackoff   = 500 * time.Millisecond
	refusedPause = 2 * time.Second
	// recordInterval is how often the ledger learns of the revision reached.
	recordInterval = 30 * time.Second
)

var (
	errAway   = errors.New("NATS is away")
	errGap    = errors.New("a message of the bucket was missed")
	errBehind = errors.New("the bucket's last messages did not come")
	errUnsure = errors.New("the outcome of a write is not known")
	errMoved  = errors.New("the bucket's state has changed; looking at it again")
)

// follower is what Run remembers from one session to the next.
type follower struct {
	*Store
	js jetstream.JetStream
	// created tells a bucket from another of the same name.
	created time.Time
	// stalls counts the sessions in a row whose consumer brought less than there is.
	stalls int
	// doubted is since when the bucket has looked like another, or an older, one.
	doubted time.Time
	// buried are objects that were deleted and are back, with their revisions.
	buried map[string]uint64
	logged string
	// recorded is the revision in the ledger, and recordedAt since when.
	recorded   uint64
	recordedAt time.Time
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
		f.opts.Logger.Warn("the revision reached cannot be recorded", "error", err)
	}
	f.recorded, f.recordedAt = rev, time.Now()
}

// down records, and logs once, why the bucket is not followed.
func (f *follower) down(err error) {
	f.setDown(err)
	if msg := err.Error(); msg != f.logged {
		f.logged = msg
		level := slog.LevelWarn
		if errors.Is(err, errRefused) {
			level = slog.LevelError
		}
		f.opts.Logger.Log(context.Background(), level, "not following the bucket", "error", err)
	}
}

// pause waits before the next session, and longer while there is no connection.
func (f *follower) pause(ctx context.Context, d time.Duration) {
	nc := f.js.Conn()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	timer := time.NewTimer(d)
	defer timer.Stop()
	if !nc.IsConnected() {
		timer.Reset(max(d, maxBackoff))
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
	if err == nil {
		err = f.checkHistory(info)
	}
	if err != nil {
		return sessionError(ctx, err)
	}
	f.link.Store(&link{js: f.js, stream: stream, replicas: info.Config.Replicas})
	reached := f.mirror.revision()
	// One who was away while the bucket was cleaned has missed the tombstones.
	resume := f.Loaded() && info.Created.Equal(f.created) && cleanedUpTo(info) <= reached
	feed, err := f.openFeed(ctx, info, reached, resume)
	if err != nil {
		return sessionError(ctx, err)
	}
	if info.Config.Replicas > 1 {
		// The consumer may live on a server that is behind, and that has nothing left
		// to send. Where NATS takes no message, it is believed.
		if mark, err := f.publishBarrier(f.link.Load()); err == nil {
			feed.until(mark)
		}
	}
	if resume {
		err = f.catchUp(feed, info)
	} else {
		err = f.load(ctx, feed, stream, info)
	}
	if errors.Is(err, errBehind) {
		if f.stalls++; !f.mayLag(info) {
			f.created = time.Time{} // what cannot be read is found by a load
		}
	}
	if err == nil {
		f.created, f.stalls = info.Created, 0
		level := slog.LevelDebug
		if f.logged != "" { // an operator who read of the loss reads of its end
			level = slog.LevelInfo
		}
		f.logged = ""
		f.setUp()
		f.opts.Logger.Log(ctx, level, "following the bucket", "objects", f.count(), "revision", f.mirror.revision(),
			"resumed", resume)
		var side sync.WaitGroup
		side.Go(func() { cancel(f.check(ctx, stream, info.Created)) })
		side.Go(func() { (&cleaner{f}).keepClean(ctx, stream, info) })
		err = f.live(ctx, feed)
		cancel(nil)
		side.Wait()
	}
	feed.close()
	return sessionError(ctx, err)
}

// mayLag reports whether a message that does not come may be one that the consumer's
// server does not have yet.
func (f *follower) mayLag(info *jetstream.StreamInfo) bool {
	return info.Config.Replicas > 1 && f.stalls < maxLags
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
		c, err := feed.next()
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
	for !feed.complete() {
		c, err := feed.next()
		if err != nil {
			return err
		}
		f.apply(c)
	}
	f.reach(info.State.LastSeq)
	return nil
}

// check asks the server now and then whether the bucket is still the one that is
// followed. It returns when it may not be, or when ctx ends.
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
			return errMoved
		case err != nil || !replicas.Led(info):
			continue // the feed's heartbeat tells whether the server is away
		case !info.Created.Equal(created) || info.State.LastSeq < reached:
			return errMoved
		case info.State.LastSeq > reached && behind == reached:
			return fmt.Errorf("%w: revision %d of %d", errBehind, reached, info.State.LastSeq)
		case info.State.LastSeq > reached:
			behind = reached
		default:
			behind = 0
			f.recordRevision(recordInterval)
		}
		f.metrics.last.Store(info.State.LastSeq)
	}
}
