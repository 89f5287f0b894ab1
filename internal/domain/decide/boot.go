package decide

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/arch"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"

	v1 "glowplug/api/v1"
)

// BootDecision is what a machine boots.
type BootDecision struct {
	Identity
	// Image is the image that it boots; nil where it boots its disk or a script without an
	// image, or is unknown. It may be set beside Err, where it cannot be served.
	Image *model.Image
	// Args are the host's own kernel arguments for its image; nil: it has none.
	Args []string
	// Script is the host's own script or that of its namespace, a template; "": none. OfNamespace is true where it is
	// that of the namespace.
	Script      string
	OfNamespace bool
	// Local is true where a known host boots its disk.
	Local bool
	// Reason explains the decision, without a full stop.
	Reason string
	// Progress is that of the host before the request.
	Progress model.Progress
	// Limits are those for the config of the host.
	Limits model.Limits
	// Offer has the images that an unknown machine may boot, the oldest first.
	Offer []*model.Image
	// Err says why there is nothing to boot; nil where there is.
	Err *fault.Error
	// Awaits is true where Err is only that the image is not ready yet.
	Awaits bool
}

// Progress knows the progress of hosts.
type Progress interface {
	// Progress returns the progress of a host; its status is a part of the host.
	Progress(host *model.Host) model.Progress
}

// Images knows which images this server can serve.
type Images interface {
	// Prepare returns an error where an image cannot be served with a host's own kernel
	// arguments and the token of its boot; nil arguments or "": the host has none. Firmware that
	// finds no image cannot show the reason, so images are prepared before a host receives their
	// script.
	Prepare(image *model.Image, args []string, token string) error
}

// Boot decides what a machine boots. The identity rules are those of Config.
func (d *Decider) Boot(req *Request) BootDecision {
	q := bootQuestion{newQuestion(d, d.View(), req)}
	err := q.identifyAndAdmit()
	var hold *fault.Error
	if !isFinal(err) {
		hold = q.holdBoot()
		err = cmp.Or(hold, err)
	}
	b := BootDecision{Identity: q.dec.Identity, Err: err}
	if b.Host != nil {
		b.Notices = withoutIgnored(b.Notices)
		b.Progress, b.Limits = progressOf(d.opts.Progress, b.Host), q.view.Limits(b.Host)
	}
	switch {
	case hold != nil && b.Host != nil:
		b.Notices = append(b.Notices, BootUnavailable(&b, hold))
	case err != nil:
	case b.Host == nil:
		q.offer(&b)
	default:
		q.boots(&b)
	}
	return b
}

// ImageUnavailable returns the notice that a host cannot have its image.
func ImageUnavailable(h *model.Host, image model.Ref, failure *fault.Error) Notice {
	return Notice{
		Reason: ReasonImageUnavailable, Host: h, Key: image.String() + " " + failure.Sentence, Message: failure.Sentence,
	}
}

// BootUnavailable returns the notice that a known host cannot boot what a decision says.
func BootUnavailable(b *BootDecision, failure *fault.Error) Notice {
	if b.Image != nil {
		return ImageUnavailable(b.Host, b.Image.Ref, failure)
	}
	return Notice{Reason: ReasonScriptUnavailable, Host: b.Host, Key: failure.Sentence, Message: failure.Sentence}
}

// withoutIgnored removes the notices of claims that no host has: our own script sends all
// facts of a machine, and few hosts have them all.
func withoutIgnored(notices []Notice) []Notice {
	return slices.DeleteFunc(notices, func(n Notice) bool { return n.Reason == ReasonClaimIgnored })
}

// boots decides for a known host.
func (q *bootQuestion) boots(b *BootDecision) {
	h, own := b.Host, b.Host.Booting()
	imaged, script := h.Image != (model.Ref{}), q.view.Script(h)
	hold := q.holdScript(h, script)
	switch {
	case own.Disk:
		b.Local, b.Reason = true, "its image is "+v1.ImageLocalBoot
		return
	case !imaged && script == "" && hold == nil:
		b.Local, b.Reason = true, "it has no image"
		return
	}
	armed, reason := Armed(h, b.Progress)
	b.Local, b.Reason = !armed, reason
	if b.Local {
		return
	}
	if b.Err = cmp.Or(q.refuseBoot(b), hold); b.Err != nil {
		b.Notices = append(b.Notices, BootUnavailable(b, b.Err))
		return
	}
	b.Script, b.OfNamespace = script, script != "" && own.IPXE == ""
	if imaged {
		if b.Image, b.Err = q.image(b); b.Err != nil {
			b.Notices = append(b.Notices, ImageUnavailable(h, h.Image, b.Err))
			b.Awaits = b.Image != nil && IsAwaited(b.Image)
		}
	}
}

