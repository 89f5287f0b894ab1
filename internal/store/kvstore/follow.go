package kvstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/btree"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/keylog"
	"glowplug/internal/store/question"
	"glowplug/internal/store/replicas"
	"glowplug/internal/store/session"
)

const (
	fetchMessages = 2000
	fetchBytes    = 64 << 20 // above MaxPayload, or a large message would stall
	checkInterval = 2 * time.Second
	// recordInterval is how often the ledger learns of the revision reached.
	recordInterval = 30 * time.Second
)

var (
	errUnsure = errors.New("the outcome of a write is not known")
	errMoved  = errors.New("the bucket's state has changed; looking at it again")
)

// follower is what Run remembers from one session to the next.
type follower struct {
	store *Store
	js    jetstream.JetStream
	// created distinguishes a bucket from another of the same name.
	created time.Time
	// stalls counts the sessions in a row whose consumer brought less than there is.
	stalls int
	// history is in doubt where the bucket looks like another, or an older, one.
	history session.Doubt
	// buried are objects that were deleted and are back, with their revisions.
	buried   map[string]uint64
	sessions *session.Follower
	// formerKeys is true where files of the bucket may have values that are encrypted with
	// other keys than new ones, or not at all.
	formerKeys bool
	// recorded is the revision in the ledger, and recordedAt since when.
	recorded   uint64
	recordedAt time.Time
}

// recordRevision puts the revision into the ledger, if it has changed and the
// last time is long enough ago.
func (f *follower) recordRevision(interval time.Duration) {
	ledger, ok := f.store.bucket.opts.Ledger.(RevisionLedger)
	rev := f.store.contents.mirror.revision()
	if !ok || !f.store.Loaded() || rev == f.recorded || time.Since(f.recordedAt) < interval {
		return
	}
	if err := ledger.Reach(f.store.bucket.kind.Bucket, rev); err != nil {
		f.store.bucket.opts.Logger.Warn("the revision reached cannot be recorded", "error", err)
	}
	f.recorded, f.recordedAt = rev, time.Now()
}

// down records why the bucket is not followed. While it is refused nothing is written.
func (f *follower) down(err error) {
	f.store.connection.setDown(err)
	if isRefused(err) {
		f.store.connection.link.Store(nil)
	}
}

// session follows the bucket for as long as one consumer lives.
func (f *follower) session(ctx context.Context) error {
	stream, info, err := f.openKnownBucket(ctx)
	if err != nil {
		return err
	}
	f.store.connection.link.Store(&link{js: f.js, stream: stream, replicas: info.Config.Replicas})
	reached, from := f.store.contents.mirror.revision(), uint64(1)
	// A server that was away while the bucket was cleaned has missed the tombstones.
	resume := f.store.Loaded() && info.Created.Equal(f.created) && cleanedUpTo(info) <= reached
	if resume {
		from = reached + 1
	}
	feed, err := f.openFeed(ctx, info, from)
	if err != nil {
		return err
	}
	defer func() { feed.consumer.Close() }()
	if info.Config.Replicas > 1 {
		// The consumer may live on a server that is behind, and that has nothing left to send. It
		// is believed only where NATS has no room for a message.
		mark, err := f.askBarrier(ctx)
		switch {
		case err == nil:
			feed.until(mark)
		case !isFull(err):
			return err
		}
	}
	if resume {
		err = f.catchUp(feed, info)
	} else {
		err = f.load(ctx, feed, stream, info)
	}
	if errors.Is(err, session.ErrStalled) {
		if f.stalls++; !f.mayLag(info) {
			f.created = time.Time{} // what cannot be read is found by a load
		}
	}
	if err != nil {
		return err
	}
	f.created, f.stalls = info.Created, 0
	level := slog.LevelDebug
	if f.sessions.Following() {
		level = slog.LevelInfo
	}
	f.store.bucket.opts.Logger.Log(ctx, level, "following the bucket", "objects", f.store.contents.count(), "revision", f.store.contents.mirror.revision(),
		"resumed", resume)
	ctx, cancel := context.WithCancelCause(ctx)
	var side sync.WaitGroup
	side.Go(func() { cancel(f.check(ctx, stream, info.Created)) })
	side.Go(func() { (&cleaner{f, f.store}).keepClean(ctx, stream, info) })
	cancel(f.live(ctx, feed))
	side.Wait()
	return context.Cause(ctx)
}

// openKnownBucket opens the bucket, and makes sure that it is the one that this server knows before it records
// the key of new values.
func (f *follower) openKnownBucket(ctx context.Context) (jetstream.Stream, *jetstream.StreamInfo, error) {
	stream, info, err := f.openBucket(ctx, f.js)
	if err == nil {
		err = f.checkHistory(info)
	}
	if err == nil {
		err = f.adjustSamples(ctx, f.js, info)
	}
	return stream, info, err
}

// askBarrier is publishBarrier at the beginning of a session.
func (f *follower) askBarrier(ctx context.Context) (mark uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return question.Ask(ctx, func(ctx context.Context) (uint64, error) {
		return f.store.publishBarrier(ctx, f.store.connection.link.Load())
	})
}

