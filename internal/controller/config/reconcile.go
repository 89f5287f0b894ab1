package config

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/natsd"
)

// get returns a config, and nil where there is none.
func (c *Controller) get(ctx context.Context, ref model.Ref) (*v1.IgnitionConfig, error) {
	config := &v1.IgnitionConfig{}
	err := c.opts.Store.Get(ctx, keyOf(ref), storage.GetOptions{}, config)
	switch {
	case storage.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return config, nil
}

// update changes a config, and returns it as it is stored then; nil where there is none,
// or change returns controller.ErrUnchanged.
func (c *Controller) update(ctx context.Context, ref model.Ref,
	change func(*v1.IgnitionConfig) error) (*v1.IgnitionConfig, error) {
	return controller.Update(ctx, c.opts.Store, keyOf(ref), func(current *v1.IgnitionConfig) error {
		err := change(current)
		setReady(current)
		return err
	})
}

// compile compiles a source that is pending, and writes the result where the source is
// still the same.
func (c *Controller) compile(ctx context.Context, ref model.Ref) (time.Duration, error) {
	config, err := c.get(ctx, ref)
	if config == nil || !isPending(config) {
		return 0, err
	}
	src := source(config)
	made, err := c.compiler.run(ctx, src)
	if err != nil {
		return 0, err
	}
	out, err := c.update(ctx, ref, func(current *v1.IgnitionConfig) error {
		if !isPending(current) || source(current) != src {
			return controller.ErrUnchanged
		}
		c.set(current, made)
		return nil
	})
	return c.finish(ctx, config, out, err)
}

// finish ends a step that has written out in place of before: it makes an event of a new
// result, and queues the conversion. out is nil where nothing was written.
func (c *Controller) finish(ctx context.Context, before, out *v1.IgnitionConfig, err error) (time.Duration, error) {
	switch {
	case apierrors.IsRequestEntityTooLargeError(err):
		return c.refused(ctx, before, err)
	case out == nil:
		return 0, err
	case out.Status.Phase == v1.PhasePending:
	case out.Status.Phase != before.Status.Phase || out.Status.ErrorMessage != before.Status.ErrorMessage:
		c.record(out)
	}
	c.convertLater(out)
	return 0, nil
}

// merge merges a config onto its layers as they are at the time of the write.
func (c *Controller) merge(ctx context.Context, ref model.Ref) (time.Duration, error) {
	var last v1.IgnitionConfig // as it was before
	out, err := c.update(ctx, ref, func(current *v1.IgnitionConfig) error {
		if ownOf(current) == nil {
			return controller.ErrUnchanged
		}
		last.ObjectMeta, last.Status = current.ObjectMeta, current.Status
		setMerged(c.opts.Snapshot, current, math.MaxInt, time.Now())
		c.convertAtOnce(current)
		return nil
	})
	return c.finish(ctx, &last, out, err)
}

func (c *Controller) convertLater(config *v1.IgnitionConfig) {
	if isUnconverted(config) {
		c.queue.Enqueue(Key{refOf(config), Convert})
	}
}

// convert sets the spec versions that a config can be converted to, if they are not set.
func (c *Controller) convert(ctx context.Context, ref model.Ref) error {
	config, err := c.get(ctx, ref)
	if config == nil || !isUnconverted(config) {
		return err
	}
	setConverted(config)
	_, err = c.update(ctx, ref, func(current *v1.IgnitionConfig) error {
		if !isUnconverted(current) || current.Compiled.Hash != config.Compiled.Hash {
			return controller.ErrUnchanged
		}
		current.Status.Servable = config.Status.Servable
		return nil
	})
	if apierrors.IsRequestEntityTooLargeError(err) {
		c.opts.Logger.Warn("status.servable cannot be stored", "config", ref.String(), "error", err)
		return nil
	}
	return err
}

// refused sets the status of a config whose newest compilation cannot be stored, and that is
// tried again later. The served bytes stay.
func (c *Controller) refused(ctx context.Context, config *v1.IgnitionConfig, cause error) (time.Duration, error) {
	message := fmt.Sprintf("%s%v: %s, or make the config or its layers smaller", refusedResult, cause, natsd.PayloadRemedy)
	out, err := c.update(ctx, refOf(config), func(current *v1.IgnitionConfig) error {
		status := &current.Status
		said := status.Phase == v1.PhaseError && status.ErrorMessage == message
		if current.UID != config.UID || current.Generation != config.Generation || said {
			return controller.ErrUnchanged
		}
		status.Phase, status.ErrorMessage, status.Warnings = v1.PhaseError, message, nil
		status.ObservedGeneration = current.Generation
		return nil
	})
	if out == nil && !apierrors.IsRequestEntityTooLargeError(err) {
		return controller.RefusedPause, err
	}
	failed := &v1.IgnitionConfig{ObjectMeta: config.ObjectMeta} // the message does not quote the source
	failed.Status.Phase, failed.Status.ErrorMessage = v1.PhaseError, message
	c.record(failed) // also where the store has no space for the message
	return controller.RefusedPause, nil
}

func refOf(config *v1.IgnitionConfig) model.Ref {
	return model.Ref{Namespace: config.Namespace, Name: config.Name}
}

// keyOf returns the key of a config in its store.
func keyOf(ref model.Ref) string { return "/ignitionconfigs/" + ref.String() }

// above returns the configs directly above a layer, or all above it, that may have to be
// merged again; the lower first, so that a config above several of them is merged once.
func (c *Controller) above(layer model.Ref, all bool) []model.Ref {
	view := c.opts.Snapshot.View()
	var refs []model.Ref
	seen := map[model.Ref]bool{}
	for next := view.Above(layer); len(next) > 0; next = next[1:] {
		if config := next[0]; !seen[config.Ref] {
			seen[config.Ref] = true
			refs = append(refs, config.Ref)
			if all {
				next = append(next, view.Above(config.Ref)...)
			}
		}
	}
	heights := map[model.Ref]int{}
	refs = slices.DeleteFunc(refs, func(ref model.Ref) bool {
		config := view.Config(ref)
		if phaseOf(view, config) != Compiled {
			return true
		}
		heights[ref] = compile.Height(config.Name, config.LayerNames(), view.Layers(config.Namespace))
		return false
	})
	slices.SortFunc(refs, func(a, b model.Ref) int {
		return cmp.Or(cmp.Compare(heights[a], heights[b]), a.Compare(b))
	})
	return refs
}
