package config

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
)

// maxMergedAtOnce bounds the layers that are merged while a client waits, in bytes.
const maxMergedAtOnce = 64 << 10

// strictLimit is how long a write waits for its compilation where a source that does not
// compile is refused.
const strictLimit = 30 * time.Second

// Admit does the steps of a valid config that fit into the time of its write, and sets
// its status. old is the stored config, nil for a new one. It returns the errors of the
// source. A strict write is not stored before they are known: err is why they are not.
func (c *Controller) Admit(ctx context.Context, config, old *v1.IgnitionConfig, strict bool) (found report.Report,
	err error) {
	found, err = c.admit(ctx, config, old, strict)
	setReady(config)
	return found, err
}

func (c *Controller) admit(ctx context.Context, config, old *v1.IgnitionConfig, strict bool) (report.Report, error) {
	if old != nil {
		if sameCompilation(config, old) && !(strict && old.Status.Phase != v1.PhaseReady) {
			carryOver(config, old)
			c.convertAtOnce(config)
			return nil, nil
		}
		if config.Spec.Type != old.Spec.Type {
			// The artifact is for another installer.
			config.Status, config.Compiled = v1.IgnitionConfigStatus{}, nil
		}
	}
	limit := c.opts.AdmissionLimit
	if strict {
		limit = max(limit, strictLimit)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	made, err := c.compiler.run(ctx, source(config))
	if err != nil {
		setPending(config)
		return nil, err
	}
	c.set(config, made)
	return made.report.Errors(), nil
}

// Check does the steps of a valid config that is not to be stored, and sets its status. It returns all findings. Unlike
// Admit it merges also large layers, and leaves out the conversions. Nothing breaks off a compilation that has begun:
// the end of ctx ends the wait for a processor alone.
func (c *Controller) Check(ctx context.Context, config *v1.IgnitionConfig) (found report.Report, err error) {
	made, err := c.compiler.wholly(ctx, source(config))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	setCompiled(config, made, now)
	found = made.report
	if ownOf(config) != nil {
		found = append(slices.Clip(found), setMerged(c.opts.Snapshot, config, math.MaxInt, now)...)
	}
	return found, nil
}

// Admitted is called with a config that has been stored after Admit, and with the one that it
// replaced. It queues the steps that Admit has left.
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
	return source(config) == source(old) && slices.Equal(config.Spec.Layers, old.Spec.Layers) &&
		config.Spec.Confidential == old.Spec.Confidential && old.Status.Phase != ""
}

// set sets the compilation of a config, and does the further steps that take little time.
func (c *Controller) set(config *v1.IgnitionConfig, made *compilation) {
	now := time.Now()
	setCompiled(config, made, now)
	if ownOf(config) != nil {
		setMerged(c.opts.Snapshot, config, maxMergedAtOnce, now)
	}
	c.convertAtOnce(config)
}

// convertAtOnce computes the conversions of a config where a host may need one: the answer to
// the write warns of hosts that cannot read the config.
func (c *Controller) convertAtOnce(config *v1.IgnitionConfig) {
	if isUnconverted(config) && c.opts.Misread(config.Compiled.IgnitionVersion) {
		setConverted(config)
	}
}

// record makes an event of a compilation, which kubectl describe shows.
func (c *Controller) record(config *v1.IgnitionConfig) {
	object := controller.ConfigReference(config)
	if config.Status.Phase == v1.PhaseError {
		c.opts.Recorder.Record(object, v1.EventWarning, "CompileFailed", config.OpenMessage())
		return
	}
	c.opts.Recorder.Record(object, v1.EventNormal, "Compiled",
		"compiled to "+report.Size(config.Status.CompiledSize)+", "+compile.ShortHash(config.Status.ConfigHash))
}

// adopt treats a config that another program has put into the bucket as if it had been
// applied: it is validated and compiled, and its whole status is set. An event reports it.
func (c *Controller) adopt(ctx context.Context, ref model.Ref) error {
	config, err := c.get(ctx, ref)
	if storage.IsInternalError(err) { // it cannot be decoded, now or later
		unread := &v1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
		c.recordAdoption(unread, err.Error())
		return nil
	}
	if config == nil {
		return err
	}
	config.Namespace, config.Name = ref.Namespace, ref.Name
	invalid := v1.ValidateIgnitionConfig(config).ToAggregate()
	var made *compilation
	if invalid == nil {
		if made, err = c.compiler.run(ctx, source(config)); err != nil {
			return err
		}
	}
	out, err := c.update(ctx, ref, func(current *v1.IgnitionConfig) error {
		if current.ResourceVersion != config.ResourceVersion {
			return controller.ErrUnchanged // the newer one has been queued as well
		}
		current.Namespace, current.Name = ref.Namespace, ref.Name
		current.Generation++
		if current.UID == "" {
			current.UID = uuid.NewUUID()
		}
		if current.CreationTimestamp.IsZero() {
			current.CreationTimestamp = metav1.Now().Rfc3339Copy()
		}
		current.Status, current.Compiled = v1.IgnitionConfigStatus{}, nil
		if invalid != nil {
			current.Status = v1.IgnitionConfigStatus{
				Phase: v1.PhaseError, ErrorMessage: "the object is not valid: " + invalid.Error(),
				ObservedGeneration: current.Generation,
			}
			return nil
		}
		c.set(current, made)
		return nil
	})
	if out == nil {
		return err
	}
	c.convertLater(out)
	c.recordAdoption(out, out.OpenMessage())
	return nil
}

func (c *Controller) recordAdoption(config *v1.IgnitionConfig, problem string) {
	message := "the object was put into its bucket without the API, and was taken in as if it had been applied"
	if problem != "" {
		message = fmt.Sprintf("the object was put into its bucket without the API, and cannot be used: %s", problem)
	}
	c.opts.Logger.Warn(message, "config", refOf(config).String())
	c.opts.Recorder.Record(controller.ConfigReference(config), v1.EventWarning, "WrittenByHand", message)
}
