package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/store/keylog"
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
	kind          Kind
	opts          Options
	observers     []Observer
	prefix        string // of storage keys: "/baremetalhosts/"
	streamName    string
	subjectPrefix string
	versioner     storage.APIObjectVersioner
	metrics       *metrics

	mirror    *mirror
	progress  progress // what the observers have seen
	sequencer sequencer
	barriers  rounds
	own       ownWrites
	expiries  expiries
	// keys is what the bucket holds and held, as this server knows it.
	keys *keylog.Log
	// foreign is set once the bucket holds a message that is not a store's.
	foreign atomic.Bool
	unsure  chan struct{} // a write's outcome is not known
	loaded  atomic.Bool
	up      atomic.Bool
	sized   atomic.Bool // EnableResourceSizeEstimation was called
	link    atomic.Pointer[link]
	// connection is the one that Guard was last asked about, by the number of
	// reconnects before it.
	connection atomic.Uint64

	mu        sync.Mutex
	downCause error
}

// link is the bucket as the running session sees it.
type link struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	// replicas is how many servers of a cluster hold the bucket.
	replicas int
}

var _ storage.Interface = (*Store)(nil)

// New makes the store of a kind. It needs no server and never blocks: until Run
// has read the bucket, every call is answered 503.
func New(kind Kind, opts Options, observers ...Observer) *Store {
	opts = opts.withDefaults()
	opts.Logger = opts.Logger.With("bucket", kind.Bucket)
	s := &Store{
		kind:          kind,
		opts:          opts,
		observers:     observers,
		prefix:        "/" + kind.Resource + "/",
		streamName:    "KV_" + kind.Bucket,
		subjectPrefix: "$KV." + kind.Bucket + ".",
		mirror:        newMirror(opts.WindowBytes),
		downCause:     errors.New("the bucket was not read yet"),
	}
	s.expiries.wake = make(chan struct{}, 1)
	s.unsure = make(chan struct{}, 1)
	s.keys = keylog.New(s.keyPath())
	s.metrics = newMetrics(opts.Registerer, s)
	return s
}

// Loaded tells whether the bucket was read once.
func (s *Store) Loaded() bool { return s.loaded.Load() }

// Lost gives the keys of the objects that were stored and are lost or damaged, so
// that the mirror lacks them or has an older value; nil if there are none. It must
// not be changed.
func (s *Store) Lost() []string { return s.metrics.lostKeys() }

// Note gives what Kind.Note said of an object while it was there; "" if that is not
// known.
func (s *Store) Note(key string) string { return s.keys.Get(key).Note }

// ReadinessCheck fails while the bucket is not read, or not followed.
func (s *Store) ReadinessCheck() error {
	if s.Loaded() && s.up.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("bucket %s: %w", s.kind.Bucket, s.downCause)
}

// Versioner gives the revisions' arithmetic.
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

// decode reads a value and gives it its revision.
func (s *Store) decode(key string, value []byte, rev uint64, out runtime.Object) error {
	if err := s.kind.Codec.Decode(value, out); err != nil {
		return storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", s.storageKey(key), err))
	}
	return s.versioner.UpdateObject(out, rev)
}

// awaitRevision makes the mirror new enough for a read: not older than the given
// revision, and as new as the bucket for "". So it is for "0", which allows
// anything, where NATS answers soon: a client does not go back in time by asking
// another replica. While NATS does not answer, "0" is what can still be read.
func (s *Store) awaitRevision(ctx context.Context, resourceVersion string) error {
	if !s.Loaded() {
		return s.unavailable()
	}
	switch resourceVersion {
	case "":
		return s.barrier(ctx)
	case "0":
		ctx, cancel := context.WithTimeout(ctx, anyTimeout)
		defer cancel()
		_ = s.barrier(ctx)
		return nil
	}
	rev, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	return s.awaitReached(ctx, rev)
}

// awaitReached waits for a revision that the bucket has, and refuses one that it
// does not have.
func (s *Store) awaitReached(ctx context.Context, rev uint64) error {
	if rev <= s.mirror.revision() {
		return nil
	}
	if err := s.barrier(ctx); err != nil {
		return err
	}
	if reached := s.mirror.revision(); rev > reached {
		return storage.NewTooLargeResourceVersionError(rev, reached, 1)
	}
	return nil
}

// GetCurrentResourceVersion gives the bucket's newest revision.
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

// CompactRevision gives the newest revision that can no longer be read; 0 if the
// window still goes back to the load.
func (s *Store) CompactRevision() int64 {
	s.mirror.mu.RLock()
	defer s.mirror.mu.RUnlock()
	return int64(s.mirror.compacted)
}

// RequestWatchProgress does nothing: it serves the library's watch cache, which
// the mirror replaces.
func (s *Store) RequestWatchProgress(context.Context) error { return nil }

// unavailable is the 503 of a call that was not begun.
func (s *Store) unavailable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := apierrors.NewServiceUnavailable(fmt.Sprintf("the store of %s is not available: %v", s.kind.Resource, s.downCause))
	err.ErrStatus.Details = retryDetails
	return err
}

// timeout is the 504 of a call that took too long: a write may have been done.
func (s *Store) timeout(doing string) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("the store of %s did not answer in time (%s)", s.kind.Resource, doing), 1)
}

// connected tells whether there is a server to write to. After a reconnect there is
// none until Guard was asked again: it may be another one, or an emptied one.
func (s *Store) connected() (*link, bool) {
	l := s.link.Load()
	if l == nil {
		return nil, false
	}
	conn := l.js.Conn()
	return l, conn.Status() == nats.CONNECTED && conn.Stats().Reconnects == s.connection.Load()
}
