package api

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/warning"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// maxWarnings bounds the Warning headers of one answer.
const maxWarnings = 10

// ConfigStatus is the controller of configs, which writes the status of IgnitionConfigs.
type ConfigStatus interface {
	// Admit updates the status of a valid config before the config is stored, as far as the
	// time limit of admission allows. The config replaces old, which is nil for a new one. It
	// returns the errors of the source; for a strict write it waits for them, and returns why
	// they are not known.
	Admit(ctx context.Context, config, old *v1.IgnitionConfig, strict bool) (report.Report, error)
	// Admitted is called after a config was stored that Admit has updated.
	Admitted(config, old *v1.IgnitionConfig)
	// Check does what Admit does with a valid new config that is not to be stored, and returns all findings. It
	// returns when nothing is at work for it any more, which may be a while after the end of ctx.
	Check(ctx context.Context, config *v1.IgnitionConfig) (report.Report, error)
}

// noConfigStatus leaves the status of configs as it is.
type noConfigStatus struct{}

func (noConfigStatus) Admit(_ context.Context, _, _ *v1.IgnitionConfig, _ bool) (report.Report, error) {
	return nil, nil
}
func (noConfigStatus) Admitted(_, _ *v1.IgnitionConfig) {}
func (noConfigStatus) Check(context.Context, *v1.IgnitionConfig) (report.Report, error) {
	return nil, nil
}

// configWarnings returns the warnings of the answer to a write of a config that replaces old, nil
// for a new one. Nothing happens after the answer to a dry run.
func configWarnings(config, old *v1.IgnitionConfig, dryRun bool) []string {
	status := &config.Status
	told := func(message string) string {
		if message = ofField(message); old == nil || old.Generation != config.Generation {
			return message
		}
		return dated(message, config)
	}
	var out []string
	switch status.Phase {
	case v1.PhaseError:
		out = append(out, told(status.ErrorMessage))
		// The other hosts of a template that fails for some hosts have the newest source.
		if c := config.Compiled; c != nil && len(c.Artifact) > 0 && !isTemplate(config) {
			out = append(out, stillServed(c, status.ErrorMessage))
		}
	case v1.PhasePending:
		out = append(out, "spec.config: "+pendingText(config, dryRun))
	case v1.PhaseReady:
		if status.ErrorMessage != "" { // a template fails for some of its hosts
			out = append(out, told(status.ErrorMessage))
		}
	}
	for i, text := range status.Warnings {
		if i == maxWarnings {
			out = append(out, fmt.Sprintf("spec.config: and %d more warnings in status.warnings", len(status.Warnings)-i))
			break
		}
		out = append(out, told(text))
	}
	return out
}

// pendingText says what is not known yet of a config in phase Pending.
func pendingText(config *v1.IgnitionConfig, dryRun bool) string {
	switch {
	case config.AwaitsHosts() && dryRun:
		return "a template, which a dry run does not render; glowplug validate renders it for the hosts in the files"
	case config.AwaitsHosts():
		return "a template, which is being rendered for its hosts; watch status.phase"
	case dryRun:
		return "a dry run does not wait until the config is compiled; glowplug validate compiles it"
	}
	return "still compiling; watch status.phase"
}

// dated adds to an error or warning of a config that this write has not changed when it was found:
// the status follows a change of a layer or a host a moment later.
func dated(message string, config *v1.IgnitionConfig) string {
	rendered := isTemplate(config)
	if !rendered && !compile.IsOfLayers(message) {
		return message
	}
	field, reason, _ := strings.Cut(message, ": ")
	done := "merged"
	if rendered {
		done = "rendered"
	}
	return fmt.Sprintf("%s: when it was last %s: %s", field, done, reason)
}

// isTemplate reports whether the newest source of a config is a template that can be rendered.
func isTemplate(config *v1.IgnitionConfig) bool {
	c := config.Compiled
	return c != nil && c.Template && c.Generation == config.Generation
}

// stillServed says what machines get where the newest source, or its merge over its layers, has
// an error.
func stillServed(c *v1.Compiled, message string) string {
	switch {
	case c.Template:
		return fmt.Sprintf("spec.config: hosts are still served the template of generation %d, where it renders for them",
			c.Generation)
	case compile.IsOfLayers(message):
		return fmt.Sprintf("%smachines are still served the former config, with the source of generation %d",
			compile.OfLayers, c.Generation)
	}
	return fmt.Sprintf("spec.config: machines are still served the last good source, of generation %d", c.Generation)
}

// ofField returns a finding with the field that it is about.
func ofField(message string) string {
	if compile.IsOfLayers(message) {
		return message
	}
	return "spec.config: " + message
}

// configDone adds the warnings to the answer of a write of a config that has succeeded, and reports
// the config if it is stored and another one than before. The warnings are given after that, and not
// by the strategy: a write that is refused has no effect that they could tell of.
func configDone(opts *Options) func(ctx context.Context, a *attempt) {
	return func(ctx context.Context, a *attempt) {
		config, _ := a.now.(*v1.IgnitionConfig)
		if config == nil {
			return // it is deleted
		}
		old, _ := a.old.(*v1.IgnitionConfig)
		warnings := append(configWarnings(config, old, a.dryRun), opts.warnings(a.change)...)
		if len(warnings) > 0 && opts.rights.concealsFindings(ctx, config) {
			warnings = []string{v1.ConfidentialFindings}
		}
		for _, text := range warnings {
			warning.AddWarning(ctx, "", text)
		}
		if !a.dryRun && (old == nil || config.Generation != old.Generation) {
			opts.ConfigStatus.Admitted(config, old)
		}
	}
}
