// Package snapshot keeps the newest model.View of the store, by following its buckets, and publishes each change of it.
package snapshot

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
)

// Options are the surroundings of an Inventory; the zero value will do.
type Options struct {
	// Logger takes the errors of stored values that cannot be read; nil: slog.Default().
	Logger *slog.Logger
	// Now is the clock of BucketStats.At; nil: time.Now.
	Now func() time.Time
	// Isolation says which namespaces are islands whatever is stored.
	Isolation model.Isolation
}

// Change is a change of a host, a config or an image, or of several. It is visible in the View by the time at which
// it is published.
type Change struct {
	// Host and OldHost are a host after and before the change; nil where it is gone or new.
	Host, OldHost *model.Host
	// Config and OldConfig are a config after and before, Image and OldImage an image.
	Config, OldConfig *model.Config
	Image, OldImage   *model.Image
	// All is true where the config of any host may have changed, and Reload where anything may have: a bucket was
	// read anew, or the subscriber has missed changes.
	All, Reload bool
}

// reload is the change of which nothing more is known.
var reload = Change{All: true, Reload: true}

// Inventory has the newest view. It is safe for concurrent use; readers never wait.
type Inventory struct {
	opts   Options
	newest atomic.Pointer[model.View]
	// mu is held while the next view is made.
	mu                                                                                 sync.Mutex
	changes                                                                            *feed.Feed[Change]
	hosts, configs, images, namespaces, roles, bindings, clusterRoles, clusterBindings bucket
}

// New returns an empty inventory, which the observers of its buckets fill.
func New(opts Options) *Inventory {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	inv := &Inventory{opts: opts, changes: feed.New(reload)}
	empty := model.Empty(opts.Isolation)
	inv.newest.Store(&empty)
	return inv
}

// View returns all objects as they are now.
func (inv *Inventory) View() model.View { return *inv.newest.Load() }

// Subscribe returns a subscription to all changes from now on.
func (inv *Inventory) Subscribe() *feed.Subscription[Change] { return inv.changes.Subscribe() }

// update makes the next view of the newest, and publishes it.
func (inv *Inventory) update(next func(model.View) model.View) (before, after model.View) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	before = inv.View()
	after = next(before)
	inv.newest.Store(&after)
	return before, after
}

// BucketStats is the state of one bucket in the inventory.
type BucketStats struct {
	// Loaded is true once the bucket has been read.
	Loaded bool
	// Objects is the number of objects, and Bad that of stored values that cannot be read.
	Objects, Bad int
	// Revision is the last one that was observed, and At the time of that.
	Revision uint64
	At       time.Time
}

// Stats are counts for metrics. The lag of the index is the last revision of the store less
// Revision.
type Stats struct {
	Hosts, Configs, Images BucketStats
	// Conflicting is the number of hosts that share a hardware address,
	// an IP address or a UUID with another.
	Conflicting int
}

// Stats counts what the inventory has.
func (inv *Inventory) Stats() Stats {
	view := inv.View()
	return Stats{
		Hosts:       inv.hosts.report(model.Hosts.Count(view)),
		Configs:     inv.configs.report(model.Configs.Count(view)),
		Images:      inv.images.report(model.Images.Count(view)),
		Conflicting: len(model.Conflicting(view)),
	}
}