// refuseBoot returns an error where the machine would boot without its config, outside of its limits:
// a script can say so, and an installer without a config says much less.
func (q *bootQuestion) refuseBoot(b *BootDecision) *fault.Error {
	if b.Limits == (model.Limits{}) || q.req.Type != IPXE || q.req.At.IsZero() || q.req.Caller.Believed {
		return nil
	}
	limits := b.Limits
	if !beginsBoot(b.Progress, scriptStep(q.req.Again), q.req.At) {
		limits.MaxFetches = 0 // who has received the config in this boot may receive it again
	}
	w := scriptWindow(b.Host, &b.Progress)
	if closed := whyClosed(&w, &b.Progress, limits, netip.Addr{}, q.req.At); closed != "" {
		return fault.New(fault.Unavailable, "no config is served: "+closed+armAgain)
	}
	return nil
}

// StoredImage returns the image of a host, which need not be stored, or an error where the objects say
// that it cannot be booted.
func (d *Decider) StoredImage(view model.View, h *model.Host) (*model.Image, *fault.Error) {
	q := bootQuestion{newQuestion(d, view, claimless)}
	return q.storedImage(h)
}

// storedImage returns the image of a host, or an error where the objects say that it cannot
// be booted.
func (q *bootQuestion) storedImage(h *model.Host) (*model.Image, *fault.Error) {
	ref := h.Image
	if island, separate := islandBetween(q.view, h.Namespace, ref.Namespace); separate {
		return nil, fault.New(fault.Refused, "image "+ref.String()+" is of another namespace, and the namespace "+island+
			" is an island; put it into "+h.Namespace)
	}
	image := q.view.Image(ref)
	if image == nil {
		if failure := q.decider.MissingImage(ref); failure != nil {
			return nil, failure
		}
		return nil, fault.New(fault.Unavailable, "there is no image "+ref.String()+
			"; create the ISCSICdrom or correct the host's spec.image")
	}
	failure := bootable(image)
	if failure == nil {
		failure = q.foreign(image, h)
	}
	return image, failure
}

// image returns the image of a host, or an error where this server cannot serve it.
func (q *bootQuestion) image(b *BootDecision) (*model.Image, *fault.Error) {
	image, failure := q.storedImage(b.Host)
	if image != nil {
		b.Args = model.OwnArgs(q.view, b.Host, image)
	}
	if failure != nil || image.External != nil || q.decider.opts.Images == nil {
		return image, failure
	}
	if err := q.decider.opts.Images.Prepare(image, b.Args, placeholder(b)); err != nil {
		unavailable := *fault.Of(err)
		unavailable.Kind = fault.Unavailable // of any kind: the operator may correct it while the machine waits
		return image, &unavailable
	}
	return image, nil
}

// placeholder returns a text that takes the room of the token of a boot; "": it has none.
func placeholder(b *BootDecision) string {
	if !b.Limits.Token {
		return ""
	}
	return boottoken.Placeholder
}

// foreign returns an error where the machine has another architecture than an image. The
// machine says it, or the label of its host.
func (q *bootQuestion) foreign(image *model.Image, h *model.Host) *fault.Error {
	machine := q.req.Claims.Arch
	if machine == "" && h != nil {
		machine = arch.Parse(h.Labels[arch.Label])
	}
	if arch.CanBoot(machine, image.Architectures) {
		return nil
	}
	return fault.New(fault.Unavailable, "image "+image.Ref.String()+" is for "+strings.Join(image.Architectures, " and ")+
		", and this machine is "+machine+"; give it an image for "+machine)
}

// IsAwaited reports whether an image has no error and is not ready: the server has not read its file
// yet, or waits for it.
func IsAwaited(image *model.Image) bool {
	return image.External == nil && image.Phase != v1.PhaseReady && image.Phase != v1.PhaseError
}

// bootable returns an error where an image cannot be booted now.
func bootable(image *model.Image) *fault.Error {
	switch {
	case image.External != nil || image.Phase == v1.PhaseReady:
		return nil
	case IsAwaited(image) && image.Message != "":
		return fault.New(fault.Unavailable, "image "+image.Ref.String()+" is not ready yet: "+image.Message)
	case image.Message != "":
		return fault.New(fault.Unavailable, "image "+image.Ref.String()+" cannot be booted: "+image.Message)
	}
	return fault.New(fault.Unavailable, "image "+image.Ref.String()+" is not ready yet")
}

// offer lists the images for an unknown machine. It leaves out images of islands and of another
// architecture, images with access "hosts", and images with a password, which the script
// would disclose to every client.
func (q *bootQuestion) offer(b *BootDecision) {
	for _, image := range q.view.Images("") {
		if image.CHAP == nil && !image.HostsOnly && bootable(image) == nil && q.foreign(image, nil) == nil &&
			!q.view.Islands().Has(image.Namespace) {
			b.Offer = append(b.Offer, image)
		}
	}
	b.Reason = "it is no known host"
}
