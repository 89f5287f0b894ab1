package config

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/store/snapshot"
)

// adopt treats a config that another program has put into the bucket as if it had been
// applied: it is validated and compiled, and its whole status is set. An event reports it.
func (c *Controller) adopt(ctx context.Context, ref snapshot.Ref) error {
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
			return errUnchanged // the newer one has been queued as well
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
	c.recordAdoption(out, out.Status.ErrorMessage)
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
