// Package config is the controller of IgnitionConfigs: it compiles their sources, merges them
// onto their layers, and writes the statuses. A config passes through the phases of Phase.
// Admit does the first steps during the write of the config, if they take little time; the
// controller does the others, and all of them again when a layer changes.
package config

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/feed"
	"glowplug/internal/store/snapshot"
)

// Task is a step of a config.
type Task string

const (
	// Advance brings a config to the phase Merged.
	Advance Task = "advance"
	// Convert brings it to the phase Converted. It has low priority.
	Convert Task = "convert"
	// AdvanceAbove queues Advance for the configs that have it as a layer.
	AdvanceAbove Task = "advance above"
	// AdvanceAllAbove queues Advance for those, and for all above them.
	AdvanceAllAbove Task = "advance all above"
)

// Key is one task for one config.
type Key struct {
	model.Ref
	Task Task
}

const (
	workers = 2
	timeout = 30 * time.Second
	// loadPoll is the time between two checks whether the configs have been read.
	loadPoll = 100 * time.Millisecond
)

// Store holds the configs.
type Store interface {
	controller.Store
	Get(ctx context.Context, key string, opts storage.GetOptions, config runtime.Object) error
}

// Options are the parts of a Controller.
type Options struct {
	// Store holds the configs, and Snapshot follows it; the layers are read from Snapshot.
	Store    Store
	Snapshot *snapshot.Inventory
	// Compile translates a source; nil: compile.Compile.
	Compile func(compile.Source) (*compile.Artifact, report.Report)
	// AdmissionLimit is how long a write waits for its compilation; 0: a second.
	AdmissionLimit time.Duration
	// Misread reports whether a host boots an image that cannot read configs of a spec
	// version: then the conversions are computed during the write. Nil: no host does.
	Misread func(version string) bool
	// Recorder records the results of compilations; nil: they are not recorded.
	Recorder controller.Recorder
	// Metrics counts reconciles; nil: nothing is counted.
	Metrics *controller.Metrics
	// Registerer takes the metric of compilations; nil: it is not registered.
	Registerer prometheus.Registerer
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Controller is the controller of IgnitionConfigs.
type Controller struct {
	opts     Options
	compiler *compiler
	changes  *feed.Subscription[snapshot.Change]
	queue    *controller.Controller[Key]
	writes   writes
}

// New returns a Controller, which reconciles nothing before Run.
func New(opts Options) *Controller {
	if opts.Compile == nil {
		opts.Compile = compile.Compile
	}
	opts.AdmissionLimit = cmp.Or(opts.AdmissionLimit, time.Second)
	if opts.Misread == nil {
		opts.Misread = func(string) bool { return false }
	}
	opts.Recorder = cmp.Or(opts.Recorder, controller.NoRecorder)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	c := &Controller{opts: opts, compiler: newCompiler(opts.Compile, opts.Registerer)}
	c.queue = controller.New(controller.Options[Key]{
		Name: "config", Reconcile: c.Reconcile, List: c.list, Workers: workers, Timeout: timeout,
		LowPriority: func(key Key) bool { return key.Task == Convert },
		Metrics:     opts.Metrics, Logger: opts.Logger,
	})
	c.changes = opts.Snapshot.Subscribe()
	return c
}

// Run reconciles until ctx ends, and returns once no source is compiled any more.
func (c *Controller) Run(ctx context.Context) {
	defer c.changes.Follow(ctx, c.changed)()
	c.queue.Run(ctx)
	c.compiler.wait()
}

// Reconcile does the task of a key.
func (c *Controller) Reconcile(ctx context.Context, key Key) (requeueAfter time.Duration, err error) {
	switch key.Task {
	case AdvanceAbove, AdvanceAllAbove:
		for _, ref := range c.above(key.Ref, key.Task == AdvanceAllAbove) {
			c.queue.Enqueue(Key{ref, Advance})
		}
		return 0, nil
	case Convert:
		if pause := c.writes.pause(time.Now()); pause > 0 {
			return pause, nil
		}
		return 0, c.convert(ctx, key.Ref)
	}
	view := c.opts.Snapshot.View()
	config := view.Config(key.Ref)
	if config != nil && config.Foreign {
		return 0, c.adopt(ctx, key.Ref)
	}
	switch phaseOf(view, config) {
	case Pending:
		return c.compile(ctx, key.Ref)
	case Compiled:
		return c.merge(ctx, key.Ref)
	case Merged:
		c.queue.Enqueue(Key{key.Ref, Convert})
	}
	return 0, nil
}

// list queues the configs that have not passed through all phases, once they are known.
func (c *Controller) list(ctx context.Context) (keys []Key, err error) {
	for !c.opts.Snapshot.Stats().Configs.Loaded {
		if !controller.Sleep(ctx, loadPoll) {
			return nil, ctx.Err()
		}
	}
	for _, rule := range c.opts.Snapshot.View().Rules() {
		switch config := rule.Config.(*model.Config); {
		case config.Foreign || config.Stack != nil || isUnfinished(config):
			keys = append(keys, Key{config.Ref, Advance})
		case config.Unjudged:
			keys = append(keys, Key{config.Ref, Convert})
		}
	}
	return keys, nil
}

// changed takes a change of the inventory. The configs that clients write are queued by Admitted.
func (c *Controller) changed(change snapshot.Change) {
	old, now := change.OldConfig, change.Config
	switch {
	case change.Reload:
		// A config with layers may have been merged over others than are there now, and a foreign one was written by
		// another program.
		for _, config := range c.opts.Snapshot.View().UnsureConfigs() {
			c.changed(snapshot.Change{Config: config})
		}
		return
	case old == nil && now == nil:
		return
	}
	if now != nil && (now.Foreign || now.Stack != nil) {
		c.queue.Enqueue(Key{now.Ref, Advance})
	}
	either := now
	if now == nil {
		either = old
	}
	view := c.opts.Snapshot.View()
	isLayer := view.IsLayer(either.Ref)
	switch {
	case !isLayer || old != nil && now != nil && now.IsSameLayer(old):
	case slices.Equal(old.LayerNames(), now.LayerNames()):
		c.queue.Enqueue(Key{either.Ref, AdvanceAbove})
	default:
		// A layer of a layer came or went: the layers of a config above may be too deep now,
		// or a circle.
		c.queue.Enqueue(Key{either.Ref, AdvanceAllAbove})
	}
}

// writes are the times of the writes by clients. Conversions wait for a pause in them: they
// take more processor time than the rest of a write, and no client waits for them.
type writes struct {
	mu          sync.Mutex
	first, last time.Time
}

const (
	// convertPause is the time after the last write of a client before conversions begin, and
	// maxConvertPause bounds their wait while clients write.
	convertPause    = time.Second
	maxConvertPause = time.Minute
)

func (w *writes) note(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) >= convertPause {
		w.first = now
	}
	w.last = now
}

// pause returns how long conversions wait at least.
func (w *writes) pause(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.first) >= maxConvertPause {
		return 0
	}
	return convertPause - now.Sub(w.last)
}
