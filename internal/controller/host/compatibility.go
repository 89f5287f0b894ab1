package host

import (
	"context"
	"log/slog"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
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

// Journal writes the condition ConfigReadable of a host: sentence says why its image cannot
// read its config; "": it can.
type Journal interface {
	ConfigReadable(host *snapshot.Host, sentence string)
}

// CompatibilityOptions are the parts of a Compatibility.
type CompatibilityOptions struct {
	Inventory *snapshot.Inventory
	Decider   *decide.Decider
	Journal   Journal
	// Ready reports whether the store has been read: nothing is checked before.
	Ready func() bool
	// Metrics counts what is done; nil: nothing is counted.
	Metrics *controller.Metrics
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Compatibility reconciles the condition ConfigReadable of hosts with their images and
// configs: the condition is there before a machine boots an image that cannot read its
// config.
type Compatibility struct {
	opts       CompatibilityOptions
	controller *controller.Controller[snapshot.Ref]
	// nextPass is the earliest time of the next pass over all hosts. There is one worker, so
	// that nextPass and written need no lock.
	nextPass time.Time
	// written has the conditions that are False, and those whose write is not in the snapshot
	// yet.
	written map[snapshot.Ref]condition
}

// everyHost is the key of a pass over all hosts that boot an image.
var everyHost = snapshot.Ref{}

// condition is the sentence that was written for a host, and the revision of the host.
type condition struct {
	sentence string
	revision uint64
}

// NewCompatibility returns a Compatibility, which checks nothing before Run.
func NewCompatibility(opts CompatibilityOptions) *Compatibility {
	c := &Compatibility{opts: opts, written: map[snapshot.Ref]condition{}}
	c.controller = controller.New(controller.Options[snapshot.Ref]{
		Name:      "host-compatibility",
		Reconcile: c.reconcile,
		List: func(_ context.Context, enqueue func(snapshot.Ref)) error {
			enqueue(everyHost)
			return nil
		},
		Metrics: opts.Metrics, Logger: opts.Logger,
	})
	return c
}

// Run checks hosts until ctx ends.
func (c *Compatibility) Run(ctx context.Context) { c.controller.Run(ctx) }

// Changed takes a change of the inventory. It does not block.
func (c *Compatibility) Changed(change snapshot.Change) {
	key := everyHost
	switch {
	case change.Host != nil:
		key = change.Host.Ref
	case change.OldHost != nil:
		key = change.OldHost.Ref
	case !change.All && imageFacts(change.Image) == imageFacts(change.OldImage) &&
		configFacts(change.Config) == configFacts(change.OldConfig):
		return // the change does not concern compatibility
	}
	c.controller.EnqueueAfter(key, coalescePause)
}

// facts are the parts of an image or a config that compatibility depends on. version is the
// newest Ignition spec of an image, or the hash of a config.
type facts struct {
	uid, version, release string
	generation            int64
	servable              ignition.Specs
	template              bool
}

func imageFacts(image *snapshot.Image) facts {
	if image == nil {
		return facts{}
	}
	return facts{uid: image.UID, version: image.MaxIgnition, release: image.Release}
}

func configFacts(config *snapshot.Config) facts {
	if config == nil {
		return facts{}
	}
	return facts{
		uid: config.UID, version: config.Hash, generation: config.Generation,
		servable: config.Servable, template: config.Template,
	}
}

func (c *Compatibility) reconcile(ctx context.Context, key snapshot.Ref) (time.Duration, error) {
	switch {
	case !c.opts.Ready():
		return coalescePause, nil
	case key == everyHost:
		return c.reconcileAll(), nil
	}
	view := c.opts.Inventory.View()
	if host := view.Host(key); host != nil {
		c.check(ctx, host)
	} else {
		delete(c.written, key)
	}
	return 0, nil
}

// reconcileAll queues all hosts that boot an image, and those with a condition.
func (c *Compatibility) reconcileAll() (requeueAfter time.Duration) {
	if wait := time.Until(c.nextPass); wait > 0 {
		return wait
	}
	view := c.opts.Inventory.View()
	hosts := view.HostsOf(func(snapshot.Ref) bool { return true }) // with any image
	for _, h := range hosts {
		c.controller.EnqueueLow(h.Ref)
	}
	for ref := range c.written {
		c.controller.EnqueueLow(ref)
	}
	c.nextPass = time.Now().Add(max(passPause, time.Duration(len(hosts))*passPauseOfHost))
	return 0
}

// check writes the condition of a host if the stored one differs. It writes the same
// condition once for each revision of the host.
func (c *Compatibility) check(ctx context.Context, h *snapshot.Host) {
	skew, isKnown := c.opts.Decider.SkewOfStored(h, ctx.Done())
	if !isKnown {
		return
	}
	sentence := ""
	if skew != nil {
		sentence = skew.String()
	}
	before, found := c.written[h.Ref]
	isStored := h.Unreadable() == (sentence != "")
	switch {
	case isStored && sentence == "":
		delete(c.written, h.Ref)
		return
	case found && before.sentence == sentence && (isStored || before.revision == h.Revision):
		return
	}
	// After a start the condition can be stored already: then this write has no effect.
	c.written[h.Ref] = condition{sentence, h.Revision}
	c.opts.Journal.ConfigReadable(h, sentence)
}

// maxNamed bounds the hosts that the answer to a write names.
const maxNamed = 5

// HostWarnings returns the warnings for a host that a client writes: a sentence for each
// host that shares an address with it, and one if its image cannot read its config.
func (c *Compatibility) HostWarnings(host *v1.BareMetalHost) []string {
	var sentences []string
	for _, conflict := range c.opts.Inventory.ConflictsOf(host) {
		sentences = append(sentences, conflict.String())
	}
	// Most hosts name no image; those need not be read for the decision.
	if host.Spec.Image == "" || host.Spec.Image == v1.ImageLocalBoot {
		return sentences
	}
	if h := snapshot.HostFrom(host); h != nil {
		if skew := c.opts.Decider.SkewOf(h); skew != nil {
			sentences = append(sentences, skew.String())
		}
	}
	return sentences
}

// ImageWarnings names the hosts whose config an image that is being written cannot read.
// maxIgnition is the newest Ignition spec version that it reads; "": that is not known.
func (c *Compatibility) ImageWarnings(cdrom *v1.ISCSICdrom, maxIgnition string) []string {
	image := snapshot.ImageFrom(cdrom)
	if image == nil {
		return nil
	}
	image.MaxIgnition = maxIgnition
	return c.warnings(decide.Changed{Image: image})
}

// ConfigWarnings names the hosts whose image cannot read a config that is being written.
func (c *Compatibility) ConfigWarnings(config *v1.IgnitionConfig) []string {
	if config.Spec.Type != v1.TypeIgnition || config.Compiled == nil ||
		!c.opts.Decider.Misread(config.Compiled.IgnitionVersion) {
		return nil
	}
	changed := snapshot.ConfigFrom(config)
	if changed == nil {
		return nil
	}
	return c.warnings(decide.Changed{Config: changed})
}

func (c *Compatibility) warnings(changed decide.Changed) []string {
	var sentences []string
	for i, skew := range c.opts.Decider.Skews(changed, maxNamed+1) {
		if i == maxNamed {
			return append(sentences, "and more hosts; kubectl get bmh -A -o json shows those with the condition "+
				v1.ConditionConfigReadable+"=False")
		}
		sentences = append(sentences, skew.String())
	}
	return sentences
}
