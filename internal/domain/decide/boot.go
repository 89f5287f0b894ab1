package decide

import (
	"cmp"
	"strings"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"

	v1 "glowplug/api/v1"
)

// IPXE is the Type of a Request for what a machine boots.
const IPXE = "ipxe"

// BootDecision is what a machine boots.
type BootDecision struct {
	// Host is the machine that asks; nil where none is known.
	Host *snapshot.Host
	// FoundBy is what found the host, as in Decision.
	FoundBy string
	// Image is what it boots; nil where it boots its disk, a script without an
	// image, or is unknown. It may be set beside Err, where it cannot be given.
	Image *snapshot.Image
	// Script is the host's or its namespace's own script, a template; "": none.
	Script string
	// Local is true where a known host boots its disk.
	Local bool
	// Reason says why, without a full stop.
	Reason string
	// Progress is how far the host was.
	Progress snapshot.Progress
	// Offer are the images that an unknown machine may boot, the oldest first.
	Offer []*snapshot.Image
	// Err says why there is nothing to boot; nil where there is.
	Err *fault.Error
	// Notices are what deserves an event.
	Notices []Notice
	// Unheld are the claims that do not hold.
	Unheld Unheld
}

// Follow makes the decider take the progress of hosts from a function, which is
// given a host with the progress that its status tells, instead of from the
// status alone. It is to be called before the first decision.
func (d *Decider) Follow(progress func(*snapshot.Host) snapshot.Progress) { d.progress = progress }

func (d *Decider) progressOf(h *snapshot.Host) snapshot.Progress {
	if d.progress != nil {
		return d.progress(h)
	}
	return h.Progress
}

// DecideBoot says what a machine boots. The identity rules are those of Decide.
func (d *Decider) DecideBoot(req *Request) BootDecision {
	b := d.decideBoot(req)
	// The inventory is let go by now: writers must not wait for a file.
	d.obtain(&b)
	return b
}

func (d *Decider) decideBoot(req *Request) BootDecision {
	var dec Decision
	view := d.inv.View()
	defer view.End()
	q := d.question(view, req, &dec)
	err := q.identify()
	if err == nil {
		err = q.admit()
	}
	if lost, ok := d.whatIsLost(err); ok {
		if doubt := cmp.Or(q.doubtHost(&lost), q.doubtScript(&lost)); doubt != nil {
			err = doubt
		}
	}
	b := BootDecision{Host: dec.Host, FoundBy: dec.FoundBy, Err: err, Notices: dec.Notices, Unheld: dec.Unheld}
	if b.Host != nil {
		b.Notices = withoutIgnored(b.Notices)
		b.Progress = d.progressOf(b.Host)
	}
	switch {
	case err != nil:
	case b.Host == nil:
		q.offer(&b)
	default:
		q.boots(&b)
	}
	return b
}

// withoutIgnored drops what tells of claims that name nobody: our own script
// sends all that a machine knows of itself, and few hosts have it all.
func withoutIgnored(notices []Notice) []Notice {
	kept := notices[:0]
	for _, n := range notices {
		if n.Reason != ReasonClaimIgnored {
			kept = append(kept, n)
		}
	}
	return kept
}

// boots decides for a known host.
func (q *question) boots(b *BootDecision) {
	h, own := b.Host, b.Host.Booting()
	imaged := h.Image != (snapshot.Ref{})
	switch {
	case own.Disk:
		b.Local, b.Reason = true, "its image is "+v1.ImageLocalBoot
		return
	case !imaged && own.IPXE == "":
		b.Local, b.Reason = true, "it has no image"
		return
	}
	armed, reason := Armed(h, b.Progress)
	b.Local, b.Reason = !armed, reason
	if b.Local {
		return
	}
	if b.Script = own.IPXE; b.Script == "" {
		b.Script = q.view.Script(h.Namespace)
	}
	if imaged {
		b.Image, b.Err = q.image(h.Image, h.Namespace)
		if b.Err != nil {
			b.Notices = append(b.Notices, ImageUnavailable(h, h.Image, b.Err))
		}
	}
}

// image gives an image that is to be booted, and says why it cannot be.
func (q *question) image(ref snapshot.Ref, namespace string) (*snapshot.Image, *fault.Error) {
	if q.policy.Isolate && ref.Namespace != namespace {
		return nil, fault.New(fault.Refused, "image "+ref.String()+" is of another namespace, which isolation forbids; put it into "+namespace)
	}
	image := q.view.Image(ref)
	if image == nil {
		return nil, fault.New(fault.Unavailable, "there is no image "+ref.String()+"; create the ISCSICdrom or correct the host's spec.image")
	}
	return image, bootable(image)
}

// bootable says why an image cannot be booted now; nil where it can.
func bootable(image *snapshot.Image) *fault.Error {
	switch {
	case image.External != nil || image.Phase == v1.PhaseReady:
		return nil
	case image.Message != "":
		return fault.New(fault.Unavailable, "image "+image.Ref.String()+" cannot be booted: "+image.Message)
	}
	return fault.New(fault.Unavailable, "image "+image.Ref.String()+" is not ready yet")
}

