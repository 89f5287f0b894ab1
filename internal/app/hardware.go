package app

import (
	"context"
	"errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/host"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

// inspections gives the errors of reports of hardware the form of answers to machines.
type inspections struct{ *host.Inspections }

// Report implements machine.Inspections.
func (i inspections) Report(ctx context.Context, h *model.Host, details *v1.HardwareDetails) error {
	err := i.Inspections.Report(ctx, h, details)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, host.ErrTooSoon):
		return fault.New(fault.Unavailable,
			"this machine has reported other hardware a moment ago; report it again in ten seconds")
	case errors.Is(err, host.ErrGone):
		return fault.New(fault.NoMatch, "the BareMetalHost of this machine has just been deleted")
	}
	return &fault.Error{
		Kind: fault.Unavailable, Sentence: "the hardware of this machine could not be stored yet; report it again in a moment",
		Cause: err,
	}
}
