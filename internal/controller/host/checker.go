package host

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
	"glowplug/internal/store/snapshot"
)

const (
	// coalescePause is the pause before changes that come together are reconciled
	// together.
	coalescePause = 500 * time.Millisecond
	// passPause is the least time between two passes over all hosts, and passPauseOfHost
	// the part of it for each host: some twenty times the time of a check.
	passPause       = 5 * time.Second
	passPauseOfHost = 100 * time.Microsecond
)

// Journal writes a condition of a host.
type Journal interface {
	Condition(host *model.Host, c explain.Condition)
}

// CheckerOptions are the parts of a Checker.
type CheckerOptions struct {
	Inventory *snapshot.Inventory
	Decider   *decide.Decider
	Journal   Journal
	// Ready reports whether the store has been read: nothing is checked before.
	Ready func() bool
	// Store has the hardware of the hosts; nil: it is not known.
	Store Getter
	// Metrics counts what is done; nil: nothing is counted.
	Metrics *controller.Metrics
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Checker reconciles the conditions ConfigMatched, ImageReady, ConfigReadable and DataPreserved of
// hosts with the configs and images: an event, and a change for those who watch, are there before
// a machine boots. A host whose conditions are all True has none of them in the store:
// Complete adds them when a host is read, all but DataPreserved.
type Checker struct {
	opts       CheckerOptions
	changes    *feed.Subscription[snapshot.Change]
	controller *controller.Controller[model.Ref]
	// nextPass is the earliest time of the next pass over all hosts. There is one worker, so
	// that nextPass and written need no lock.
	nextPass time.Time
	// written has the conditions that are False, and those whose write is not in the snapshot
	// yet.
	written map[conditionKey]written
	// planned has the last plan of each host whose disks are known.
	planned map[model.Ref]planned
	census  census
}

// everyHost is the key of a pass over all hosts.
var everyHost = model.Ref{}

// conditionKey is a condition of a host.
type conditionKey struct {
	host model.Ref
	kind model.Conditions
}

// written is the message of a condition that was written, and the revision of the host.
type written struct {
	message  string
	revision uint64
}

// NewChecker returns a Checker, which checks nothing before Run.
func NewChecker(opts CheckerOptions) *Checker {
	c := &Checker{
		opts: opts, changes: opts.Inventory.Subscribe(),
		written: map[conditionKey]written{}, planned: map[model.Ref]planned{},
	}
	c.controller = controller.New(controller.Options[model.Ref]{
		Name:      "host-conditions",
		Reconcile: c.reconcile,
		List:      func(context.Context) ([]model.Ref, error) { return []model.Ref{everyHost}, nil },
		Metrics:   opts.Metrics, Logger: opts.Logger,
	})
	return c
}

// Run checks hosts until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	defer c.changes.Follow(ctx, c.changed)()
	c.controller.Run(ctx)
}

// changed takes a change of the inventory.
func (c *Checker) changed(change snapshot.Change) {
	key := everyHost
	switch {
	case change.Host != nil:
		key = change.Host.Ref
	case change.OldHost != nil:
		key = change.OldHost.Ref
	case !change.All && imageFacts(change.Image) == imageFacts(change.OldImage) &&
		configFacts(change.Config) == configFacts(change.OldConfig):
		return // the change does not concern conditions
	}
	c.controller.EnqueueAfter(key, coalescePause)
}

// Recheck takes a host whose template was rendered, or cannot be. It does not block.
func (c *Checker) Recheck(host model.Ref) { c.controller.EnqueueAfter(host, coalescePause) }

// facts are the parts of an image or a config that the conditions of hosts depend on. version
// is the newest Ignition spec of an image, or the hash of a config.
type facts struct {
	uid, version, release, phase, message, architectures, arguments string
	config                                                          model.Ref
	generation                                                      int64
	servable                                                        ignition.Specs
	template                                                        bool
}

func imageFacts(image *model.Image) facts {
	if image == nil {
		return facts{}
	}
	return facts{
		uid: image.UID, version: image.MaxIgnition, release: image.Release,
		phase: image.Phase, message: image.Message, config: image.Config,
		architectures: strings.Join(image.Architectures, ","), arguments: strings.Join(image.Args, " "),
	}
}

func configFacts(config *model.Config) facts {
	if config == nil {
		return facts{}
	}
	return facts{
		uid: config.UID, version: config.Hash, generation: config.Generation,
		servable: config.Servable, template: config.Template,
	}
}

func (c *Checker) reconcile(ctx context.Context, key model.Ref) (time.Duration, error) {
	switch {
	case !c.opts.Ready():
		return coalescePause, nil
	case key == everyHost:
		return c.reconcileAll(), nil
	}
	if host := c.opts.Inventory.View().Host(key); host != nil {
		c.check(ctx, host)
		return 0, nil
	}
	delete(c.planned, key)
	for _, kind := range []model.Conditions{
		model.ConfigMatched, model.ImageReady, model.ConfigReadable, model.DataPreserved,
	} {
		delete(c.written, conditionKey{key, kind})
	}
	return 0, nil
}

