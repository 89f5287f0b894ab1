package config

import (
	"context"
	"slices"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// maxMergedAtOnce bounds what is merged while a writer waits, in bytes.
const maxMergedAtOnce = 64 << 10

// Admit does the steps of a valid config that fit into the time of its write, and sets
// its status. old is the stored config, nil for a new one.
func (c *Controller) Admit(ctx context.Context, config, old *v1.IgnitionConfig) {
	if old != nil {
		if sameCompilation(config, old) {
			carryOver(config, old)
			c.convertAtOnce(config)
			return
		}
		if config.Spec.Type != old.Spec.Type {
			// No installer is given what is written for another.
			config.Status, config.Compiled = v1.IgnitionConfigStatus{}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.AdmissionLimit)
	defer cancel()
	made, err := c.compiler.run(ctx, source(config))
	if err != nil {
		setPending(config)
		return
	}
	c.set(config, made)
}

// Admitted is called with a config that has been stored after Admit, and with what it
// replaced: the steps that Admit left are taken in the background.
func (c *Controller) Admitted(config, old *v1.IgnitionConfig) {
	c.writes.note(time.Now())
	if config.AwaitsHosts() {
		return
	}
	if config.Status.Phase == v1.PhasePending {
		c.queue.Enqueue(Key{refOf(config), Advance})
		return
	}
	if old == nil || !sameCompilation(config, old) {
		c.record(config)
	}
	if isUnconverted(config) {
		c.queue.EnqueueAfter(Key{refOf(config), Convert}, convertPause)
	}
}

// sameCompilation reports whether a config asks for the same compilation as the one that it
// replaces.
func sameCompilation(config, old *v1.IgnitionConfig) bool {
	return source(config) == source(old) && slices.Equal(config.Spec.Layers, old.Spec.Layers) && old.Status.Phase != ""
}

// set writes a compilation into a config, and takes the further steps that take no time
// to speak of.
func (c *Controller) set(config *v1.IgnitionConfig, made *compilation) {
	now := time.Now()
	setCompiled(config, made, now)
	if ownOf(config) != nil {
		setMerged(c.opts.Snapshot, config, maxMergedAtOnce, now)
	}
	c.convertAtOnce(config)
}

// convertAtOnce says what a config can be converted to where a host may need it
// converted: whoever writes the config is warned of hosts that cannot read it.
func (c *Controller) convertAtOnce(config *v1.IgnitionConfig) {
	if isUnconverted(config) && c.opts.Misread(config.Compiled.IgnitionVersion) {
		setConverted(config)
	}
}

// record makes an event of a compilation, which kubectl describe shows.
func (c *Controller) record(config *v1.IgnitionConfig) {
	if config.Status.Phase == v1.PhaseError {
		c.opts.Recorder.Record(controller.ConfigReference(config), v1.EventWarning, "CompileFailed", config.Status.ErrorMessage)
		return
	}
	c.opts.Recorder.Record(controller.ConfigReference(config), v1.EventNormal, "Compiled",
		"compiled to "+report.Size(config.Status.CompiledSize)+", "+compile.ShortHash(config.Status.ConfigHash))
}

type noRecorder struct{}

func (noRecorder) Record(v1.ObjectReference, string, string, string) {}
