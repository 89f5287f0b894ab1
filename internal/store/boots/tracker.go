// Package boots keeps the boots of machines. A boot changes in memory first: the next boot of a machine must not
// depend on writes. What decides the next boot is stored within a second, many hosts in one atomic batch; the
// controller of hosts copies it into their statuses. When a boot begins, the former one goes into the history. A bucket
// has the newest boot of each host, and a stream the history.
package boots

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
	"glowplug/internal/store/kvstore"
)

// Reasons of the events of a boot, in the order in which they come.
const (
	ReasonScriptServed = "ScriptServed"
	ReasonTargetLogin  = "TargetLogin"
	ReasonKernelRead   = "KernelRead"
	ReasonInitrdRead   = "InitrdRead"
	ReasonRootfsRead   = "RootfsRead"
	ReasonConfigServed = "ConfigServed"

	ReasonHardwareReported = "HardwareReported"

	ReasonBootComplete = "BootComplete"
	ReasonLocalBoot    = "LocalBoot"
)

// Recorder records the events of boots.
type Recorder interface {
	RecordStep(host model.Ref, uid, reason, message string)
}

// Due is a host whose status has to be written after a pause. Without a name it is all hosts that Unwritten returns.
type Due struct {
	Host  model.Ref
	Pause time.Duration
}

// Describe completes a boot that has changed with what the machine said and was given. Nil adds nothing.
type Describe = func(*v1.Boot)

// Options are the parts of a Tracker.
type Options struct {
	// Events takes the events of boots; nil discards them.
	Events Recorder
	// Stored returns the stored boot of a host, which the caller may change; nil where there is none. Without Stored
	// what others have stored is known as far as it decides the next boot.
	Stored func(model.Ref) *v1.Boot
	// Exclusive says that no other process stores boots.
	Exclusive bool
	// Changed is called for each host whose boot has changed, and must not wait; nil: nobody has to know.
	Changed func(host model.Ref)
	// Metrics counts the writes; nil: they are not counted.
	Metrics *Metrics
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Store is the bucket of the newest boots.
type Store interface {
	// PutAll stores all of them or none; see kvstore.Store.
	PutAll(ctx context.Context, puts []kvstore.Put) (last uint64, err error)
}

// Archive is the history of boots.
type Archive interface {
	// Append stores at most batch.Max boots that have ended.
	Append(ctx context.Context, boots []*v1.Boot) error
}

// Tracker holds the newest boots of hosts. Its methods are safe for concurrent use and,
// but for Complete, Replace, Run and Shutdown, do not block.
type Tracker struct {
	opts Options
	// wake holds one: something may have to be stored.
	wake chan struct{}

	due *feed.Feed[Due]

	mu      sync.Mutex
	store   Store // nil before Run
	archive Archive
	// machines are the hosts that have done something.
	machines map[model.Ref]*machine
	// soon are the machines whose boot has to be stored within a second, and late those that can wait, that which is due
	// first at the head.
	soon, late []waiting
	// leaving are the machines of which former boots can go to the history, and left holds one: there may be some.
	leaving []*machine
	left    chan struct{}
	// recorded is the time of the last write, gap the time from it to the next one at the least, and lately the number of
	// boots that were written, of which each counts less and less as time passes.
	recorded time.Time
	gap      time.Duration
	lately   float64
	// stormUntil is the time at which the storm of boots is expected to end.
	stormUntil time.Time
	closed     bool
}

// New returns a Tracker, which stores nothing before Run.
func New(opts Options) *Tracker {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Changed == nil {
		opts.Changed = func(model.Ref) {}
	}
	if opts.Stored == nil {
		opts.Stored = func(model.Ref) *v1.Boot { return nil }
	}
	return &Tracker{
		opts: opts, due: feed.New(Due{}), wake: make(chan struct{}, 1), left: make(chan struct{}, 1),
		machines: make(map[model.Ref]*machine),
	}
}

// Name returns the name of a boot.
func Name(host string, number int64) string { return host + "." + strconv.FormatInt(number, 10) }

// Subscribe returns a subscription to the hosts whose status has to be written.
func (t *Tracker) Subscribe() *feed.Subscription[Due] { return t.due.Subscribe() }

// Progress returns the state of a host's boot. Of a host without a boot it is that of its status.
func (t *Tracker) Progress(h *model.Host) model.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.knownLocked(h.Ref, h.UID); m != nil {
		return m.Progress
	}
	return h.Progress
}

