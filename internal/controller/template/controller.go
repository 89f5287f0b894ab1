// Package template renders templates ahead of the requests of their hosts, and writes the
// results into the statuses of the templates.
//
// It is the one writer of these fields of IgnitionConfig.status while spec.config is a
// template that can be read: phase once it is not Pending, errorMessage, warnings,
// layers, ignitionVersion, observedGeneration, compiledGeneration, lastCompiled; and of
// hosts, always.
package template

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/snapshot"
)

const (
	// coalescePause is the pause before changes that come together are reconciled
	// together.
	coalescePause = 50 * time.Millisecond
	// statusPause is the least time between two writes of one status; progressPause
	// that between two while hosts are pending.
	statusPause   = time.Second
	progressPause = 10 * time.Second
	writeTimeout  = 30 * time.Second
	statusWriters = 2
	// refusedPause is the pause after a status that the store refuses: the operator may
	// change the limits of the NATS server.
	refusedPause = time.Minute
	// hostsPerView is the number of hosts that one view of the inventory is used for.
	hostsPerView = 256
	// Passes over all hosts take at most one part in passShare of the time.
	passShare = 6
)

// Ref names an object.
type Ref = snapshot.Ref

// Options are the parts of a Controller.
type Options struct {
	Cache     *rendering.Cache
	Inventory *snapshot.Inventory
	Decider   *decide.Decider
	// Store is the store of ignitionconfigs.
	Store controller.Store
	// Recorder records changes of a template's phase; nil: they are not recorded.
	Recorder controller.Recorder
	// Metrics counts what is done; nil: nothing is counted.
	Metrics *controller.Metrics
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Controller reconciles the hosts of templates, and the statuses of templates.
type Controller struct {
	opts     Options
	pauses   pauses
	hosts    *controller.Controller[Ref]
	statuses *controller.Controller[Ref]
	// nextPass is the earliest time of the next pass over all hosts. Only the reconciler of
	// everyHost uses it.
	nextPass time.Time

	mu        sync.Mutex
	templates map[Ref]*state
	// byHost are the templates that each host is given.
	byHost map[Ref]assignment
}

// pauses are the constants of similar names, which tests shorten.
type pauses struct{ coalesce, status, progress time.Duration }

// everyHost is the key of a pass over all templates and hosts.
var everyHost = Ref{}

// New returns a Controller, which reconciles nothing before Run.
func New(opts Options) *Controller {
	c := &Controller{
		opts: opts, pauses: pauses{coalescePause, statusPause, progressPause},
		templates: map[Ref]*state{}, byHost: map[Ref]assignment{},
	}
	c.hosts = controller.New(controller.Options[Ref]{
		Name:      "template-hosts",
		Reconcile: c.reconcileHost,
		List: func(_ context.Context, enqueue func(Ref)) error {
			enqueue(everyHost)
			return nil
		},
		// Half of the processors are left to the requests of machines.
		Workers: max(1, runtime.GOMAXPROCS(0)/2),
		Metrics: opts.Metrics, Logger: opts.Logger,
	})
	c.statuses = controller.New(controller.Options[Ref]{
		Name:      "template-status",
		Reconcile: c.reconcileStatus,
		Workers:   statusWriters, Timeout: writeTimeout,
		Metrics: opts.Metrics, Logger: opts.Logger,
	})
	return c
}

// Run reconciles until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.statuses.Run(ctx) })
	c.hosts.Run(ctx)
	running.Wait()
}

// Changed takes a change of the inventory. It does not block.
func (c *Controller) Changed(change snapshot.Change) {
	templates := change.All || isTemplate(change.Config) || isTemplate(change.OldConfig)
	if !templates {
		c.mu.Lock()
		templates = len(c.templates) > 0
		c.mu.Unlock()
	}
	key := everyHost
	switch {
	case !templates:
		return // there are no templates
	case change.All || reassigns(change.OldConfig, change.Config):
	case change.Host != nil:
		key = change.Host.Ref
	case change.OldHost != nil:
		key = change.OldHost.Ref
	default:
		return
	}
	c.hosts.EnqueueAfter(key, c.pauses.coalesce)
}

func isTemplate(config *snapshot.Config) bool { return config != nil && config.Template }

// reassigns reports whether a change of a config may change the config or template of hosts.
// A write of a status does not.
func reassigns(old, new *snapshot.Config) bool {
	if old == nil || new == nil {
		return old != new
	}
	if !new.Template && old.Failing != new.Failing {
		return true // templates with this layer warn of it
	}
	return old.UID != new.UID || old.Generation != new.Generation || old.Hash != new.Hash || old.Template != new.Template
}
