package journal

import (
	"context"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/boot"
	"glowplug/internal/inventory"
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

// Progress is how far a host is. What happened since its status was written
// counts.
func (j *Journal) Progress(h *inventory.Host) inventory.Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.machines.progress(h)
}

// ScriptServed notes that a host was given the script that boots its image, or
// one of its own; what says what that boots. again is true where the machine has
// asked before in this boot.
func (j *Journal) ScriptServed(host *inventory.Host, what string, again bool) {
	step := boot.ImageStep
	if again {
		step = boot.AgainStep
	}
	j.advance(host, step, nil)
	j.tell(host, ReasonScriptServed, "given the script that boots "+what)
}

// LocalBoot notes that a host was given the script that boots its disk.
func (j *Journal) LocalBoot(host *inventory.Host, why string) {
	j.advance(host, boot.DiskStep, nil)
	j.tell(host, ReasonLocalBoot, "given the script that boots the disk: "+why)
}

// Failed notes that a host was shown why it cannot boot: of an image there is
// a notice that says the same.
func (j *Journal) Failed(host *inventory.Host) { j.advance(host, boot.FailStep, nil) }

// TargetLogin notes that a host has logged in to the target of an image. iPXE
// does so twice a boot, and the machine's system once more: that is one event.
func (j *Journal) TargetLogin(host *inventory.Host, image inventory.Ref, initiator string) {
	if j.first(host, loggedIn) {
		j.tell(host, ReasonTargetLogin, "logged in to the target of image "+image.String()+" as "+initiator)
	}
}

// KernelRead notes that a host has begun to read the kernel of an image; what it
// reads of it later in the same boot is not noted.
func (j *Journal) KernelRead(host *inventory.Host, image inventory.Ref, path string) {
	if j.first(host, readKernel) {
		j.tell(host, ReasonKernelRead, "reads the kernel "+path+" of image "+image.String())
	}
}

// InitrdRead is KernelRead for the initial RAM disk.
func (j *Journal) InitrdRead(host *inventory.Host, image inventory.Ref, path string) {
	if j.first(host, readInitrd) {
		j.tell(host, ReasonInitrdRead, "reads the initrd "+path+" of image "+image.String())
	}
}

// Served notes that a host was given a config. Retries are no event.
func (j *Journal) Served(host *inventory.Host, config *inventory.Config) {
	isNews := false
	j.advance(host, boot.ConfigStep, func(m *machine, began, changed bool) {
		isNews = began || changed || m.config != config.Ref || m.hash != config.Hash
		m.config, m.hash = config.Ref, config.Hash
	})
	if isNews {
		j.tell(host, ReasonConfigServed, "given the config "+config.Ref.String()+", "+config.Hash)
	}
}

// Complete notes that a host has said that it is done, and returns once that is
// durable. After an error it may not be, and the machine is to say it again.
func (j *Journal) Complete(ctx context.Context, host *inventory.Host) error {
	j.advance(host, boot.CompleteStep, nil)
	if err := j.durable(ctx, host); err != nil {
		return err
	}
	j.tell(host, ReasonBootComplete, "said that it is provisioned")
	return nil
}

// advance brings a host forward, at once in memory and soon in the boot log and
// its status; more, which may be nil, is called under the lock.
func (j *Journal) advance(host *inventory.Host, step boot.Step, more func(m *machine, began, changed bool)) {
	now := time.Now()
	first := false
	j.note(j.wakeHosts, func() (wake bool) {
		m, began, changed := j.machines.step(host, step, now)
		if more != nil {
			more(m, began, changed)
		}
		if changed {
			first = len(j.unlogged) == 0
			j.enqueue(m)
			return j.states.schedule(host.Ref, now.Add(unloggedGrace))
		}
		_, wake = j.hostNews(host, now)
		return wake
	})
	if first {
		signal(j.wakeLog)
	}
}

// first tells whether something happens for the first time in a host's boot.
func (j *Journal) first(host *inventory.Host, what once) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.machines.first(host, what)
}

// tell makes an event on a host.
func (j *Journal) tell(host *inventory.Host, reason, message string) {
	j.Record(v1.ObjectReference{
		Kind: "BareMetalHost", APIVersion: "v1", Namespace: host.Namespace, Name: host.Name, UID: host.UID,
	}, v1.EventNormal, reason, message)
}
