package host

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/model"
)

// Getter reads stored objects.
type Getter interface {
	Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error
}

// planned is what the last plan of a host was made of.
type planned struct {
	config   string // its hash
	hardware uint32
}

// checkDisks writes the condition DataPreserved of a host whose disks are known, where its config or
// its hardware has changed since the last plan.
func (c *Checker) checkDisks(ctx context.Context, h *model.Host) {
	isUnmet := h.Unmet&model.DataPreserved != 0
	if c.opts.Store == nil || h.Hardware == 0 && !isUnmet {
		return
	}
	config := explain.Provisions(c.opts.Decider, h, ctx.Done())
	if h.Hardware == 0 || config == nil {
		c.reconcileCondition(h, explain.DataPreserved(model.Ref{}, nil))
		return
	}
	now := planned{config.Hash, h.Hardware}
	if c.planned[h.Ref] == now {
		return
	}
	stored := &v1.BareMetalHost{}
	err := c.opts.Store.Get(ctx, "/baremetalhosts/"+h.Ref.String(), storage.GetOptions{ResourceVersion: "0"}, stored)
	if err != nil || stored.Status.Hardware == nil {
		return // the host changes, or is deleted, and is checked again
	}
	c.planned[h.Ref] = now
	c.reconcileCondition(h, explain.DataPreserved(config.Ref, losses(config.Artifact, stored.Status.Hardware)))
}

// losses returns the data that Ignition would destroy. Disks that cannot be read tell nothing.
func losses(config []byte, hardware *v1.HardwareDetails) []string {
	facts, err := disk.OfHardware(hardware)
	if err != nil {
		return nil
	}
	return impact.LossesOf(nil, config, facts)
}
