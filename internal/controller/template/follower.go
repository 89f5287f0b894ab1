// Package template renders templates for the hosts that they are for before those ask,
// and says in the templates' statuses how that went.
package template

import (
	"context"
	"log/slog"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/workqueue"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/snapshot"
)

const (
	// settleTime lets changes that come together be looked at together.
	settleTime = 50 * time.Millisecond
	// statusGap is the least time between two writes of one status; progressGap the
	// time between two that tell how far a long work is.
	statusGap   = time.Second
	progressGap = 10 * time.Second
	// retryFirst and retryMax are the pauses after a write that failed.
	retryFirst, retryMax = 200 * time.Millisecond, time.Minute
	writeTimeout         = 30 * time.Second
	statusWriters        = 2
	// refusedRetry is the pause after a status that the store does not take: the NATS
	// server may be given another configuration.
	refusedRetry = time.Minute
	// lookStride is the number of hosts that are looked at while the inventory is
	// held still.
	lookStride = 256
)

// Ref names an object.
type Ref = snapshot.Ref

// Decider says which config a host is given.
type Decider interface {
	Assigned(view snapshot.View, host *snapshot.Host, typ string, room *decide.Decision) *snapshot.Config
}

// Store is the part of the store of ignitionconfigs that a Follower needs.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cachedExistingObject runtime.Object) error
}

// Recorder takes what happened to an object, for an Event.
type Recorder interface {
	Record(ref v1.ObjectReference, eventType, reason, message string)
}

// Options are what a Follower stands on.
type Options struct {
	Cache     *rendering.Cache
	Inventory *snapshot.Inventory
	Decider   Decider
	// Store is the store of ignitionconfigs.
	Store Store
	// Recorder takes what rendering has come to; nil: nobody.
	Recorder Recorder
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Follower renders templates for the hosts that they are for before those ask, and
// says in the templates' statuses how that went. It works by what changes, and
// looks at nothing again and again.
type Follower struct {
	opts  Options
	wake  chan struct{}
	queue workqueue.TypedRateLimitingInterface[Ref]
	gaps  gaps
	// active is false while there is no template: then changes of hosts are no news.
	active atomic.Bool

	mu sync.Mutex
	// news is what has changed since it was last looked at.
	news news
	// rosters are the hosts of each template; places is where a host stands.
	rosters map[Ref]*roster
	places  map[Ref]place
	// work is signalled where there is something to render; turns has the rosters
	// with such work, in turn.
	work   *sync.Cond
	turns  []*roster
	closed bool
}

// gaps are the constants of the same names, shorter in tests.
type gaps struct{ settle, status, progress time.Duration }

// news is what has changed.
type news struct {
	all   bool
	hosts map[Ref]struct{}
}

// NewFollower makes a Follower, whose Changed may be called at once.
func NewFollower(opts Options) *Follower {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Follower{
		opts: opts,
		wake: make(chan struct{}, 1),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Ref](retryFirst, retryMax)),
		gaps:    gaps{settleTime, statusGap, progressGap},
		rosters: map[Ref]*roster{},
		places:  map[Ref]place{},
	}
	f.work = sync.NewCond(&f.mu)
	return f
}

// Changed takes a change of the inventory. It does not block.
func (f *Follower) Changed(c snapshot.Change) {
	all := c.All || reassigns(c.OldConfig, c.Config)
	if isTemplate(c.Config) || isTemplate(c.OldConfig) || c.All {
		f.active.Store(true)
	}
	if !f.active.Load() {
		return
	}
	f.mu.Lock()
	switch {
	case all:
		f.news.all = true
	case c.Host != nil:
		f.news.host(c.Host.Ref)
	case c.OldHost != nil:
		f.news.host(c.OldHost.Ref)
	default:
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	f.nudge()
}

// nudge says that there is news.
func (f *Follower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (n *news) host(ref Ref) {
	if n.hosts == nil {
		n.hosts = map[Ref]struct{}{}
	}
	n.hosts[ref] = struct{}{}
}

func isTemplate(c *snapshot.Config) bool { return c != nil && c.Template }

// reassigns tells whether a change of a config may give hosts another config, or
// another template. A status that was written does not.
func reassigns(old, new *snapshot.Config) bool {
	if old == nil || new == nil {
		return old != new
	}
	if !new.Template && old.Failing != new.Failing {
		return true // which templates that have it as a layer warn of
	}
	return old.UID != new.UID || old.Generation != new.Generation || old.Hash != new.Hash || old.Template != new.Template
}

// Run follows until ctx ends; its error is always nil.
func (f *Follower) Run(ctx context.Context) error {
	var running sync.WaitGroup
	// Machines that ask go first, and half of the processors are theirs.
	for range max(1, goruntime.GOMAXPROCS(0)/2) {
		running.Go(func() {
			for f.renderNext(ctx) {
			}
		})
	}
	for range statusWriters {
		running.Go(func() {
			for f.writeNext(ctx) {
			}
		})
	}
	f.follow(ctx)
	f.queue.ShutDown()
	f.mu.Lock()
	f.closed = true
	f.work.Broadcast()
	f.mu.Unlock()
	running.Wait()
	return nil
}

// follow looks at what has changed, again and again.
func (f *Follower) follow(ctx context.Context) {
	pause := f.gaps.settle
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		f.mu.Lock()
		n := f.news
		f.news = news{}
		f.mu.Unlock()
		if stats := f.opts.Inventory.Stats(); !stats.Hosts.Loaded || !stats.Configs.Loaded || !stats.Images.Loaded {
			continue // each load is news of its own
		}
		began := time.Now()
		if n.all {
			f.lookAtAll()
		} else {
			f.lookAt(n.hosts)
		}
		// Looking at all hosts takes its time where there are many: it is to be a
		// small part of what the machine does.
		pause = max(f.gaps.settle, 5*time.Since(began))
	}
}

// objectOf names a config in events.
func objectOf(config *v1.IgnitionConfig) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "IgnitionConfig", APIVersion: v1.SchemeGroupVersion.String(),
		Namespace: config.Namespace, Name: config.Name, UID: string(config.UID),
	}
}
