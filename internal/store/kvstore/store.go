// Package kvstore keeps API objects in JetStream KV buckets and implements
// k8s.io/apiserver/pkg/storage.Interface on them.
//
// A Store follows one bucket with one consumer and mirrors it in memory: reads
// and watches are answered from the mirror, writes are compare-and-set publishes
// that are answered once the mirror has them. DESIGN.md has the reasons.
package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/workqueue"

	"glowplug/internal/store/keylog"
	"glowplug/internal/store/question"
	"glowplug/internal/store/replicas"
	"glowplug/internal/store/session"
)

const (
	// callTimeout bounds what a caller waits for the server, whatever happens.
	callTimeout = 5 * time.Second
	// publishTimeout leaves time within callTimeout to find out what became of
	// a write that was not acknowledged.
	publishTimeout = 3500 * time.Millisecond
	// barrierTimeout bounds the question how far the bucket is.
	barrierTimeout = 2 * time.Second
	// anyTimeout bounds it for a read that need not be current.
	anyTimeout = 300 * time.Millisecond
)

// Store is one bucket. It is made with New and lives while Run does; after that,
// and before, reads are answered from what it last knew.
type Store struct {
	*writer
	*connection
	bucket *bucket
	sized  atomic.Bool // EnableResourceSizeEstimation was called
}

// contents is what the bucket holds, as this server knows it.
type contents struct {
	*bucket
	observers []Observer
	metrics   *metrics
	mirror    *mirror
	progress  progress // what the observers have seen
	sequencer sequencer
	own       ownWrites
	expiries  workqueue.TypedDelayingInterface[expiring]
	// keys is what the bucket holds and held, over restarts of this server.
	keys *keylog.Log
	// foreign is set once the bucket holds a message that is not a store's.
	foreign atomic.Bool
}

// writer writes into the bucket, and finds out what became of its writes.
type writer struct {
	bucket     *bucket
	contents   *contents
	connection *connection
	barriers   rounds
	unsure     chan struct{} // a write's outcome is not known
}

var _ storage.Interface = (*Store)(nil)

// New makes the store of a kind. It needs no server and never blocks: until Run
// has read the bucket, every call is answered 503.
func New(kind Kind, opts Options, observers ...Observer) *Store {
	b := newBucket(kind, opts)
	c := &contents{bucket: b, observers: observers, mirror: newMirror(b.opts.WindowBytes)}
	c.keys = keylog.New(c.keyPath())
	conn := &connection{bucket: b, downCause: errors.New("the bucket was not read yet")}
	s := &Store{bucket: b, connection: conn, writer: &writer{
		bucket: b, contents: c, connection: conn, unsure: make(chan struct{}, 1),
	}}
	c.metrics = newMetrics(opts.Registerer, s)
	return s
}

// Lost returns the keys of the objects that were stored and are lost or damaged, so
// that the mirror lacks them or has an older value; nil if there are none. It must
// not be changed.
func (s *Store) Lost() []string { return s.contents.metrics.lostKeys() }

// Lag returns how many revisions the bucket of a store is known to be ahead of its mirror.
func Lag(s *Store) int64 { return s.contents.metrics.lag() }

// Versioner returns the versioner of the revisions.
func (s *Store) Versioner() storage.Versioner { return s.bucket.versioner }

// Get reads an object.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	bucketKey, err := s.bucket.bucketKey(key, false)
	if err != nil {
		return err
	}
	if err := s.awaitRevision(ctx, opts.ResourceVersion); err != nil {
		return err
	}
	e := s.contents.mirror.get(bucketKey)
	if e == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err := holdValue(ctx, e); err != nil {
		return err
	}
	return s.bucket.decode(e.Key, e.Value, e.Revision, out)
}

// GetCurrentResourceVersion returns the bucket's newest revision.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := s.barrier(ctx); err != nil {
		return 0, err
	}
	return s.contents.mirror.revision(), nil
}

// Stats counts the objects.
func (s *Store) Stats(context.Context) (storage.Stats, error) {
	if !s.connection.Loaded() {
		return storage.Stats{}, s.connection.unavailable()
	}
	count, size := s.contents.mirror.stats()
	stats := storage.Stats{ObjectCount: count}
	if s.sized.Load() && count > 0 {
		stats.EstimatedAverageObjectSizeBytes = size / count
	}
	return stats, nil
}