// Storm reports whether so many machines boot that statuses and events have to wait.
func (t *Tracker) Storm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.stormUntil)
}

// ScriptServed notes that a host was given a script, which what names in the event: the
// script that boots its image, or one of its own. again is true where the machine has
// asked before in this boot.
func (t *Tracker) ScriptServed(host *model.Host, what string, again bool, describe Describe) {
	step := decide.ImageStep
	if again {
		step = decide.AgainStep
	}
	t.advance(host, change{step: step, name: v1.StepScript, describe: describe})
	t.opts.record(host, ReasonScriptServed, "given "+what)
}

// LocalBoot notes that a host was given the script that boots its disk.
func (t *Tracker) LocalBoot(host *model.Host, why string, describe Describe) {
	t.advance(host, change{step: decide.DiskStep, name: v1.StepScript, reason: why, describe: describe})
	t.opts.record(host, ReasonLocalBoot, "given the script that boots the disk: "+why)
}

// Failed notes that a host was shown why it cannot boot: a notice says the same.
func (t *Tracker) Failed(host *model.Host, why string, describe Describe) {
	t.advance(host, change{step: decide.FailStep, reason: why, describe: describe})
}

// Refused notes that a host was refused its config: the boot cannot go on.
func (t *Tracker) Refused(host *model.Host, why string, describe Describe) {
	t.advance(host, change{step: refuseStep, reason: why, describe: describe})
}

// TargetLogin notes that a host has logged in to the target of an image. iPXE does so
// twice a boot, and the machine's system once more: that is one event.
func (t *Tracker) TargetLogin(host *model.Host, image model.Ref, initiator string) {
	t.reach(host, v1.StepTargetLogin, ReasonTargetLogin,
		"logged in to the target of image "+image.String()+" as "+initiator)
}

// KernelRead notes that a host has begun to read the kernel of an image. Later reads of the
// same boot are no events.
func (t *Tracker) KernelRead(host *model.Host, image model.Ref, path string) {
	t.reach(host, v1.StepKernel, ReasonKernelRead, "reads the kernel "+path+" of image "+image.String())
}

// InitrdRead is KernelRead for the initial RAM disk.
func (t *Tracker) InitrdRead(host *model.Host, image model.Ref, path string) {
	t.reach(host, v1.StepInitrd, ReasonInitrdRead, "reads the initrd "+path+" of image "+image.String())
}

// RootfsRead is KernelRead for the root file system.
func (t *Tracker) RootfsRead(host *model.Host, image model.Ref, path string) {
	t.reach(host, v1.StepRootfs, ReasonRootfsRead, "reads the root file system "+path+" of image "+image.String())
}

// Reported notes that a host has reported its hardware.
func (t *Tracker) Reported(host *model.Host) {
	t.reach(host, v1.StepHardware, ReasonHardwareReported, "reported its hardware")
}

// Served notes that a host was given a config. Retries are no event.
// hash is that of the bytes.
func (t *Tracker) Served(host *model.Host, config model.Ref, hash string, describe Describe) {
	c := change{step: decide.ConfigStep, name: v1.StepConfig, config: config, hash: hash, describe: describe}
	if t.advance(host, c) {
		t.opts.record(host, ReasonConfigServed, "given the config "+config.String()+", "+hash)
	}
}

// Complete notes that a host has reported the end of its installation, and returns once
// that is durable. After an error it may not be durable, and the machine has to repeat it.
func (t *Tracker) Complete(ctx context.Context, host *model.Host) error {
	t.advance(host, change{step: decide.CompleteStep, name: v1.StepBootComplete})
	if err := t.awaitStored(ctx, host); err != nil {
		return err
	}
	t.opts.record(host, ReasonBootComplete, "said that it is provisioned")
	return nil
}

// record makes an event of a host.
func (o *Options) record(host *model.Host, reason, message string) {
	if o.Events != nil && !model.IsStranger(host.Ref) {
		o.Events.RecordStep(host.Ref, host.UID, reason, message)
	}
}

