package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
)

// maxWarnings bounds the Warning headers of one answer.
const maxWarnings = 10

// Source is what a config is compiled from.
func Source(config *v1.IgnitionConfig) compile.Source {
	spec := &config.Spec
	return compile.Source{
		Type: spec.Type, Format: spec.Format, Config: spec.Config,
		Layered: len(spec.Layers) > 0, KickstartVersion: spec.KickstartVersion, Template: spec.Template,
	}
}

// configStrategies are for the config and for its status.
// warnings says for whom one that is written would not do; nil: for everybody it does.
func configStrategies(c *compiler, warnings func(*v1.IgnitionConfig) []string) (main, status *strategy[*v1.IgnitionConfig]) {
	main = &strategy[*v1.IgnitionConfig]{
		namespaced: true,
		create: func(ctx context.Context, config *v1.IgnitionConfig) {
			config.Generation = 1
			config.Status = v1.IgnitionConfigStatus{}
			config.Compiled = nil
			if len(v1.ValidateIgnitionConfig(config)) == 0 {
				c.fill(ctx, config)
			}
		},
		update: func(ctx context.Context, config, old *v1.IgnitionConfig) {
			config.Status = old.Status
			config.Compiled = old.Compiled
			if apiequality.Semantic.DeepEqual(config.Spec, old.Spec) {
				return
			}
			config.Generation = old.Generation + 1
			if Source(config) == Source(old) && slices.Equal(config.Spec.Layers, old.Spec.Layers) && old.Status.Phase != "" {
				carryOver(config, old)
			} else if len(v1.ValidateIgnitionConfig(config)) == 0 {
				if config.Spec.Type != old.Spec.Type {
					// No installer is given what is written for another.
					config.Status, config.Compiled = v1.IgnitionConfigStatus{}, nil
				}
				c.fill(ctx, config)
			}
		},
		validate:       v1.ValidateIgnitionConfig,
		validateUpdate: v1.ValidateIgnitionConfigUpdate,
		warn: func(config *v1.IgnitionConfig) []string {
			out := configWarnings(config)
			if warnings != nil {
				out = append(out, warnings(config)...)
			}
			return out
		},
		reset: resetStatus,
	}
	status = &strategy[*v1.IgnitionConfig]{
		namespaced: true,
		update: func(_ context.Context, config, old *v1.IgnitionConfig) {
			// All of the status follows from the source, and whoever derives it writes to
			// the store: nothing of it is a client's to set.
			keepMeta(&config.ObjectMeta, &old.ObjectMeta)
			config.Spec, config.Status = old.Spec, old.Status
			config.Compiled = old.Compiled
		},
		validateUpdate: v1.ValidateIgnitionConfigUpdate,
		reset:          resetSpec,
	}
	return main, status
}

// fill compiles a config's source into its status, as far as patience goes.
func (c *compiler) fill(ctx context.Context, config *v1.IgnitionConfig) {
	noteCompiled(ctx)
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if j := c.run(ctx, Source(config)); j != nil {
		settle(config, j, time.Now())
		c.layering.atOnce(config, time.Now())
		return
	}
	config.Status.Phase = v1.PhasePending
	config.Status.ErrorMessage = ""
	config.Status.Warnings = nil
	config.Status.ObservedGeneration = config.Generation
	setOwn(config, nil)
}

// settle writes the result of compiling the newest source into a config. Where it
// is an error, the last good compilation stays, and the status goes on to describe
// it: size, hash and version are always of what is served. A config with layers has
// yet to be merged over them, and is Pending until then.
func settle(config *v1.IgnitionConfig, j *job, now time.Time) {
	status := &config.Status
	status.ObservedGeneration = config.Generation
	status.Warnings = j.report.Warnings().Strings()
	status.ErrorMessage = j.report.Summary()
	setOwn(config, nil)
	switch {
	case j.artifact == nil:
		status.Phase = v1.PhaseError
	case j.artifact.Template:
		awaitHosts(config, j.artifact)
	case len(config.Spec.Layers) > 0:
		status.Phase = v1.PhasePending
		setOwn(config, &v1.OwnCompilation{
			Artifact: j.artifact.Bytes, IgnitionVersion: j.artifact.IgnitionVersion, Warnings: status.Warnings,
		})
	default:
		status.Layers = nil
		serve(config, j.artifact, now)
	}
}

// serve makes an artifact the one that machines are given.
func serve(config *v1.IgnitionConfig, artifact *compile.Artifact, now time.Time) {
	var own *v1.OwnCompilation
	if config.Compiled != nil {
		own = config.Compiled.Own
	}
	status := &config.Status
	status.Hosts = nil
	status.Phase = v1.PhaseReady
	status.CompiledSize = int64(len(artifact.Bytes))
	status.ConfigHash = artifact.Hash
	status.IgnitionVersion = artifact.IgnitionVersion
	status.Servable = servable(artifact)
	status.CompiledGeneration = config.Generation
	status.LastCompiled = now.UTC().Format(time.RFC3339)
	config.Compiled = &v1.Compiled{
		Artifact:        artifact.Bytes,
		Hash:            artifact.Hash,
		IgnitionVersion: artifact.IgnitionVersion,
		Generation:      config.Generation,
		Own:             own,
	}
}

