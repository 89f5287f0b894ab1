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
	"slices"
	"sync"
	"time"

	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
	"glowplug/internal/feed"
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
	// hostsPerView is the number of hosts that one view of the inventory is used for.
	hostsPerView = 256
	// Passes over all hosts take at most one part in passShare of the time.
	passShare = 6
)

// Ref names an object.
type Ref = model.Ref

// Options are the parts of a Controller.
type Options struct {
	Cache     *rendering.Cache
	Inventory *snapshot.Inventory
	Decider   *decide.Decider
	// Store is the store of ignitionconfigs.
	Store controller.Store
	// Rendered is called with a host whose condition ConfigMatched may follow from a rendering; nil: nobody is
	// told.
	Rendered func(host model.Ref)
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
	changes  *feed.Subscription[snapshot.Change]
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
	// secretsUnread is true until the bucket of Secrets is read.
	secretsUnread bool
}

// pauses are the constants of similar names, which tests shorten.
type pauses struct{ coalesce, status, progress time.Duration }

// everyHost is the key of a pass over all templates and hosts.
var everyHost = Ref{}

// New returns a Controller, which reconciles nothing before Run.
func New(opts Options) *Controller {
	c := &Controller{
		opts: opts, changes: opts.Inventory.Subscribe(), pauses: pauses{coalescePause, statusPause, progressPause},
		templates: map[Ref]*state{}, byHost: map[Ref]assignment{},
	}
	c.hosts = controller.New(controller.Options[Ref]{
		Name:      "template-hosts",
		Reconcile: c.reconcileHost,
		List:      func(context.Context) ([]Ref, error) { return []Ref{everyHost}, nil },
		Group:     func(host Ref) string { return host.Namespace },
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
	defer c.changes.Follow(ctx, c.changed)()
	var running sync.WaitGroup
	running.Go(func() { c.statuses.Run(ctx) })
	c.hosts.Run(ctx)
	running.Wait()
}

// changed takes a change of the inventory.
func (c *Controller) changed(change snapshot.Change) {
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

func isTemplate(config *model.Config) bool { return config != nil && config.Template }

// reassigns reports whether a change of a config may change the config or template of hosts.
// A write of a status does not.
func reassigns(old, new *model.Config) bool {
	if old == nil || new == nil {
		return old != new
	}
	if !new.Template && old.Failing != new.Failing {
		return true // templates with this layer warn of it
	}
	return old.UID != new.UID || old.Generation != new.Generation || old.Hash != new.Hash || old.Template != new.Template
}

// HostRendering is the rendering of a template for one host.
type HostRendering struct {
	// Config is the template, and Host the BareMetalHost that receives it.
	Config, Host model.Ref
	compile.Rendering
}

// Preview renders every template of an inventory for its hosts, with a placeholder for the URL of the
// server, and calls yield with each rendering, in the order of configs and hosts.
func Preview(inv *snapshot.Inventory, decider *decide.Decider, yield func(*HostRendering)) {
	view := inv.View()
	hosts := view.Hosts()
	slices.SortFunc(hosts, func(a, b *model.Host) int { return a.Ref.Compare(b.Ref) })
	given := map[model.Ref][]*model.Host{}
	for _, h := range hosts {
		for _, config := range assigned(decider, view, h) {
			if config != nil {
				given[config.Ref] = append(given[config.Ref], h)
			}
		}
	}
	templates := view.Templates()
	slices.SortFunc(templates, func(a, b *model.Config) int { return a.Ref.Compare(b.Ref) })
	for _, c := range templates {
		t, _ := c.ParseTemplate()
		if t == nil {
			continue // the check of the source reports the error
		}
		for _, h := range given[c.Ref] {
			facts := h.Facts()
			facts.Server = template.PlaceholderServer
			made := t.Render(facts)
			if c.Stack != nil {
				made.LayOver(c.Name, c.Stack.Layers, view.Layers(c.Namespace))
			}
			yield(&HostRendering{c.Ref, h.Ref, made})
		}
	}
}
