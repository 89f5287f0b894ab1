package progress

import (
	"context"
	"slices"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

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

// ReasonLoginRefused is that of the event on an image whose secret somebody does not know.
const ReasonLoginRefused = "LoginRefused"

// Progress is how far a host is. What happened since its status was written
// counts.
func (j *Tracker) Progress(h *snapshot.Host) snapshot.Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.machines.progress(h)
}

// ScriptServed notes that a host was given the script that boots its image, or
// one of its own; what says what that boots. again is true where the machine has
// asked before in this boot.
func (j *Tracker) ScriptServed(host *snapshot.Host, what string, again bool) {
	step := decide.ImageStep
	if again {
		step = decide.AgainStep
	}
	j.advance(host, step, func(*machine, bool, bool) (string, string) {
		return ReasonScriptServed, "given the script that boots " + what
	})
}

// LocalBoot notes that a host was given the script that boots its disk.
func (j *Tracker) LocalBoot(host *snapshot.Host, why string) {
	j.advance(host, decide.DiskStep, func(*machine, bool, bool) (string, string) {
		return ReasonLocalBoot, "given the script that boots the disk: " + why
	})
}

// Failed notes that a host was shown why it cannot boot: of an image there is
// a notice that says the same.
func (j *Tracker) Failed(host *snapshot.Host) { j.advance(host, decide.FailStep, nil) }

// TargetLogin notes that a host has logged in to the target of an image. iPXE
// does so twice a boot, and the machine's system once more: that is one event.
func (j *Tracker) TargetLogin(host *snapshot.Host, image snapshot.Ref, initiator string) {
	if j.first(host, loggedIn) {
		j.tell(host, ReasonTargetLogin, "logged in to the target of image "+image.String()+" as "+initiator)
	}
}

// KernelRead notes that a host has begun to read the kernel of an image; what it
// reads of it later in the same boot is not noted.
func (j *Tracker) KernelRead(host *snapshot.Host, image snapshot.Ref, path string) {
	if j.first(host, readKernel) {
		j.tell(host, ReasonKernelRead, "reads the kernel "+path+" of image "+image.String())
	}
}

// InitrdRead is KernelRead for the initial RAM disk.
func (j *Tracker) InitrdRead(host *snapshot.Host, image snapshot.Ref, path string) {
	if j.first(host, readInitrd) {
		j.tell(host, ReasonInitrdRead, "reads the initrd "+path+" of image "+image.String())
	}
}

// Served notes that a host was given a config. Retries are no event.
func (j *Tracker) Served(host *snapshot.Host, config *snapshot.Config) {
	j.advance(host, decide.ConfigStep, func(m *machine, began, changed bool) (reason, message string) {
		isNews := began || changed || m.config != config.Ref || m.hash != config.Hash
		m.config, m.hash = config.Ref, config.Hash
		if !isNews {
			return "", ""
		}
		return ReasonConfigServed, "given the config " + config.Ref.String() + ", " + config.Hash
	})
}

// Complete notes that a host has said that it is done, and returns once that is
// durable. After an error it may not be, and the machine is to say it again.
func (j *Tracker) Complete(ctx context.Context, host *snapshot.Host) error {
	j.advance(host, decide.CompleteStep, nil)
	if err := j.durable(ctx, host); err != nil {
		return err
	}
	j.tell(host, ReasonBootComplete, "said that it is provisioned")
	return nil
}

// advance brings a host forward, at once in memory and soon in the boot log and
// its status. tell, which may be nil, is called under the lock, and gives the event
// to make of it; no reason: none.
func (j *Tracker) advance(
	host *snapshot.Host, step decide.Step, tell func(m *machine, began, changed bool) (reason, message string),
) {
	now := time.Now()
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return
	}
	m, began, changed := j.machines.step(host, step, now)
	var wakeEvents, wakeLog, wakeHosts bool
	if tell != nil {
		if reason, message := tell(m, began, changed); reason != "" {
			wakeEvents = j.noteStep(m, reason, message, now)
		}
	}
	if changed {
		wakeLog = len(j.unlogged) == 0
		j.enqueue(m)
		m.status, wakeHosts = j.states.schedule(m.status, m.ref, now.Add(unloggedGrace))
	} else {
		_, wakeHosts = j.hostNews(host, now)
	}
	j.mu.Unlock()
	if wakeEvents {
		signal(j.wakeEvents)
	}
	if wakeLog {
		signal(j.wakeLog)
	}
	if wakeHosts {
		signal(j.wakeHosts)
	}
}

// first tells whether something happens for the first time in a host's boot.
func (j *Tracker) first(host *snapshot.Host, what once) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.machines.first(host, what)
}

// tell makes an event of what a host has done.
func (j *Tracker) tell(host *snapshot.Host, reason, message string) {
	now := time.Now()
	j.note(j.wakeEvents, func() bool { return j.noteStep(j.machines.of(host), reason, message, now) })
}

// noteStep notes the event of what a machine has done. The caller holds the lock.
func (j *Tracker) noteStep(m *machine, reason, message string, now time.Time) (wake bool) {
	for _, it := range m.steps {
		if it.key.reason == reason && it.key.message == message && it.isQueued() {
			wake = j.steps.renew(it, now)
			it.news.seen(now, it.key.message)
			return wake
		}
	}
	message = clip(message, maxMessage)
	it, wake, lost := j.steps.touch(stepKey{machine: m, reason: reason, message: message}, now)
	if lost {
		j.metrics.drop(kindEvent, causeFull)
	}
	it.news.seen(now, message)
	if len(m.steps) == keptSteps {
		m.steps = slices.Delete(m.steps, 0, 1)
	}
	m.steps = append(m.steps, it)
	return wake
}
