package config

import (
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/store/snapshot"
)

// Phase is the last step that is done for the newest source of a config. A source that
// does not compile stays Pending and is not tried again; the last successful compilation
// is served. A template is Converted once it is parsed: controller/template compiles it
// for each host.
type Phase string

const (
	// Pending is a config whose source is not compiled yet.
	Pending Phase = "Pending"
	// Compiled is a config that is not merged onto its layers yet. A config without layers
	// is Merged at the same time.
	Compiled Phase = "Compiled"
	// Merged is a config that machines are served.
	Merged Phase = "Merged"
	// Converted is a config whose status lists the spec versions that it can be converted
	// to. It is complete.
	Converted Phase = "Converted"
)

// phaseOf returns the phase of a config in the snapshot; nil is a deleted one.
func phaseOf(view snapshot.View, config *snapshot.Config) Phase {
	switch {
	case config == nil:
		return Converted
	case config.Stack != nil && config.Stack.Own != nil:
		if isUnmerged(view, config) {
			return Compiled
		}
	case isUnfinished(config):
		return Pending
	}
	if config.Unjudged {
		return Merged
	}
	return Converted
}

// refusedResult begins the message of a config whose compilation the store refuses.
const refusedResult = "what it compiles to cannot be stored: "

// isUnfinished reports whether the compilation of a config is pending, or its result
// was refused by the store. A template that is rendered for its hosts is compiled.
func isUnfinished(config *snapshot.Config) bool {
	return config.Pending && !(config.Template && !config.Stale) ||
		config.Failing && strings.HasPrefix(config.ErrorMessage, refusedResult)
}

// isPending is isUnfinished for a stored config.
func isPending(config *v1.IgnitionConfig) bool {
	return config.Status.Phase == v1.PhasePending && !config.AwaitsHosts() ||
		config.Status.Phase == v1.PhaseError && strings.HasPrefix(config.Status.ErrorMessage, refusedResult)
}

// isUnmerged reports whether a config may have to be merged again.
func isUnmerged(view snapshot.View, config *snapshot.Config) bool {
	stack := config.Stack
	if config.Failing || config.Pending || config.Stale || len(stack.Merged) != len(stack.Layers) {
		return true
	}
	for i, name := range stack.Layers {
		layer := view.Config(snapshot.Ref{Namespace: config.Namespace, Name: name})
		if layer == nil || layer.Template || stack.Merged[i] != (v1.LayerStatus{Name: name, Hash: layer.Hash,
			Stale: layer.Failing}) {
			return true
		}
		if layer.Failing {
			return true // the status gives the reason, which may have changed
		}
	}
	// The layers have not changed, but the layers of a layer may have.
	_, _, found := compile.Stack(config.Name, stack.Layers, view.Layers(config.Namespace))
	return found.HasError()
}

// isUnconverted reports whether the status of a served config lacks the spec versions that it
// can be converted to.
func isUnconverted(config *v1.IgnitionConfig) bool {
	return config.Compiled != nil && config.Compiled.IgnitionVersion != "" && len(config.Status.Servable) == 0
}
