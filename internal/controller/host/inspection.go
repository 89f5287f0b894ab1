package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

const (
	// inspectionPause is the least time between two reports of a host that change its hardware.
	inspectionPause = 10 * time.Second
	// inspectionTimeout bounds the wait of a machine until its report is durable.
	inspectionTimeout = 3 * time.Second
)

// Errors of Inspections.Report, which are answers to machines.
var (
	ErrTooSoon = fault.New(fault.Unavailable,
		"this machine has reported other hardware a moment ago; report it again in ten seconds")
	ErrGone = fault.New(fault.NoMatch, "the BareMetalHost of this machine has just been deleted")
)

// Inspections writes what machines report of their hardware into the status of their hosts. This
// is the only writer of status.hardware and status.inspected beside clients of the API.
type Inspections struct {
	store controller.Store
	now   func() time.Time
}

// NewInspections returns Inspections that write into a store of BareMetalHosts.
func NewInspections(store controller.Store) *Inspections { return &Inspections{store, time.Now} }

// Report stores the hardware of a host, and returns once that is durable. A report of what is
// stored already is not written. The error is a fault.Error.
func (i *Inspections) Report(ctx context.Context, host *model.Host, hardware *v1.HardwareDetails) error {
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	stored, err := controller.Update(ctx, i.store, "/baremetalhosts/"+host.Ref.String(), func(h *v1.BareMetalHost) error {
		now := i.now()
		switch before := h.Status.Inspected; {
		case string(h.UID) != host.UID:
			return controller.ErrUnchanged
		case equality.Semantic.DeepEqual(h.Status.Hardware, hardware):
			return nil
		case before != nil && now.Sub(before.Time) < inspectionPause && !now.Before(before.Time):
			return ErrTooSoon
		}
		h.Status.Hardware, h.Status.Inspected = hardware, &metav1.Time{Time: now}
		return nil
	})
	switch {
	case err == nil && stored == nil:
		return ErrGone
	case err != nil && !errors.Is(err, ErrTooSoon):
		return &fault.Error{
			Kind:     fault.Unavailable,
			Sentence: "the hardware of this machine could not be stored yet; report it again in a moment",
			Cause:    fmt.Errorf("the hardware of the host %s could not be stored: %w", host.Ref, err),
		}
	}
	return err
}