// mayLag reports whether a message that does not come may be one that the consumer's
// server does not have yet.
func (f *follower) mayLag(info *jetstream.StreamInfo) bool {
	return info.Config.Replicas > 1 && f.stalls < session.MaxLags
}

// live keeps the mirror up to date until the session ends.
func (f *follower) live(ctx context.Context, feed *feed) error {
	if f.store.bucket.opts.Exclusive {
		feed.consumer.Close()
		f.store.contents.goLive()
		defer f.store.contents.endLive()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.store.unsure:
			return errUnsure
		}
	}
	for {
		c, err := feed.next()
		if err != nil {
			return err
		}
		f.store.contents.apply(c)
	}
}

// catchUp applies what was missed since the last session. The store is up before that:
// a write may be answered as soon as its change is applied, and its writer may read.
func (f *follower) catchUp(feed *feed, info *jetstream.StreamInfo) error {
	for !feed.complete() {
		c, err := feed.next()
		if err != nil {
			return err
		}
		f.store.connection.setUp()
		f.store.contents.apply(c)
	}
	f.store.connection.setUp()
	f.store.contents.reach(info.State.LastSeq)
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
		reached := f.store.contents.mirror.revision()
		infoCtx, cancel := context.WithTimeout(ctx, barrierTimeout)
		info, err := stream.Info(infoCtx)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return errMoved
		case err != nil || !replicas.Led(info):
			continue // the heartbeat of the feed detects that the server is away
		case !info.Created.Equal(created) || info.State.LastSeq < reached:
			return errMoved
		case info.State.LastSeq > reached && behind == reached:
			return fmt.Errorf("%w: revision %d of %d", session.ErrStalled, reached, info.State.LastSeq)
		case info.State.LastSeq > reached:
			behind = reached
		default:
			behind = 0
			f.recordRevision(recordInterval)
		}
		f.store.contents.metrics.last.Store(info.State.LastSeq)
	}
}

// loading is a bucket that is being read.
type loading struct {
	*contents
	tree *btree.BTreeG[*entry]
	// last is each key's last message, a tombstone or a damaged value, too.
	last map[string]keylog.Record
	// bad are the keys whose value is damaged or lost; unreadable those of them that
	// the server lists and cannot read.
	bad, unreadable map[string]bool
	rev             uint64
}

func (l *loading) add(c change) {
	l.rev = max(l.rev, c.rev)
	l.own.observe(c)
	if c.skip {
		return
	}
	l.last[c.key] = keylog.Record{Revision: c.rev, Deleted: c.put == nil && c.corrupt == nil}
	if c.corrupt != nil {
		l.bad[c.key] = true
		l.logDamaged(c)
		return
	}
	delete(l.bad, c.key)
	if c.put != nil {
		l.tree.ReplaceOrInsert(c.put)
	} else {
		l.tree.Delete(&entry{Item: Item{Key: c.key}})
	}
}

// load reads the whole bucket and replaces the mirror by it.
func (f *follower) load(ctx context.Context, feed *feed, stream jetstream.Stream, info *jetstream.StreamInfo) error {
	began := time.Now()
	l := &loading{
		contents: f.store.contents,
		tree:     newTree(), last: make(map[string]keylog.Record, feed.left),
		bad: map[string]bool{}, unreadable: map[string]bool{},
		rev: max(info.State.LastSeq, firstSeq-1),
	}
	f.store.contents.foreign.Store(false)
	for !feed.complete() {
		c, err := feed.next()
		if errors.Is(err, session.ErrStalled) && !f.mayLag(info) {
			if err := l.salvage(ctx, stream); err != nil {
				return err
			}
			// What follows is read by a consumer that begins behind the damage.
			feed.consumer.Close()
			next, err := f.openFeed(ctx, info, l.rev+1)
			if err != nil {
				return err
			}
			*feed = *next
			break
		}
		if err != nil {
			return err
		}
		l.add(c)
	}
	f.buried = l.verify(cleanedUpTo(info))
	f.store.contents.keys.Replace(info.Created, l.known(), l.rev)
	f.store.contents.metrics.setDamaged(slices.Sorted(maps.Keys(l.bad)))
	f.replace(l)
	f.store.bucket.opts.Logger.Debug("read the bucket", "objects", l.tree.Len(), "took", time.Since(began))
	return ctx.Err()
}

// replace makes the loaded bucket the mirror, and calls the observers.
func (f *follower) replace(l *loading) {
	items := make([]Item, 0, l.tree.Len())
	l.tree.Ascend(func(e *entry) bool {
		items = append(items, e.Item)
		f.store.contents.expireLater(e)
		return true
	})
	f.store.contents.mirror.reset(l.tree, l.rev)
	for _, o := range f.store.contents.observers {
		o.Load(items)
	}
	f.store.connection.setUp() // before the writers that wait for a revision are answered
	f.store.contents.progress.restart(l.rev)
	f.store.connection.loaded.Store(true)
}
