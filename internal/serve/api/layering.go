package api

import (
	"math"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
	"glowplug/internal/store/snapshot"
)

// Settle writes what a config has been compiled to into it, as the server does: with
// an artifact of nil it is the report that says why. A config with layers is Pending
// then, until Lay.
func Settle(config *v1.IgnitionConfig, artifact *compile.Artifact, found report.Report) {
	settle(config, &job{artifact: artifact, report: found}, time.Now())
}

// Lay merges a config that has been settled over its layers as an inventory has them.
func Lay(inv *snapshot.Inventory, config *v1.IgnitionConfig) {
	if ownOf(config) != nil {
		(&layering{inv}).lay(config, math.MaxInt, time.Now())
	}
}

// layering merges configs over their layers, which it finds in the inventory: that
// has what each config is served as, and is as new as the store.
type layering struct {
	inv *snapshot.Inventory
}

// maxAtOnce bounds what is merged while a writer waits, in bytes; with it goes what
// the config can be given as.
const maxAtOnce = 64 << 10

// atOnce merges a config that is being written, if that takes no time to speak of.
func (l *layering) atOnce(config *v1.IgnitionConfig, now time.Time) {
	if ownOf(config) != nil && l.lay(config, maxAtOnce, now) && config.Status.Phase == v1.PhaseReady {
		judge(config)
	}
}

// lay merges a config over its layers as they are now, unless all of them are larger
// than limit, or one is being compiled for the first time: then it stays Pending. It
// tells whether it did. Where it comes to the same as before nothing changes.
func (l *layering) lay(config *v1.IgnitionConfig, limit int, now time.Time) bool {
	own, status := ownOf(config), &config.Status
	var names []string
	for _, layer := range config.Spec.Layers {
		names = append(names, layer.Name)
	}
	view := l.inv.View()
	stack, pending, found := compile.Stack(config.Name, names, view.Layers(config.Namespace))
	view.End()
	size := len(own.Artifact)
	for _, layer := range stack {
		size += len(layer.Bytes)
	}
	if pending || size > limit && !found.HasError() {
		status.Phase, status.ErrorMessage = v1.PhasePending, ""
		return false
	}
	var laid *compile.Laid
	if !found.HasError() {
		more := found
		laid, found = compile.Lay(config.Name, own.Artifact, stack)
		found = append(more, found...)
	}
	status.Warnings = append(append([]string(nil), own.Warnings...), found.Warnings().Strings()...)
	status.ErrorMessage = found.Summary()
	if laid == nil {
		status.Phase = v1.PhaseError
		return true
	}
	status.Layers = nil
	for _, layer := range stack {
		status.Layers = append(status.Layers, v1.LayerStatus{Name: layer.Name, Hash: layer.Hash, Stale: layer.Failing})
	}
	if c := config.Compiled; c.Hash == laid.Artifact.Hash && c.Generation == config.Generation {
		status.Phase = v1.PhaseReady
		return true
	}
	serve(config, laid.Artifact, now)
	return true
}

// judge says what a config that is served can be given as.
func judge(config *v1.IgnitionConfig) {
	artifact := &compile.Artifact{Bytes: config.Compiled.Artifact, IgnitionVersion: config.Compiled.IgnitionVersion}
	compile.Judge(artifact)
	config.Status.Servable = servable(artifact)
}

// isUnjudged tells whether it is not said what a config that is served can be given as.
func isUnjudged(config *v1.IgnitionConfig) bool {
	return config.Compiled != nil && config.Compiled.IgnitionVersion != "" && len(config.Status.Servable) == 0
}

func ownOf(config *v1.IgnitionConfig) *v1.OwnCompilation {
	if config.Compiled == nil {
		return nil
	}
	return config.Compiled.Own
}

// setOwn replaces what the newest source compiles to, and leaves what is served.
func setOwn(config *v1.IgnitionConfig, own *v1.OwnCompilation) {
	if ownOf(config) == own {
		return
	}
	compiled := v1.Compiled{}
	if config.Compiled != nil {
		compiled = *config.Compiled // which the object that is replaced has too
	}
	compiled.Own = own
	config.Compiled = &compiled
	if own == nil && len(compiled.Artifact) == 0 {
		config.Compiled = nil
	}
}

// isUnsettled tells whether a config may have to be merged anew.
func isUnsettled(view snapshot.View, c *snapshot.Config) bool {
	switch {
	case c.Stack == nil || c.Stack.Own == nil:
		return false
	case c.Failing || c.Pending || c.Stale || len(c.Stack.Merged) != len(c.Stack.Layers):
		return true
	}
	for i, name := range c.Stack.Layers {
		layer := view.Config(snapshot.Ref{Namespace: c.Namespace, Name: name})
		if layer == nil || layer.Template || c.Stack.Merged[i] != (v1.LayerStatus{Name: name, Hash: layer.Hash, Stale: layer.Failing}) {
			return true
		}
		if layer.Failing {
			return true // the status says why, which may be for another reason by now
		}
	}
	// What it was merged over is as it was; what lies below that need not be.
	_, _, found := compile.Stack(c.Name, c.Stack.Layers, view.Layers(c.Namespace))
	return found.HasError()
}
