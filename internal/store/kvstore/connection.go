package kvstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"glowplug/internal/store/replicas"
	"glowplug/internal/store/session"
)

// link is the bucket as the running session sees it.
type link struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	// replicas is the number of servers of a cluster that hold the bucket.
	replicas int
}

// connection is the state of the connection to NATS: whether the bucket was read, is
// followed, and can be written.
type connection struct {
	bucket *bucket
	loaded atomic.Bool
	up     atomic.Bool
	link   atomic.Pointer[link]
	// guarded is the connection that Guard was last asked about, by the number of
	// reconnects before it.
	guarded atomic.Uint64

	mu        sync.Mutex
	downCause error
}

// Loaded reports whether the bucket was read once.
func (c *connection) Loaded() bool { return c.loaded.Load() }

// ReadinessCheck fails while the bucket is not read, or not followed.
func (c *connection) ReadinessCheck() error {
	if c.Loaded() && c.up.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("bucket %s: %w", c.bucket.kind.Bucket, c.downCause)
}

// unavailable is the 503 of a call that was not begun.
func (c *connection) unavailable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := apierrors.NewServiceUnavailable(fmt.Sprintf("the store of %s is not available: %v", c.bucket.kind.Resource,
		c.downCause))
	err.ErrStatus.Details = retryDetails
	return err
}

// unwritable is the 503 of a write that must not be begun.
func (c *connection) unwritable(cause error) error {
	err := apierrors.NewServiceUnavailable(fmt.Sprintf("the store of %s is not written: %v", c.bucket.kind.Resource, cause))
	err.ErrStatus.Details = retryDetails
	return err
}

// timeout is the 504 of a call that took too long: a write may have been done.
func (c *connection) timeout(doing string) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("the store of %s did not answer in time (%s)", c.bucket.kind.Resource,
		doing), 1)
}

// connected reports whether there is a server to write to. After a reconnect there is
// none until Guard was asked again: it may be another one, or an emptied one.
func (c *connection) connected() (*link, bool) {
	l := c.link.Load()
	if l == nil {
		return nil, false
	}
	conn := l.js.Conn()
	return l, conn.Status() == nats.CONNECTED && conn.Stats().Reconnects == c.guarded.Load()
}

// setUp also sets the cause for the time after a loss that no session has noticed yet.
func (c *connection) setUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.downCause = session.ErrAway
	c.up.Store(true)
}

func (c *connection) setDown(err error) {
	c.up.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.downCause = err
}

const (
	// replicasInterval is how often the copies of a bucket are counted.
	replicasInterval = 10 * time.Second
	// firstReplicasInterval is how often it is tried until they were counted once.
	firstReplicasInterval = time.Second
)

// KeepReplicas gives the bucket the wanted number of copies, as soon as the cluster
// has a place for them, and counts them, until ctx ends. It asks only while the bucket
// is followed.
func (s *Store) KeepReplicas(ctx context.Context, js jetstream.JetStream) {
	timer := time.NewTimer(firstReplicasInterval)
	defer timer.Stop()
	warned := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(firstReplicasInterval)
		if !s.connection.up.Load() {
			continue
		}
		has, clustered, err := s.countReplicas(ctx, js)
		if err != nil {
			s.bucket.opts.Logger.Debug("the bucket's replicas are not known", "error", err)
			continue
		}
		timer.Reset(replicasInterval)
		if has < s.bucket.opts.Replicas && has != warned && (clustered || s.bucket.opts.askedReplicas > 1) {
			warned = has
			s.bucket.opts.Logger.Warn("the bucket has fewer replicas than it should: NATS has no place for more. Run as many NATS "+
				"servers with JetStream as there should be replicas",
				"replicas", has, "wanted", s.bucket.opts.Replicas)
		}
	}
}

// countReplicas counts the copies, and raises them where there are too few.
func (s *Store) countReplicas(ctx context.Context, js jetstream.JetStream) (has int, clustered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, s.bucket.streamName)
	if err != nil {
		return 0, false, err
	}
	info := stream.CachedInfo()
	if has, err = replicas.Raise(ctx, js, info, s.bucket.opts.Replicas); err != nil {
		return 0, false, err
	}
	if had := info.Config.Replicas; has > had {
		s.bucket.opts.Logger.Info("the bucket has more replicas from now on", "replicas", has, "before", had)
	}
	if l := s.connection.link.Load(); l != nil && l.replicas != has {
		s.connection.link.CompareAndSwap(l, &link{js: l.js, stream: l.stream, replicas: has})
	}
	s.contents.metrics.replicas.Store(int64(has))
	s.contents.metrics.currentReplicas.Store(int64(replicas.Current(info)))
	return has, replicas.Clustered(info), nil
}
