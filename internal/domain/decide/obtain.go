package decide

import (
	"glowplug/internal/domain/fault"
	"glowplug/internal/store/snapshot"
)

// Try makes the decider try whether this server has an image, with a host's own
// kernel arguments set in it (nil: the host has none), before the host is told to
// boot it. Firmware that finds no image behind its script cannot say why. It is to
// be called before the first decision.
func (d *Decider) Try(try func(image *snapshot.Image, args []string) error) { d.try = try }

// obtain tries whether the host can have the image that was decided for it.
func (d *Decider) obtain(b *BootDecision) {
	if d.try == nil || b.Err != nil || b.Image == nil || b.Image.External != nil {
		return
	}
	if err := d.try(b.Image, b.Host.Booting().KernelArgs); err != nil {
		failure := *fault.Of(err)
		failure.Kind = fault.Unavailable // of whatever kind: it may be mended while the machine waits
		b.Err = &failure
		b.Notices = append(b.Notices, ImageUnavailable(b.Host, b.Image.Ref, b.Err))
	}
}

// ImageUnavailable is the notice that a host cannot have an image.
func ImageUnavailable(h *snapshot.Host, image snapshot.Ref, failure *fault.Error) Notice {
	return Notice{Reason: ReasonImageUnavailable, Host: h, Key: image.String(), Message: failure.Sentence}
}
