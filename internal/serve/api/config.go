package api

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/util/dryrun"

	v1 "glowplug/api/v1"
)

// maxWarnings bounds the Warning headers of one answer.
const maxWarnings = 10

// ConfigStatus brings the status of IgnitionConfigs up to date: the controller of
// configs does.
type ConfigStatus interface {
	// Admit brings the status of a valid config that is being written as far as it can be
	// brought at once; old is what is replaced, nil: nothing.
	Admit(ctx context.Context, config, old *v1.IgnitionConfig)
	// Admitted is called with a config that has been stored after Admit.
	Admitted(config, old *v1.IgnitionConfig)
}

// noConfigStatus leaves the status of configs as it is.
type noConfigStatus struct{}

func (noConfigStatus) Admit(_ context.Context, _, _ *v1.IgnitionConfig) {}
func (noConfigStatus) Admitted(_, _ *v1.IgnitionConfig)                 {}

// configWarnings is what kubectl prints when a config is written.
func configWarnings(config *v1.IgnitionConfig) []string {
	status := &config.Status
	var out []string
	switch status.Phase {
	case v1.PhaseError:
		out = append(out, ofField(status.ErrorMessage))
		// A template that fails for some hosts is no older one for the others.
		if c := config.Compiled; c != nil && len(c.Artifact) > 0 && !(c.Template && c.Generation == config.Generation) {
			out = append(out, fmt.Sprintf("spec.config: machines are still served the last good source, of generation %d",
				config.Compiled.Generation))
		}
	case v1.PhasePending:
		if config.AwaitsHosts() {
			out = append(out, "spec.config: a template, which is being rendered for its hosts; watch status.phase")
		} else {
			out = append(out, "spec.config: still compiling; watch status.phase")
		}
	}
	for i, warning := range status.Warnings {
		if i == maxWarnings {
			out = append(out, fmt.Sprintf("spec.config: and %d more warnings in status.warnings", len(status.Warnings)-i))
			break
		}
		out = append(out, ofField(warning))
	}
	return out
}

// ofField puts the field in front of what was found in a config, unless it is said.
func ofField(message string) string {
	if strings.HasPrefix(message, "spec.layers: ") {
		return message
	}
	return "spec.config: " + message
}

// reportConfigs has the writes to a store of configs that have succeeded reported.
func reportConfigs(store *registry.Store, configs ConfigStatus) {
	finish := func(obj, old runtime.Object, dryRun []string) registry.FinishFunc {
		return func(_ context.Context, success bool) {
			config, _ := obj.(*v1.IgnitionConfig)
			before, _ := old.(*v1.IgnitionConfig)
			if success && !dryrun.IsDryRun(dryRun) && (before == nil || config.Generation != before.Generation) {
				configs.Admitted(config, before)
			}
		}
	}
	store.BeginCreate = func(_ context.Context, obj runtime.Object, options *metav1.CreateOptions) (registry.FinishFunc,
		error) {
		return finish(obj, nil, options.DryRun), nil
	}
	store.BeginUpdate = func(_ context.Context, obj, old runtime.Object,
		options *metav1.UpdateOptions) (registry.FinishFunc, error) {
		return finish(obj, old, options.DryRun), nil
	}
}