// EnableResourceSizeEstimation makes Stats give sizes. They are exact, and keys
// are not asked for.
func (s *Store) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("KeysFunc cannot be nil")
	}
	s.sized.Store(true)
	return nil
}

// CompactRevision returns the newest revision that can no longer be read; 0 if the
// window still goes back to the load.
func (s *Store) CompactRevision() int64 {
	s.contents.mirror.mu.RLock()
	defer s.contents.mirror.mu.RUnlock()
	return int64(s.contents.mirror.compacted)
}

// RequestWatchProgress does nothing: it serves the library's watch cache, which
// the mirror replaces.
func (s *Store) RequestWatchProgress(context.Context) error { return nil }

// Run follows the bucket until ctx ends, over every loss of the server. It makes
// the bucket if it never existed. Changes reach the observers of New first, then those
// that are given here, which may need what the former have made of a change.
func (s *Store) Run(ctx context.Context, js jetstream.JetStream, observers ...Observer) {
	s.contents.observers = append(s.contents.observers, observers...)
	if err := s.contents.keys.Read(); err != nil {
		s.bucket.opts.Logger.Error("the key log cannot be read; what the bucket has lost is not noticed", "error", err)
	}
	s.contents.expiries = workqueue.NewTypedDelayingQueue[expiring]()
	var side sync.WaitGroup
	side.Go(func() { s.expire(ctx) })
	side.Go(func() { s.contents.writeKeys(ctx) })
	defer side.Wait()

	f := &follower{store: s, js: js}
	defer f.recordRevision(0)
	f.sessions = &session.Follower{JS: js, Logger: s.bucket.opts.Logger, Message: "not following the bucket",
		Session: f.session, Down: f.down, Refused: isRefused}
	f.sessions.Run(ctx)
	s.connection.setDown(errors.New("the store is stopped"))
}

const (
	// firstSeq begins a bucket at revision 1 while it is empty, since the API
	// library refuses lists of revision 0.
	firstSeq = 2

	// longAge is more than any bucket lives.
	longAge = 100 * 365 * 24 * time.Hour

	// cleanedKey is the member of the stream's metadata with the revision up to
	// which the bucket was cleaned, see clean. Buckets of earlier releases, whose
	// tombstones expired, have none.
	cleanedKey = "glowplug-cleaned"
)

// openBucket finds the stream, or makes it where none ever was.
func (f *follower) openBucket(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, *jetstream.StreamInfo,
	error) {
	if err := f.askGuard(ctx, js); err != nil {
		return nil, nil, err
	}
	stream, err := f.findBucket(ctx, js)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := f.store.bucket.adjustBucket(ctx, js, stream); err != nil {
		return nil, nil, err
	}
	if f.store.bucket.opts.Ledger != nil {
		if err := f.store.bucket.opts.Ledger.Add(f.store.bucket.kind.Bucket); err != nil {
			return nil, nil, fmt.Errorf("recording the bucket: %w", err)
		}
	}
	info, err := question.Ask(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return stream.Info(ctx) })
	if err != nil {
		return nil, nil, fmt.Errorf("reading the bucket's state: %w", err)
	}
	if !replicas.Led(info) {
		return nil, nil, errNoLeader
	}
	return stream, info, nil
}

// askGuard asks whether the store may be used at all.
func (f *follower) askGuard(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reconnects := js.Conn().Stats().Reconnects
	if f.store.bucket.opts.Guard != nil {
		if err := f.store.bucket.opts.Guard(ctx, js); err != nil {
			f.store.connection.link.Store(nil) // what it refuses is not written either
			return err
		}
	}
	f.store.connection.guarded.Store(reconnects)
	return nil
}

