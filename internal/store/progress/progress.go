// Package progress holds the states of machines' boots. A state changes in memory first: the
// next boot of a machine must not depend on writes. The part that decides the next boot is
// then written into the boot log, many hosts in one write. The controller of hosts writes
// it into their statuses.
package progress

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/feed"
)

// seenPause is the pause before a status is written that has a new lastSeen alone.
const seenPause = 5 * time.Second

// Reasons of the events of a boot, in the order in which they come.
const (
	ReasonScriptServed = "ScriptServed"
	ReasonTargetLogin  = "TargetLogin"
	ReasonKernelRead   = "KernelRead"
	ReasonInitrdRead   = "InitrdRead"
	ReasonConfigServed = "ConfigServed"
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

// Options are the parts of a Tracker.
type Options struct {
	// Events takes the events of boots; nil discards them.
	Events Recorder
	// Host returns a host as the snapshot has it, nil where it has none; nil: it is
	// not asked.
	Host func(model.Ref) *model.Host
	// Logger takes failures; nil discards them.
	Logger *slog.Logger
}

// Tracker holds the states of machines' boots. Its methods are safe for concurrent use and,
// but for Complete, Run and Shutdown, do not block.
type Tracker struct {
	opts Options
	// wake holds one: something may have to be written into the boot log.
	wake chan struct{}

	due *feed.Feed[Due]

	mu  sync.Mutex
	log Log // nil before Run
	// machines are the hosts that have done something since the start.
	machines map[model.Ref]*machine
	// limit is the number of machines at which some are forgotten.
	limit int
	// unlogged are the machines whose state is not in the boot log yet, in order.
	unlogged []*machine
	// urgent is true while a machine waits for one of them, and recorded is the time of the
	// last write.
	urgent   bool
	recorded time.Time
	// stormUntil is the time at which the storm of boots is expected to end.
	stormUntil time.Time
	// applied is the newest message of the boot log that was applied.
	applied uint64
	closed  bool
}

// New returns a Tracker, which writes nothing before Run.
func New(opts Options) *Tracker {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Tracker{
		opts: opts, due: feed.New(Due{}),
		wake: make(chan struct{}, 1), machines: make(map[model.Ref]*machine), limit: fewMachines,
	}
}

// Subscribe returns a subscription to the hosts whose status has to be written.
func (t *Tracker) Subscribe() *feed.Subscription[Due] { return t.due.Subscribe() }

// Progress returns the state of a host's boot, which may be newer than its status.
func (t *Tracker) Progress(h *model.Host) model.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.knownLocked(h.Ref, h.UID); m != nil {
		return m.Merge(h.Progress)
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
func (t *Tracker) ScriptServed(host *model.Host, what string, again bool) {
	step := decide.ImageStep
	if again {
		step = decide.AgainStep
	}
	t.advance(host, step)
	t.record(host, ReasonScriptServed, "given "+what)
}

// LocalBoot notes that a host was given the script that boots its disk.
func (t *Tracker) LocalBoot(host *model.Host, why string) {
	t.advance(host, decide.DiskStep)
	t.record(host, ReasonLocalBoot, "given the script that boots the disk: "+why)
}

// Failed notes that a host was shown why it cannot boot: a notice says the same.
func (t *Tracker) Failed(host *model.Host) { t.advance(host, decide.FailStep) }

// TargetLogin notes that a host has logged in to the target of an image. iPXE does so
// twice a boot, and the machine's system once more: that is one event.
func (t *Tracker) TargetLogin(host *model.Host, image model.Ref, initiator string) {
	t.recordOnce(host, loggedIn, ReasonTargetLogin,
		"logged in to the target of image "+image.String()+" as "+initiator)
}

// KernelRead notes that a host has begun to read the kernel of an image. Later reads of the
// same boot are no events.
func (t *Tracker) KernelRead(host *model.Host, image model.Ref, path string) {
	t.recordOnce(host, readKernel, ReasonKernelRead, "reads the kernel "+path+" of image "+image.String())
}

// InitrdRead is KernelRead for the initial RAM disk.
func (t *Tracker) InitrdRead(host *model.Host, image model.Ref, path string) {
	t.recordOnce(host, readInitrd, ReasonInitrdRead, "reads the initrd "+path+" of image "+image.String())
}

// Served notes that a host was given a config. Retries are no event.
func (t *Tracker) Served(host *model.Host, config *model.Config) {
	if t.advanceWith(host, decide.ConfigStep, config) {
		t.record(host, ReasonConfigServed, "given the config "+config.Ref.String()+", "+config.Hash)
	}
}

// Complete notes that a host has reported the end of its installation, and returns once
// that is durable. After an error it may not be durable, and the machine has to repeat it.
func (t *Tracker) Complete(ctx context.Context, host *model.Host) error {
	t.advance(host, decide.CompleteStep)
	if err := t.awaitLogged(ctx, host); err != nil {
		return err
	}
	t.record(host, ReasonBootComplete, "said that it is provisioned")
	return nil
}

// record makes an event of a host.
func (t *Tracker) record(host *model.Host, reason, message string) {
	if t.opts.Events != nil {
		t.opts.Events.RecordStep(host.Ref, host.UID, reason, message)
	}
}

// recordOnce makes an event, once in a boot.
func (t *Tracker) recordOnce(host *model.Host, event eventSet, reason, message string) {
	t.mu.Lock()
	m := t.machineLocked(host)
	isFirst := m.recorded&event == 0
	m.recorded |= event
	t.mu.Unlock()
	if isFirst {
		t.record(host, reason, message)
	}
}

func (t *Tracker) advance(host *model.Host, step decide.Step) { t.advanceWith(host, step, nil) }

// advanceWith applies a step to a host, at once in memory and soon in the boot log and its
// status. config is the one that the host was given in this step, if any. The result is
// false for a retry.
func (t *Tracker) advanceWith(host *model.Host, step decide.Step, config *model.Config) (isNew bool) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return false
	}
	m := t.machineLocked(host)
	before := m.Merge(host.Progress)
	m.Progress, isNew = decide.Advance(host, before, step, time.Now())
	if isNew {
		m.recorded = 0
	}
	isChanged := !decide.Same(before, m.Progress)
	isNew = m.receive(config) || isNew || isChanged
	isSeen := !m.unwritten && !isChanged // a change is written into the status after the boot log
	m.unwritten, m.Stepped = true, true
	mustWake := isChanged && t.changedLocked(m, &before)
	t.mu.Unlock()
	if mustWake {
		t.wakeWriter()
	}
	if isSeen {
		t.due.Publish(Due{host.Ref, seenPause})
	}
	return isNew
}

// receive notes the config that a machine receives; nil: none. It reports whether it is another one.
func (m *machine) receive(config *model.Config) (isNew bool) {
	if config == nil {
		return false
	}
	isNew = m.Config != config.Ref || m.Hash != config.Hash
	m.Config, m.Hash = config.Ref, config.Hash
	return isNew
}

// changedLocked queues the new progress of a machine for the boot log. It reports whether the writer
// has to be woken.
func (t *Tracker) changedLocked(m *machine, before *model.Progress) (mustWake bool) {
	m.unwritten, m.Stepped, m.Logged, m.after = true, true, false, before.Position
	mustWake = len(t.unlogged) == 0
	t.enqueueLocked(m)
	return mustWake
}

func (t *Tracker) wakeWriter() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Pending returns the number of states that are not in the boot log yet, and that of hosts
// whose status is not up to date.
func (t *Tracker) Pending() (records, statuses int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.machines {
		if m.unwritten {
			statuses++
		}
	}
	return len(t.unlogged), statuses
}