// awaitHosts keeps a template that can be read: what it comes to is said once it has
// been rendered for its hosts.
func awaitHosts(config *v1.IgnitionConfig, artifact *compile.Artifact) {
	status := &config.Status
	status.Phase = v1.PhasePending
	status.CompiledSize, status.ConfigHash, status.IgnitionVersion, status.Servable = 0, "", "", nil
	config.Compiled = &v1.Compiled{
		Artifact: artifact.Bytes, Hash: artifact.Hash, Generation: config.Generation, Template: true, Format: config.Spec.Format,
	}
}

// awaitsHosts tells whether a config is Pending because it is a template that is
// being rendered: there is nothing left to compile.
func awaitsHosts(config *v1.IgnitionConfig) bool {
	return config.Status.Phase == v1.PhasePending && config.Spec.Template &&
		config.Compiled != nil && config.Compiled.Template && config.Compiled.Generation == config.Generation
}

// maxBlockers bounds the fields in the status of one version.
const maxBlockers = 5

// servable says in the status which spec versions an artifact can be given in.
func servable(artifact *compile.Artifact) []v1.ServableVersion {
	var all []v1.ServableVersion
	for _, form := range artifact.Forms {
		version := v1.ServableVersion{Version: form.Version}
		for i, loss := range form.Losses {
			if i == maxBlockers {
				version.BlockedBy = append(version.BlockedBy, fmt.Sprintf("and %d more fields", len(form.Losses)-i))
				break
			}
			version.BlockedBy = append(version.BlockedBy, loss.String())
		}
		all = append(all, version)
	}
	return all
}

// carryOver takes the compilation of old for a new generation with the same
// source: the selector alone has changed.
func carryOver(config, old *v1.IgnitionConfig) {
	if old.Status.ObservedGeneration != old.Generation {
		return
	}
	config.Status.ObservedGeneration = config.Generation
	template := old.Compiled != nil && old.Compiled.Template && old.Compiled.Generation == old.Generation
	if template {
		config.Status.Phase = v1.PhasePending // it may be for other hosts now
	}
	if old.Compiled != nil && old.Status.Phase == v1.PhaseReady || template {
		config.Status.CompiledGeneration = config.Generation
		compiled := *old.Compiled
		compiled.Generation = config.Generation
		config.Compiled = &compiled
	}
}

// configWarnings is what kubectl prints when a config is written.
func configWarnings(config *v1.IgnitionConfig) []string {
	status := &config.Status
	var out []string
	switch status.Phase {
	case v1.PhaseError:
		out = append(out, ofField(status.ErrorMessage))
		// A template that fails for some hosts is no older one for the others.
		if c := config.Compiled; c != nil && len(c.Artifact) > 0 && !(c.Template && c.Generation == config.Generation) {
			out = append(out, fmt.Sprintf("spec.config: machines are still served the last good source, of generation %d", config.Compiled.Generation))
		}
	case v1.PhasePending:
		if awaitsHosts(config) {
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

// compiledNote is set through the context of a write whose source was compiled.
type compiledNote struct{ compiled bool }

type compiledNoteKey struct{}

func noteCompiled(ctx context.Context) {
	if note, ok := ctx.Value(compiledNoteKey{}).(*compiledNote); ok {
		note.compiled = true
	}
}

// configREST is the configs' endpoint: a write whose source was compiled is
// reported, and finished in the background where it is Pending.
type configREST struct {
	named
	written func(*v1.IgnitionConfig)
}

func (r *configREST) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	note := &compiledNote{}
	out, err := r.Store.Create(context.WithValue(ctx, compiledNoteKey{}, note), obj, validation, options)
	r.report(note, out, err, options.DryRun)
	return out, err
}

func (r *configREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	note := &compiledNote{}
	out, created, err := r.named.Update(context.WithValue(ctx, compiledNoteKey{}, note), name, info, create, update, forceCreate, options)
	r.report(note, out, err, options.DryRun)
	return out, created, err
}

func (r *configREST) report(note *compiledNote, out runtime.Object, err error, dryRun []string) {
	if err != nil || dryrun.IsDryRun(dryRun) {
		return
	}
	// A selector may change while a source is still Pending: that write waits for
	// the same background work.
	if config, ok := out.(*v1.IgnitionConfig); ok && (note.compiled || config.Status.Phase == v1.PhasePending) {
		r.written(config)
	}
}