// findBucket asks for the stream.
func (f *follower) findBucket(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	bucket := f.store.bucket
	askCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := question.Ask(askCtx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.Stream(ctx, bucket.streamName)
	})
	switch {
	case err == nil && !replicas.Led(stream.CachedInfo()):
		return nil, errNoLeader
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if f.store.Loaded() || !f.store.contents.keys.Created().IsZero() ||
			bucket.opts.Ledger != nil && bucket.opts.Ledger.Has(bucket.kind.Bucket) {
			return nil, bucket.bucketLost()
		}
		makeCtx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if stream, err = replicas.Create(makeCtx, js, bucket.streamConfig(), bucket.opts.Replicas); err != nil {
			return nil, fmt.Errorf("making the bucket: %w", err)
		}
		bucket.opts.Logger.Debug("made the bucket")
	case err != nil:
		return nil, fmt.Errorf("opening the bucket: %w", err)
	}
	return stream, nil
}

// streamConfig is what jetstream.CreateKeyValue would make, and differs in that
// reads never go to a replica that is behind. Nothing in it expires: the server
// takes an expired tombstone out of its memory and its index only, and the value
// that the tombstone hid is still in a block. After a kill -9 the index is
// rebuilt from the blocks, and the deleted object would be back.
func (b *bucket) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               b.streamName,
		Subjects:           []string{b.subjectPrefix + ">"},
		Storage:            jetstream.FileStorage,
		MaxMsgsPerSubject:  1,
		Discard:            jetstream.DiscardNew,
		Duplicates:         2 * time.Minute,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgSize:         -1,
		MaxConsumers:       -1,
		AllowRollup:        true,
		DenyDelete:         true,
		FirstSeq:           firstSeq,
		AllowAtomicPublish: b.kind.Batched,
		Metadata:           map[string]string{cleanedKey: "0"},
	}
}

// StreamConfig returns the configuration of a new bucket of a kind.
func StreamConfig(kind Kind) jetstream.StreamConfig { return newBucket(kind, Options{}).streamConfig() }

// errNoBatches is the error for an older server, which ignores unknown fields in the configuration of a stream.
var errNoBatches = errors.New("the bucket needs a NATS server of version 2.12 or later, which stores messages together")

// adjustBucket brings a stream that others made, with "nats kv add" say, to what
// the store relies on.
func (b *bucket) adjustBucket(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream) error {
	cfg := stream.CachedInfo().Config
	if !slices.Equal(cfg.Subjects, []string{b.subjectPrefix + ">"}) {
		return fmt.Errorf("stream %s is no KV bucket: it has the subjects %q", b.streamName, cfg.Subjects)
	}
	if cfg, differs := b.adjusted(cfg); differs {
		adjusted, err := js.UpdateStream(ctx, cfg)
		if err != nil {
			return fmt.Errorf("adjusting the bucket: %w", err)
		}
		if b.kind.Batched && !adjusted.CachedInfo().Config.AllowAtomicPublish {
			return errNoBatches
		}
	}
	if stream.CachedInfo().State.LastSeq == 0 {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(firstSeq)); err != nil {
			return fmt.Errorf("adjusting the bucket: %w", err)
		}
	}
	return nil
}

// adjusted returns a stream's configuration as the store needs it, and whether it differs. A short age is of a
// bucket that "nats kv add --ttl" has made; a long one, which earlier releases gave, means for ever.
func (b *bucket) adjusted(cfg jetstream.StreamConfig) (_ jetstream.StreamConfig, differs bool) {
	expires := cfg.MaxAge > 0 && cfg.MaxAge < longAge
	lacksBatches := b.kind.Batched && !cfg.AllowAtomicPublish
	differs = cfg.AllowDirect || expires || lacksBatches
	if expires {
		cfg.MaxAge = 0
	}
	cfg.AllowDirect, cfg.AllowAtomicPublish = false, cfg.AllowAtomicPublish || b.kind.Batched
	return cfg, differs
}

// LossLedger is a Ledger that knows why a bucket is missing.
type LossLedger interface {
	Ledger
	// Lost says why a bucket that was recorded is missing, with the remedy; nil if
	// nothing is known.
	Lost(bucket string) error
}

// bucketLost is the error of a bucket that held data and is missing.
func (b *bucket) bucketLost() error {
	if ledger, ok := b.opts.Ledger.(LossLedger); ok {
		if err := ledger.Lost(b.kind.Bucket); err != nil {
			return err
		}
	}
	return errBucketLost
}