// reconcileAll checks all hosts, and queues those that boot an image, or whose disks are known:
// whether the image reads the config may take the rendering of a template, and a plan takes longer
// than all the rest.
func (c *Checker) reconcileAll() (requeueAfter time.Duration) {
	if wait := time.Until(c.nextPass); wait > 0 {
		return wait
	}
	view := c.opts.Inventory.View()
	hosts := view.Hosts()
	for _, h := range hosts {
		c.checkObjects(view, h)
		if h.Image != (model.Ref{}) || h.Hardware != 0 || h.Unmet&(model.ConfigReadable|model.DataPreserved) != 0 {
			c.controller.EnqueueLow(h.Ref)
		}
	}
	c.nextPass = time.Now().Add(max(passPause, time.Duration(len(hosts))*passPauseOfHost))
	return 0
}

// check writes the conditions of a host where the stored ones differ.
func (c *Checker) check(ctx context.Context, h *model.Host) {
	c.checkObjects(c.opts.Inventory.View(), h)
	if skew, isKnown := explain.SkewOfStored(c.opts.Decider, h, ctx.Done()); isKnown {
		c.reconcileCondition(h, explain.ConfigReadable(skew))
	}
	c.checkDisks(ctx, h)
}

// checkObjects writes the conditions that depend on stored objects alone.
func (c *Checker) checkObjects(view model.View, h *model.Host) {
	c.reconcileCondition(h, explain.ConfigMatched(c.opts.Decider, view, h))
	c.reconcileCondition(h, explain.ImageReady(c.opts.Decider, view, h))
}

// reconcileCondition writes a condition if the stored one differs. It writes the same
// condition once for each revision of the host.
func (c *Checker) reconcileCondition(h *model.Host, condition explain.Condition) {
	key := conditionKey{h.Ref, condition.Kind}
	before, found := c.written[key]
	isStored := (h.Unmet&condition.Kind == 0) == condition.Met
	switch {
	case condition.Unknown && !isStored:
		return // the rendering is told to Recheck
	case isStored && condition.Met:
		delete(c.written, key)
		return
	case found && before.message == condition.Message && (isStored || before.revision == h.Revision):
		return
	}
	// After a start the condition can be stored already: then this write has no effect.
	c.written[key] = written{condition.Message, h.Revision}
	c.opts.Journal.Condition(h, condition)
}

// maxNamed bounds the hosts that the answer to a write names.
const maxNamed = 5

// changesImage reports whether another text in spec.image is another image: the name of one in
// the host's own namespace is the same with and without the namespace.
func changesImage(old *v1.BareMetalHost, h *model.Host) bool {
	before := model.HostFrom(old)
	return before == nil || before.Image != h.Image
}

// HostWarnings returns the warnings for a host that a client writes: a sentence for each
// host that shares an address with it, the advice about it, and one if its image cannot read
// its config. view has the other objects. old is the stored host, nil for a new one.
func (c *Checker) HostWarnings(view model.View, host, old *v1.BareMetalHost) []string {
	h := model.HostFrom(host)
	if h == nil {
		return nil
	}
	sentences := explain.Texts(view.Conflicts(h))
	d := c.opts.Decider.On(view, nil)
	advice := slices.Concat(explain.AdviseHost(d, h), explain.AdviseImage(d, view, h, "does not exist"),
		explain.AdviseArguments(view.Image(h.Image), host.Spec.KernelArgs))
	if old != nil && old.Spec.Image != host.Spec.Image && changesImage(old, h) {
		advice = append(advice, explain.AdviseImageChange(h)...)
	}
	sentences = append(sentences, explain.Texts(advice)...)
	if h.Image == (model.Ref{}) { // most hosts: the decision is not needed
		return sentences
	}
	if skew := explain.SkewOf(d, h); skew != nil {
		sentences = append(sentences, skew.String())
	}
	return sentences
}

// ImageWarnings returns the advice about an image that is being written, and names the hosts of a view whose config it
// cannot read. maxIgnition is the newest Ignition spec version that it reads; "": that is not known.
func (c *Checker) ImageWarnings(view model.View, cdrom *v1.ISCSICdrom, maxIgnition string) []string {
	image := model.ImageFrom(cdrom)
	if image == nil {
		return nil
	}
	image.MaxIgnition = maxIgnition
	sentences := explain.Texts(explain.AdviseArguments(image, cdrom.Spec.KernelArgs))
	return append(sentences, warnings(c.opts.Decider.On(view, nil), explain.Changed{Image: image})...)
}

// ConfigWarnings returns the advice about a config that is being written, and names the hosts of a view
// whose image cannot read it.
func (c *Checker) ConfigWarnings(view model.View, config *v1.IgnitionConfig) []string {
	changed := model.ConfigFrom(config)
	if changed == nil {
		return nil
	}
	sentences := explain.Texts(explain.AdviseConfig(view, changed))
	d := c.opts.Decider.On(view, nil)
	if config.Spec.Type != v1.TypeIgnition || config.Compiled == nil ||
		changed.Demands == nil && !explain.Misread(d, config.Compiled.IgnitionVersion) {
		return sentences
	}
	return append(sentences, warnings(d, explain.Changed{Config: changed})...)
}

// warnings names the first hosts that cannot read their config once an object is changed.
func warnings(d *decide.Decider, changed explain.Changed) []string {
	sentences := explain.Texts(explain.Skews(d, changed, maxNamed+1))
	if len(sentences) > maxNamed {
		sentences[maxNamed] = "and more hosts; kubectl get bmh -A -o json shows those with the condition " +
			v1.ConditionConfigReadable + "=False"
	}
	return sentences
}
