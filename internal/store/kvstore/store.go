package kvstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/workqueue"

	"glowplug/internal/store/keylog"
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
	sized atomic.Bool // EnableResourceSizeEstimation was called
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
	*bucket
	*contents
	*connection
	barriers rounds
	unsure   chan struct{} // a write's outcome is not known
}

var _ storage.Interface = (*Store)(nil)

// New makes the store of a kind. It needs no server and never blocks: until Run
// has read the bucket, every call is answered 503.
func New(kind Kind, opts Options, observers ...Observer) *Store {
	b := newBucket(kind, opts)
	c := &contents{bucket: b, observers: observers, mirror: newMirror(b.opts.WindowBytes)}
	c.keys = keylog.New(c.keyPath())
	s := &Store{writer: &writer{
		bucket: b, contents: c, unsure: make(chan struct{}, 1),
		connection: &connection{bucket: b, downCause: errors.New("the bucket was not read yet")},
	}}
	c.metrics = newMetrics(opts.Registerer, s)
	return s
}

// Lost returns the keys of the objects that were stored and are lost or damaged, so
// that the mirror lacks them or has an older value; nil if there are none. It must
// not be changed.
func (s *Store) Lost() []string { return s.metrics.lostKeys() }

// Note returns what Kind.Note said of an object while it was there; "" if that is not
// known.
func (s *Store) Note(key string) string { return s.keys.Get(key).Note }

// Versioner returns the versioner of the revisions.
func (s *Store) Versioner() storage.Versioner { return s.versioner }

// Get reads an object.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	bucketKey, err := s.bucketKey(key, false)
	if err != nil {
		return err
	}
	if err := s.awaitRevision(ctx, opts.ResourceVersion); err != nil {
		return err
	}
	e := s.mirror.get(bucketKey)
	if e == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err := holdValue(ctx, e); err != nil {
		return err
	}
	return s.decode(e.Key, e.Value, e.Revision, out)
}

// GetCurrentResourceVersion returns the bucket's newest revision.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := s.barrier(ctx); err != nil {
		return 0, err
	}
	return s.mirror.revision(), nil
}

// Stats counts the objects.
func (s *Store) Stats(context.Context) (storage.Stats, error) {
	if !s.Loaded() {
		return storage.Stats{}, s.unavailable()
	}
	count, size := s.mirror.stats()
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
	s.mirror.mu.RLock()
	defer s.mirror.mu.RUnlock()
	return int64(s.mirror.compacted)
}

// RequestWatchProgress does nothing: it serves the library's watch cache, which
// the mirror replaces.
func (s *Store) RequestWatchProgress(context.Context) error { return nil }

// Run follows the bucket until ctx ends, over every loss of the server. It makes
// the bucket if it never existed. Changes reach the observers of New first, then those
// that are given here, which may need what the former have made of a change.
func (s *Store) Run(ctx context.Context, js jetstream.JetStream, observers ...Observer) {
	s.observers = append(s.observers, observers...)
	if err := s.keys.Read(); err != nil {
		s.opts.Logger.Error("the key log cannot be read; what the bucket has lost is not noticed", "error", err)
	}
	s.expiries = workqueue.NewTypedDelayingQueue[expiring]()
	var side sync.WaitGroup
	side.Go(func() { s.expire(ctx) })
	side.Go(func() { s.writeKeys(ctx) })
	defer side.Wait()

	f := &follower{Store: s, js: js}
	defer f.recordRevision(0)
	f.sessions = &session.Follower{JS: js, Logger: s.opts.Logger, Message: "not following the bucket",
		Session: f.session, Down: f.down, Refused: isRefused}
	f.sessions.Run(ctx)
	s.setDown(errors.New("the store is stopped"))
}
