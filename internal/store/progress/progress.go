// Package progress remembers how far the boots of machines are. What a machine does is
// noted in memory, at once: its next boot must not depend on writes. The state that
// decides the next boot then goes into the boot log, many hosts in one write, and from
// there into the statuses of hosts, which somebody else writes.
package progress

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// seenPause is how long the status waits of a host that was only seen again.
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

// Recorder records events of what machines do.
type Recorder interface {
	RecordStep(host snapshot.Ref, uid, reason, message string)
}

// Statuses hears of hosts whose status is to be written after a pause.
type Statuses interface {
	Changed(host snapshot.Ref, pause time.Duration)
}

// Options are the parts of a Tracker.
type Options struct {
	// Events takes what machines do; nil discards it.
	Events Recorder
	// Host returns a host as the snapshot has it, nil where it has none; nil: it is
	// not asked.
	Host func(snapshot.Ref) *snapshot.Host
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Tracker remembers how far machines are. Its methods are safe for concurrent use and,
// but for Complete, Run and Shutdown, do not block.
type Tracker struct {
	opts Options
	// wake holds one: something may have to be written into the boot log.
	wake chan struct{}

	mu       sync.Mutex
	log      Log      // nil before Run
	statuses Statuses // nil while Run does not run
	// machines are the hosts that have done something since the start, at most one each.
	machines machines
	// unlogged are the machines whose state is to be written into the boot log, in
	// order.
	unlogged []*machine
	// urgent is true where a machine waits for one of them, and recorded is when some
	// were written last.
	urgent   bool
	recorded time.Time
	// stormUntil is when the storm of boots is over, as far as is known.
	stormUntil time.Time
	// applied is the newest message of the boot log that was applied.
	applied uint64
	closed  bool
}

// New returns a Tracker, which writes nothing before Run.
func New(opts Options) *Tracker {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Tracker{opts: opts, wake: make(chan struct{}, 1), machines: newMachines()}
}

// Progress returns how far a host is. What happened since its status was written
// counts.
func (t *Tracker) Progress(h *snapshot.Host) snapshot.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.machines.progress(h)
}

// Storm reports whether so many machines boot that statuses and events have to wait.
func (t *Tracker) Storm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.stormUntil)
}

// ScriptServed notes that a host was given the script that boots its image, or one of
// its own; what names that in the event. again is true where the machine has asked
// before in this boot.
func (t *Tracker) ScriptServed(host *snapshot.Host, what string, again bool) {
	step := decide.ImageStep
	if again {
		step = decide.AgainStep
	}
	t.advance(host, step)
	t.record(host, ReasonScriptServed, "given the script that boots "+what)
}

// LocalBoot notes that a host was given the script that boots its disk.
func (t *Tracker) LocalBoot(host *snapshot.Host, why string) {
	t.advance(host, decide.DiskStep)
	t.record(host, ReasonLocalBoot, "given the script that boots the disk: "+why)
}

// Failed notes that a host was shown why it cannot boot: a notice of the image says
// the same.
func (t *Tracker) Failed(host *snapshot.Host) { t.advance(host, decide.FailStep) }

// TargetLogin notes that a host has logged in to the target of an image. iPXE does so
// twice a boot, and the machine's system once more: that is one event.
func (t *Tracker) TargetLogin(host *snapshot.Host, image snapshot.Ref, initiator string) {
	if t.isFirst(host, loggedIn) {
		t.record(host, ReasonTargetLogin, "logged in to the target of image "+image.String()+" as "+initiator)
	}
}

// KernelRead notes that a host has begun to read the kernel of an image; what it reads
// of it later in the same boot is not noted.
func (t *Tracker) KernelRead(host *snapshot.Host, image snapshot.Ref, path string) {
	if t.isFirst(host, readKernel) {
		t.record(host, ReasonKernelRead, "reads the kernel "+path+" of image "+image.String())
	}
}

// InitrdRead is KernelRead for the initial RAM disk.
func (t *Tracker) InitrdRead(host *snapshot.Host, image snapshot.Ref, path string) {
	if t.isFirst(host, readInitrd) {
		t.record(host, ReasonInitrdRead, "reads the initrd "+path+" of image "+image.String())
	}
}

// Served notes that a host was given a config. Retries are no event.
func (t *Tracker) Served(host *snapshot.Host, config *snapshot.Config) {
	if t.advanceWith(host, decide.ConfigStep, config) {
		t.record(host, ReasonConfigServed, "given the config "+config.Ref.String()+", "+config.Hash)
	}
}

// Complete notes that a host has said that it is done, and returns once that is
// durable. After an error it may not be, and the machine is to say it again.
func (t *Tracker) Complete(ctx context.Context, host *snapshot.Host) error {
	t.advance(host, decide.CompleteStep)
	if err := t.awaitLogged(ctx, host); err != nil {
		return err
	}
	t.record(host, ReasonBootComplete, "said that it is provisioned")
	return nil
}

// record makes an event of what a host has done.
func (t *Tracker) record(host *snapshot.Host, reason, message string) {
	if t.opts.Events != nil {
		t.opts.Events.RecordStep(host.Ref, host.UID, reason, message)
	}
}

// isFirst reports whether something happens for the first time in a host's boot.
func (t *Tracker) isFirst(host *snapshot.Host, what once) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.machines.isFirst(host, what)
}

func (t *Tracker) advance(host *snapshot.Host, step decide.Step) { t.advanceWith(host, step, nil) }

// advanceWith brings a host forward, at once in memory and soon in the boot log and its
// status. config is the one that it was given in this step, if any. It reports whether
// that is more than a retry.
func (t *Tracker) advanceWith(host *snapshot.Host, step decide.Step, config *snapshot.Config) (isNew bool) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return false
	}
	m, began, changed := t.machines.step(host, step, time.Now())
	isNew = began || changed
	isFirst := false
	if config != nil {
		isNew = isNew || m.Config != config.Ref || m.Hash != config.Hash
		m.Config, m.Hash = config.Ref, config.Hash
	}
	isSeen := t.machines.mark(m) && !changed // a change is written once it is in the boot log
	if changed {
		isFirst = len(t.unlogged) == 0
		t.enqueueLocked(m)
	}
	statuses := t.statuses
	t.mu.Unlock()
	if isFirst {
		t.wakeWriter()
	}
	if isSeen && statuses != nil {
		statuses.Changed(host.Ref, seenPause)
	}
	return isNew
}

func (t *Tracker) wakeWriter() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Pending returns how many states go into the boot log, and how many statuses lack
// something.
func (t *Tracker) Pending() (records, statuses int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.unlogged), t.machines.unwritten
}
