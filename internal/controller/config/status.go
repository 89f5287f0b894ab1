package config

import (
	"slices"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/store/snapshot"
)

// setReady sets the condition Ready by the phase.
func setReady(config *v1.IgnitionConfig) {
	s := &config.Status
	v1.SetReady(&s.Conditions, s.Phase, controller.ClipMessage(s.ErrorMessage), true, s.ObservedGeneration, time.Now())
}

// setPending sets the status of a config whose newest source is not compiled yet.
func setPending(config *v1.IgnitionConfig) {
	config.Status.Phase = v1.PhasePending
	config.Status.ErrorMessage = ""
	config.Status.Warnings = nil
	config.Status.ObservedGeneration = config.Generation
	setOwn(config, nil)
}

// setCompiled sets the result of compiling the newest source. After an error the last
// successful compilation stays, and the status goes on to describe it: size, hash and
// version are always those of the served bytes. A config with layers is Pending until it
// is merged over them.
func setCompiled(config *v1.IgnitionConfig, made *compilation, now time.Time) {
	status := &config.Status
	status.ObservedGeneration = config.Generation
	status.Warnings = made.report.Warnings().Strings()
	status.ErrorMessage = made.report.Summary()
	setOwn(config, nil)
	switch {
	case made.artifact == nil:
		status.Phase = v1.PhaseError
	case made.artifact.Template:
		setTemplate(config, made.artifact)
	case len(config.Spec.Layers) > 0:
		status.Phase = v1.PhasePending
		setOwn(config, &v1.OwnCompilation{
			Artifact: made.artifact.Bytes, IgnitionVersion: made.artifact.IgnitionVersion, Warnings: status.Warnings,
		})
	default:
		status.Layers = nil
		setServed(config, made.artifact, now, config.Spec.Confidential)
	}
}

// setServed sets the artifact that machines are served, and whether it is confidential. It is not
// converted yet.
func setServed(config *v1.IgnitionConfig, artifact *compile.Artifact, now time.Time, confidential bool) {
	status := &config.Status
	if config.Compiled == nil || config.Compiled.Hash != artifact.Hash {
		status.Servable = nil
	}
	status.Hosts = nil
	status.Phase = v1.PhaseReady
	status.CompiledSize = int64(len(artifact.Bytes))
	status.ConfigHash = artifact.Hash
	status.IgnitionVersion = artifact.IgnitionVersion
	status.CompiledGeneration = config.Generation
	status.LastCompiled = now.UTC().Format(time.RFC3339)
	config.Compiled = &v1.Compiled{
		Artifact:        artifact.Bytes,
		Hash:            artifact.Hash,
		IgnitionVersion: artifact.IgnitionVersion,
		Generation:      config.Generation,
		Confidential:    confidential,
		Own:             ownOf(config),
	}
}

// setTemplate sets a template, which is Pending until it has been rendered for its hosts.
func setTemplate(config *v1.IgnitionConfig, artifact *compile.Artifact) {
	status := &config.Status
	status.Phase = v1.PhasePending
	status.CompiledSize, status.ConfigHash, status.IgnitionVersion, status.Servable = 0, "", "", nil
	config.Compiled = &v1.Compiled{
		Artifact: artifact.Bytes, Hash: artifact.Hash, Generation: config.Generation, Template: true,
		Format: config.Spec.Format, Confidential: config.Spec.Confidential,
	}
}

// setMerged merges a config onto its layers as they are now, and returns what it found. The config stays Pending where
// all of them are larger than limit, or one is being compiled for the first time.
func setMerged(snap *snapshot.Inventory, config *v1.IgnitionConfig, limit int, now time.Time) report.Report {
	own, status := ownOf(config), &config.Status
	var names []string
	for _, layer := range config.Spec.Layers {
		names = append(names, layer.Name)
	}
	view := snap.View()
	stack, pending, found := compile.Stack(config.Name, names, view.Layers(config.Namespace))
	size := len(own.Artifact)
	for _, layer := range stack {
		size += len(layer.Bytes)
	}
	if pending || size > limit && !found.HasError() {
		status.Phase, status.ErrorMessage = v1.PhasePending, ""
		return found
	}
	var merged *compile.Laid
	if !found.HasError() {
		more := found
		merged, found = compile.Lay(config.Name, own.Artifact, stack)
		found = append(more, found...)
	}
	status.Warnings = append(slices.Clone(own.Warnings), found.Warnings().Strings()...)
	status.ErrorMessage = found.Summary()
	if merged == nil {
		status.Phase = v1.PhaseError
		return found
	}
	status.Layers = nil
	confidential := config.Spec.Confidential
	for _, layer := range stack {
		confidential = confidential || layer.Confidential
		status.Layers = append(status.Layers, v1.LayerStatus{Name: layer.Name, Hash: layer.Hash, Stale: layer.Failing})
	}
	if c := config.Compiled; c.Hash == merged.Artifact.Hash && c.Generation == config.Generation {
		status.Phase = v1.PhaseReady
		same := *c
		same.Confidential, config.Compiled = confidential, &same
		return found
	}
	setServed(config, merged.Artifact, now, confidential)
	return found
}

