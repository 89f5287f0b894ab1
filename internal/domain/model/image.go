package model

import (
	"cmp"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/shardmap"
)

// Image is the part of an ISCSICdrom that decisions need. It is immutable.
type Image struct {
	Ref
	UID      string
	Revision uint64
	// Generation is metadata.generation, which a change of the spec counts.
	Generation int64
	// Config is the IgnitionConfig for hosts that boot the image; zero: none.
	Config Ref

	Created time.Time
	// StepTimeout is the time that a step of a boot of the image takes at most; 0: that of the server.
	StepTimeout time.Duration
	// InstallDevice is the disk on which hosts that name none install the system of the image; "": it names none.
	InstallDevice string
	// Version is spec.version, free text.
	Version string
	// Hidden is true for an image that the menu of unknown machines does not show.
	Hidden bool
	// External is the target of another server that serves the image; nil: this one does.
	External *v1.ExternalTarget
	// CHAP is the secret for a login; nil: none is needed.
	CHAP *v1.CHAP
	// HTTP is true where iPXE reads the image over HTTP.
	HTTP bool
	// Default is true for an image that unknown machines may boot.
	Default bool
	// HostsOnly is true where only the hosts that boot the image may read it.
	HostsOnly bool
	// AllowedInitiators may log in; empty: all.
	AllowedInitiators []string
	// KernelArgs are set on its boot entries, beside the default ones of the distribution unless
	// NoDefaultArgs is true. AppliedArgs are all that are set, and OwnArgs those that the entries have beside
	// them; empty: not known.
	KernelArgs           []string
	NoDefaultArgs        bool
	AppliedArgs, OwnArgs []string
	// NoConfig says that no argument tells the system where its config is; "": one does, or that is not known.
	NoConfig string
	// Stream is true for an image that follows a stream, PXE for a kernel and its files, and
	// Rootfs where these include a root file system.
	Stream, PXE, Rootfs bool
	// Sum is the digest of the served bytes, in hex; Release is their release, and
	// MaxIgnition the newest Ignition spec that they read, where these are known.
	Sum, Release, MaxIgnition string
	// Live is true for a system that runs from the image, and that configures itself by Ignition without an
	// installation. Args are the arguments of its boot entries, as they are served; empty: not known.
	Live bool
	// Flatcar is true for an image of Flatcar, which is live as well, and installs what its config says.
	Flatcar bool
	Args    []string
	// Architectures are those of the machines that can boot it; empty: not known.
	Architectures []string
	// Phase and Message are status.phase and status.errorMessage; IQN is the name
	// that this server offers it under.
	Phase, Message, IQN string
}

// compare is the order in which images win: the older, then namespace and name.
func (i *Image) compare(o *Image) int {
	return cmp.Or(i.Created.Compare(o.Created), i.Ref.Compare(o.Ref))
}

// imageIndex finds images by name and by IQN.
type imageIndex struct {
	byRef table[Image]
	// byIQN has, by IQNs in lower case, the images that this server offers.
	byIQN shardmap.Map[string, []*Image]
}

// put puts an image, which may be nil, in place of the one with that name.
func (x *imageIndex) put(edit *shardmap.Edit, ref Ref, i *Image) {
	x.setIQN(edit, x.byRef.get(ref), false)
	x.byRef.put(edit, ref, i)
	x.setIQN(edit, i, true)
}

func (x *imageIndex) setIQN(edit *shardmap.Edit, i *Image, isListed bool) {
	if i != nil && i.IQN != "" && i.External == nil {
		shardmap.SetListed(edit, &x.byIQN, strings.ToLower(i.IQN), i, isListed, (*Image).compare)
	}
}