// reach notes a step that changes no state, and makes an event of it once in a boot.
func (t *Tracker) reach(host *model.Host, name, reason, message string) {
	t.mu.Lock()
	m := t.machineLocked(host)
	isFirst := !t.closed && note(t.openLocked(m), name, time.Now())
	if isFirst {
		t.opts.Metrics.reached(m.open)
		t.changedLocked(m, false)
	}
	t.mu.Unlock()
	if isFirst {
		t.opts.record(host, reason, message)
	}
}

// change is a step and what a boot has of it.
type change struct {
	step decide.Step
	// name is that of the step in the boot; "": it has none.
	name string
	// reason says why the machine failed or boots its disk.
	reason string
	// config is the config that the machine was given, and hash that of its bytes; zero: none.
	config   model.Ref
	hash     string
	describe Describe
}

// advance applies a step to a host, at once in memory and soon in the store and its status. The result is
// false for a retry.
func (t *Tracker) advance(host *model.Host, c change) (isNew bool) {
	at := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	m := t.machineLocked(host)
	next, began := m.Progress, false
	if c.step != refuseStep {
		next, began = decide.Advance(host, m.Progress, c.step, at)
	}
	isDecisive := !decide.Same(m.Progress, next)
	isNew = began || isDecisive || m.isNews(t, &c)
	if !isNew && c.step == refuseStep {
		return false
	}
	if isNew {
		if b := t.openLocked(m); began || c.fails() && isOver(b) {
			m.begin(t.opts.Metrics, c.step, at)
			leaveLocked(t, m)
		}
	}
	if m.Progress = next; isNew {
		m.apply(t.opts.Metrics, c, at)
	}
	t.changedLocked(m, isDecisive && !model.IsStranger(host.Ref))
	return isNew
}

// refuseStep is a request for a config that is refused. It changes no state.
const refuseStep = decide.Step(255)

func (c *change) fails() bool { return c.step == decide.FailStep || c.step == refuseStep }

// isNews reports whether a change that changes no state changes the boot: another config or one after a failure,
// another failure, or the first boot-complete of an installed machine.
func (m *machine) isNews(t *Tracker, c *change) bool {
	switch { // a retry, which is frequent, opens no boot
	case c.step == decide.ConfigStep:
		return m.Failed || m.Config != c.config || m.Hash != c.hash
	case c.fails():
		return !m.Failed || t.openLocked(m).Reason != c.reason
	case c.step == decide.CompleteStep:
		return !hasStep(t.openLocked(m), c.name)
	}
	return false
}

// isOver reports whether a failure is not of this boot.
func isOver(b *v1.Boot) bool {
	return b.Begun == nil || b.Ended != nil && b.Outcome != v1.OutcomeFailed
}

// apply notes a step in the boot.
func (m *machine) apply(metrics *Metrics, c change, at time.Time) {
	b := m.open
	was, isReached := b.Outcome, note(b, c.name, at)
	if c.step != decide.CompleteStep || !m.Failed { // what is complete without its config says why it had none
		b.Reason = c.reason
	}
	switch c.step {
	case decide.ImageStep, decide.AgainStep:
		b.Outcome = v1.OutcomeBooting
	case decide.ConfigStep:
		b.Outcome = v1.OutcomeProvisioning
		if m.Progress.State == v1.StateProvisioned {
			b.Outcome = v1.OutcomeProvisioned
		}
	case decide.DiskStep:
		b.Outcome = v1.OutcomeLocalBoot
	case decide.CompleteStep:
		b.Outcome = v1.OutcomeProvisioned
	case decide.FailStep, refuseStep:
		b.Outcome = v1.OutcomeFailed
	}
	if c.step == decide.ConfigStep {
		m.Config, m.Hash = c.config, c.hash
		b.Config = &v1.BootConfig{Name: m.Config.String(), Hash: m.Hash}
	}
	m.Failed = b.Outcome == v1.OutcomeFailed
	if c.describe != nil {
		c.describe(b)
	}
	if isReached {
		metrics.reached(b)
	}
	switch isOver := slices.Contains(v1.BootOutcomes, b.Outcome); {
	case !isOver:
		b.Ended = nil
	case b.Ended == nil:
		b.Ended = &metav1.MicroTime{Time: at}
		metrics.finished(b)
	case b.Outcome != was: // it went on after its end
		b.Ended = &metav1.MicroTime{Time: at}
	}
}