// offer lists what an unknown machine may boot: no image for hosts alone, and none
// that asks for a password, which the script would tell whoever asks.
func (q *question) offer(b *BootDecision) {
	namespace := ""
	if q.policy.Isolate {
		namespace = match.DefaultNamespace
	}
	for _, image := range q.view.Images(namespace) {
		if image.CHAP == nil && !image.HostsOnly && bootable(image) == nil {
			b.Offer = append(b.Offer, image)
		}
	}
	b.Reason = "it is no known host"
}

// ImageDecision is how a machine gets the bytes of an image.
type ImageDecision struct {
	// Host is the machine that asks; nil where none is known.
	Host *snapshot.Host
	// FoundBy is what found the host, as in Decision.
	FoundBy string
	// ByNetwork is true where the network says that the machine is Host: by its hardware
	// address, else by its address. False where it has only claimed so.
	ByNetwork bool
	// Image is what it asked for; nil where there is none.
	Image *snapshot.Image
	// Args are the host's own kernel arguments, where this is the image that it
	// boots; nil: the image's.
	Args []string
	// Err says why it is not given; nil where it is.
	Err *fault.Error
	// Notices are what deserves an event: claims that do not hold, and an image that
	// a host cannot have now.
	Notices []Notice
	// Unheld are the claims that do not hold.
	Unheld Unheld
	// Missed is true where there is no such image for who asks.
	Missed bool
}

// DecideImage says whether a machine may read an image, and with which kernel
// arguments. proven is true where the machine has to prove that it knows the
// image's password, as over iSCSI; otherwise an image that has one is given to
// the hosts that boot it and to callers who are believed.
func (d *Decider) DecideImage(req *Request, ref snapshot.Ref, proven bool) ImageDecision {
	view := d.inv.View()
	defer view.End()
	named := func(own *snapshot.Image) bool { return own.Ref == ref }
	if i, withheld := d.withheld(view, req, named); withheld {
		return i
	}
	return d.decideImage(view, req, view.Image(ref), ref, proven)
}

// DecideTarget is DecideImage for the iSCSI name that this server offers an
// image under. An unknown name gives no Image.
func (d *Decider) DecideTarget(req *Request, iqn string) ImageDecision {
	view := d.inv.View()
	defer view.End()
	named := func(own *snapshot.Image) bool { return strings.EqualFold(own.IQN, iqn) }
	if i, withheld := d.withheld(view, req, named); withheld {
		return i
	}
	image := view.ImageByIQN(iqn)
	if image == nil {
		return ImageDecision{Err: fault.New(fault.NoMatch, "there is no such target"), Missed: true}
	}
	return d.decideImage(view, req, image, image.Ref, true)
}

func (d *Decider) decideImage(view snapshot.View, req *Request, image *snapshot.Image, ref snapshot.Ref, proven bool) ImageDecision {
	var dec Decision
	q := d.question(view, req, &dec)
	err := q.identify()
	if err == nil && dec.Host != nil {
		err = q.admitHost(dec.Host)
	}
	i := ImageDecision{
		Host: dec.Host, FoundBy: dec.FoundBy, Image: image, Err: err,
		Notices: withoutIgnored(dec.Notices), Unheld: dec.Unheld,
	}
	if err != nil {
		return i
	}
	i.ByNetwork = i.Host != nil && q.byNetwork(i.Host)
	own := i.Host != nil && i.Host.Image == ref && !i.Host.Booting().Disk
	namespace := match.DefaultNamespace
	if i.Host != nil {
		namespace = i.Host.Namespace
	}
	switch {
	case image == nil || image.External != nil:
		i.Err = fault.New(fault.NoMatch, "there is no image "+ref.String()+" here")
	case q.policy.Isolate && !req.Caller.Believed && ref.Namespace != namespace:
		i.Err = fault.New(fault.NoMatch, "there is no image "+ref.String()+" here") // as if there were none
	case image.HostsOnly && !own && !req.Caller.Believed:
		i.Err = fault.New(fault.Refused, "image "+ref.String()+" is given to the hosts alone whose spec.image it is")
	case image.CHAP != nil && !proven && !own && !req.Caller.Believed:
		i.Err = fault.New(fault.Refused, "image "+ref.String()+" asks for a password and is given over HTTP to the hosts that boot it alone")
	default:
		if i.Err = bootable(image); i.Err != nil && i.Host != nil {
			i.Notices = append(i.Notices, ImageUnavailable(i.Host, ref, i.Err))
		}
	}
	i.Missed = i.Err != nil && !own && (i.Err.Kind == fault.NoMatch || i.Err.Kind == fault.Refused)
	if own && len(i.Host.Booting().KernelArgs) > 0 {
		i.Args = i.Host.Booting().KernelArgs
	}
	return i
}
