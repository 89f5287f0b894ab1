package kvstore

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	c.setDown(session.ErrAway)
	c.up.Store(true)
}

func (c *connection) setDown(err error) {
	c.up.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.downCause = err
}