// setConverted sets the spec versions that a served config can be converted to.
func setConverted(config *v1.IgnitionConfig) {
	artifact := &compile.Artifact{Bytes: config.Compiled.Artifact, IgnitionVersion: config.Compiled.IgnitionVersion}
	compile.Judge(artifact)
	config.Status.Servable = nil
	for _, group := range ignition.Groups(artifact.Forms) {
		config.Status.Servable = append(config.Status.Servable, v1.ServableVersions{
			Versions: group.String(), BlockedBy: ignition.Listed(group.Losses, ignition.Loss.String),
		})
	}
}

// carryOver keeps the compilation of old for a new generation in which only the selector
// has changed.
func carryOver(config, old *v1.IgnitionConfig) {
	if old.Status.ObservedGeneration != old.Generation {
		return
	}
	config.Status.ObservedGeneration = config.Generation
	template := old.Compiled != nil && old.Compiled.Template && old.Compiled.Generation == old.Generation
	if template {
		config.Status.Phase = v1.PhasePending // its hosts may be others now
	}
	if old.Compiled != nil && old.Status.Phase == v1.PhaseReady || template {
		config.Status.CompiledGeneration = config.Generation
		compiled := *old.Compiled
		compiled.Generation = config.Generation
		config.Compiled = &compiled
	}
}

func ownOf(config *v1.IgnitionConfig) *v1.OwnCompilation {
	if config.Compiled == nil {
		return nil
	}
	return config.Compiled.Own
}

// setOwn sets the compilation of the newest source alone. The served bytes stay.
func setOwn(config *v1.IgnitionConfig, own *v1.OwnCompilation) {
	if ownOf(config) == own {
		return
	}
	compiled := v1.Compiled{}
	if config.Compiled != nil {
		compiled = *config.Compiled // the replaced object has the same pointer
	}
	compiled.Own = own
	config.Compiled = &compiled
	if own == nil && len(compiled.Artifact) == 0 {
		config.Compiled = nil
	}
}

// Phase is the progress of a config as the snapshot shows it; status.phase is Pending until
// Merged. A source that does not compile has no further steps: its config has the phase of
// the last successful compilation, which is served. A template is Converted once it is
// parsed: controller/template compiles it for each host.
type Phase string

const (
	// Pending is a config whose source is not compiled yet.
	Pending Phase = "Pending"
	// Compiled is a config that is not merged over its layers yet. A config without layers
	// is Merged at the same time.
	Compiled Phase = "Compiled"
	// Merged is a config that machines are served.
	Merged Phase = "Merged"
	// Converted is a config whose status lists the spec versions that it can be converted
	// to. It is complete.
	Converted Phase = "Converted"
)

// phaseOf returns the phase of a config in the snapshot; nil is a deleted one.
func phaseOf(view model.View, config *model.Config) Phase {
	switch {
	case config == nil:
		return Converted
	case config.Stack != nil && config.Stack.Own != nil:
		if view.IsUnmerged(config) {
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
func isUnfinished(config *model.Config) bool {
	return config.Pending && !(config.Template && !config.Stale) ||
		config.Failing && strings.HasPrefix(config.ErrorMessage, refusedResult)
}

// isPending is isUnfinished for a stored config.
func isPending(config *v1.IgnitionConfig) bool {
	return config.Status.Phase == v1.PhasePending && !config.AwaitsHosts() ||
		config.Status.Phase == v1.PhaseError && strings.HasPrefix(config.Status.ErrorMessage, refusedResult)
}

// isUnconverted reports whether the status of a served config lacks the spec versions that it
// can be converted to.
func isUnconverted(config *v1.IgnitionConfig) bool {
	return config.Compiled != nil && config.Compiled.IgnitionVersion != "" && len(config.Status.Servable) == 0
}
