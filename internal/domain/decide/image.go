package decide

import (
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

// ImageDecision is the decision about a read of an image. Its notices are of claims that do
// not hold, and of an image that a host cannot have now.
type ImageDecision struct {
	Identity
	// ByNetwork is true where the network identifies the machine as Host: by its hardware
	// address, else by its address. It is false for a claim alone.
	ByNetwork bool
	// Image is the requested image; nil where there is none.
	Image *model.Image
	// Args are the host's own kernel arguments, if it boots this image; nil: the image's.
	Args []string
	// Token is the token of the machine's boot, which the URLs in the arguments carry; "": it needs none.
	Token string
	// Err is the reason of a refusal; nil: there is none.
	Err *fault.Error
	// Missed is true where there is no such image for the client.
	Missed bool
}

// Image decides whether a machine may read an image, and with which kernel arguments.
// proven is true where the machine has to prove that it knows the image's password, as
// over iSCSI. Otherwise only its hosts and believed callers may read an image with a
// password.
func (d *Decider) Image(req *Request, ref model.Ref, proven bool) ImageDecision {
	view := d.View()
	named := func(own *model.Image) bool { return own.Ref == ref }
	if i, withheld := d.withheld(view, req, named); withheld {
		return i
	}
	return d.decideImage(view, req, view.Image(ref), ref, proven)
}

// Target is Image for the iSCSI name of an image. For an unknown name the decision has no
// Image.
func (d *Decider) Target(req *Request, iqn string) ImageDecision {
	view := d.View()
	named := func(own *model.Image) bool { return strings.EqualFold(own.IQN, iqn) }
	if i, withheld := d.withheld(view, req, named); withheld {
		return i
	}
	image := view.ImageByIQN(iqn)
	if image == nil {
		return ImageDecision{Err: fault.New(fault.NoMatch, "there is no such target"), Missed: true}
	}
	return d.decideImage(view, req, image, image.Ref, true)
}

func (d *Decider) decideImage(view model.View, req *Request, image *model.Image, ref model.Ref,
	proven bool,
) ImageDecision {
	q := bootQuestion{newQuestion(d, view, req)}
	err := q.identify()
	if err == nil && q.dec.Host != nil {
		err = q.admitHost(q.dec.Host)
	}
	host := q.dec.Host
	own := host != nil && host.Image == ref && !host.Booting().Disk
	isRefused := err != nil
	if !isRefused {
		err = q.refuseImage(image, ref, own, proven)
	}
	i := ImageDecision{Identity: q.dec.Identity, Image: image, Err: err}
	i.Notices = withoutIgnored(i.Notices)
	if isRefused {
		return i
	}
	i.ByNetwork = host != nil && q.byNetwork(host)
	if i.Err == nil {
		if i.Err = bootable(image); i.Err != nil && host != nil {
			i.Notices = append(i.Notices, ImageUnavailable(host, ref, i.Err))
		}
	}
	i.Missed = i.Err != nil && !own && (i.Err.Kind == fault.NoMatch || i.Err.Kind == fault.Refused)
	if own {
		i.Args, i.Token = model.OwnArgs(view, host, image), q.token()
	}
	return i
}

// token returns the token that the arguments of a machine's own image carry; "": it needs none.
func (q *bootQuestion) token() string {
	if q.req.Caller.Believed || !q.view.Limits(q.dec.Host).Token {
		return ""
	}
	return q.req.Claims.Token
}

// refuseImage returns the reason why the machine may not read an image; nil where it may.
// own is true where it is the one that the machine boots.
func (q *bootQuestion) refuseImage(image *model.Image, ref model.Ref, own, proven bool) *fault.Error {
	believed := q.req.Caller.Believed
	foreign := q.view.Islands().Has(ref.Namespace)
	if h := q.dec.Host; h != nil {
		foreign = q.view.Islands().Separate(h.Namespace, ref.Namespace)
	}
	foreign = foreign && !believed // as if there were none
	if image == nil {
		if failure := q.decider.MissingImage(ref); failure != nil {
			return failure
		}
	}
	switch {
	case image == nil || image.External != nil || foreign:
		return fault.New(fault.NoMatch, "there is no image "+ref.String()+" here")
	case believed:
		return nil
	case own:
		p := progressOf(q.decider.opts.Progress, q.dec.Host)
		return refuseToken(&q.question, q.view.Limits(q.dec.Host), &p)
	case image.HostsOnly:
		return fault.New(fault.Refused, "image "+ref.String()+" is given to the hosts alone whose spec.image it is")
	case image.CHAP != nil && !proven:
		return fault.New(fault.Refused, "image "+ref.String()+
			" asks for a password and is given over HTTP to the hosts that boot it alone")
	}
	return nil
}

// withheld decides for a client with too many refused requests: images are not looked up
// for it, except the one that the host boots.
func (d *Decider) withheld(view model.View, req *Request, named func(*model.Image) bool) (ImageDecision, bool) {
	if req.ImageLimit == Unlimited {
		return ImageDecision{}, false
	}
	q := bootQuestion{newQuestion(d, view, req)}
	if err := q.identify(); err != nil || !q.limited(req.ImageLimit) {
		return ImageDecision{}, false // the usual decision has the error
	}
	if h := q.dec.Host; h != nil && !h.Booting().Disk {
		if image := view.Image(h.Image); image != nil && named(image) {
			return ImageDecision{}, false
		}
	}
	i := ImageDecision{Identity: q.dec.Identity, Err: ImagesLimited}
	i.Notices = withoutIgnored(i.Notices)
	return i, true
}

// InstallDevice returns the disk on which a host is to install the system of its image; "": on none.
func (d *Decider) InstallDevice(h *model.Host) string {
	view := d.View()
	image := view.Image(h.Image)
	if image == nil || !image.Installs() {
		return ""
	}
	return model.InstallDevice(view, h, image)
}

// KernelArgs returns the kernel arguments of an image that is a kernel and its files:
// those with which its distribution finds its config here, unless the image wants none, those of the image,
// and own, those of a host. Of one name the last one counts. base is this server's URL, for ${glowplug}; rootfs the URL
// of the root file system, "" where there is none. URLs of configs and images carry the token of the boot, unless that
// is "".
//
// CoreOS needs the same arguments as its ISO images. Flatcar has no root file system
// beside its initramfs, and its own flag for the first boot.
func KernelArgs(image *model.Image, own []string, base, rootfs, token string) []string {
	var args []string
	if !image.NoDefaultArgs {
		first := "ignition.firstboot"
		if rootfs == "" {
			first = "flatcar.first_boot=1"
		}
		args = []string{first, "ignition.platform.id=metal", "ignition.config.url=${glowplug}/api/v1/ignition"}
	}
	args = v1.MergeKernelArgs(v1.MergeKernelArgs(args, image.KernelArgs), own)
	if rootfs != "" {
		args = v1.MergeKernelArgs(args, []string{"coreos.live.rootfs_url=" + rootfs})
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "${glowplug}", base)
	}
	if token != "" {
		args = boottoken.Add(args, base, token)
	}
	return args
}
