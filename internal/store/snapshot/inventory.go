// Package snapshot is the index in memory of the hosts, configs and images in
// the store, kept by following their buckets.
package snapshot

import (
	"cmp"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/report"
	"glowplug/internal/domain/shardmap"
	"glowplug/internal/domain/template"
)

// Ref names an object.
type Ref = match.Ref

// Host is a BareMetalHost as matching sees it. It is never changed: an update
// of the object makes a new one.
type Host struct {
	Ref
	UID         string
	Created     time.Time
	Revision    uint64
	MACs        []netaddr.MAC
	IPs         []netip.Addr
	Hostnames   []string
	UUID        string
	BootSources []netip.Prefix
	// Labels is metadata.labels overlaid by spec.labels.
	Labels map[string]string
	// Image is the ISCSICdrom it boots; zero: the disk.
	Image Ref
	// Boot is how it boots; nil where all of that is as it is by default.
	Boot *HostBoot
	// More is what few hosts have; nil where there is none of it.
	More *HostMore
	// Progress is how far it is by its status.
	Progress Progress
}

// HostBoot is what few hosts have of their own.
type HostBoot struct {
	// Disk is true where spec.image is "localboot": neither an image nor a script
	// is booted.
	Disk bool
	// Forever is bootMode: forever.
	Forever    bool
	KernelArgs []string
	// IPXE is the host's own script, a template.
	IPXE string
	// Rearm is the annotation that arms the host again.
	Rearm string
}

// HostMore is what few hosts have: what templates alone ask for, and a rare state.
type HostMore struct {
	// Annotations are metadata.annotations, without kubectl's copy of the object.
	Annotations map[string]string
	// NICs are spec.nics.
	NICs []template.NIC
	// Unreadable is true where its status says that its image cannot read its config.
	Unreadable bool
}

// Unreadable is true where the host's status says that its image cannot read its config.
func (h *Host) Unreadable() bool { return h.More != nil && h.More.Unreadable }

// NoBoot is the HostBoot of a host that has none.
var NoBoot = &HostBoot{}

// Booting returns how the host boots; it is never nil and must not be changed.
func (h *Host) Booting() *HostBoot {
	if h.Boot == nil {
		return NoBoot
	}
	return h.Boot
}

// Progress is how far a machine is with its boot: the part of its status that
// decides what it boots next.
type Progress struct {
	// State is status.state; "" is Available.
	State string
	// Script is when it was last given a boot script, Seen when it last asked for
	// anything, Boot when its last boot began; zero: never. Where they come from a
	// status they are in whole seconds.
	Script, Seen, Boot time.Time
	// Rearmed is the value of the annotation that was last followed.
	Rearmed string
	// Boots counts the boots that began.
	Boots int64
	// Position is the position in the boot log of the newest record that is
	// included; 0: none is.
	Position uint64
}

// compare is the order in which hosts win what they share: the older, then
// namespace and name.
func (h *Host) compare(o *Host) int {
	return cmp.Or(h.Created.Compare(o.Created), h.Ref.Compare(o.Ref))
}

// Config is an IgnitionConfig as serving sees it. It is never changed: an
// update of the object makes a new one.
type Config struct {
	Ref
	UID      string
	Created  time.Time
	Revision uint64
	// Type is "ignition" or "kickstart", Format spec.format.
	Type, Format string
	// Installer is spec.kickstartVersion.
	Installer string
	// Generation is metadata.generation.
	Generation int64
	// Source is the newest spec.config, for format=raw.
	Source string
	// Artifact is the last good compilation; nil where there never was one.
	Artifact []byte
	// Template is true where Artifact is a template: it is rendered and compiled
	// for each machine.
	Template bool
	// Hash is "sha256:" and the hex digest of Artifact; ETag is Hash in quotes.
	Hash, ETag      string
	IgnitionVersion string
	// Servable are the Ignition spec versions that it can be given in; none where
	// that is not known.
	Servable ignition.Specs
	// Stale is true while the newest source is not the one that is served, or not
	// as it would be merged over its layers.
	Stale bool
	// Pending and Failing are the phase: the newest source is being compiled, or
	// cannot be served.
	Pending, Failing bool
	// Unjudged is true while status.servable is not of what is served.
	Unjudged bool
	// Foreign is true where another program has put the config into the bucket: what
	// it is served as need not be what its source compiles to.
	Foreign bool
	// ErrorMessage is status.errorMessage.
	ErrorMessage string
	// Stack is what the config is merged over; nil where it has no layers.
	Stack *Stack

	rule *match.Rule
}

// ParseTemplate reads the template that Artifact is. It is nil exactly where the
// report holds an error.
func (c *Config) ParseTemplate() (*compile.Template, report.Report) {
	return compile.ParseTemplate(compile.Source{
		Type: c.Type, Format: c.Format, Config: string(c.Artifact), Template: true, KickstartVersion: c.Installer,
	})
}

// Stack is what a config is merged over. It is never changed.
type Stack struct {
	// Layers are configs of its namespace, the lowest first.
	Layers []string
	// Own is what the newest source alone compiles to; nil where it does not.
	Own []byte
	// Merged says what the artifact was made of.
	Merged []v1.LayerStatus
}

// Image is an ISCSICdrom as matching sees it. It is never changed.
type Image struct {
	Ref
	UID      string
	Revision uint64
	// Config is the IgnitionConfig for hosts that boot the image; zero: none.
	Config Ref

	Created time.Time
	// Version is spec.version, free text.
	Version string
	// Hidden is true for an image that the menu of unknown machines does not show.
	Hidden bool
	// External is the target of somebody else who serves the image; nil: this
	// server does.
	External *v1.ExternalTarget
	// CHAP is what initiators log in with; nil: nothing.
	CHAP *v1.CHAP
	// HTTP is true where iPXE reads the image over HTTP.
	HTTP bool
	// Default is true for an image that unknown machines may boot.
	Default bool
	// HostsOnly is true where those hosts alone whose image it is may read it.
	HostsOnly bool
	// AllowedInitiators may log in; empty: all.
	AllowedInitiators []string
	// KernelArgs are set on its boot entries.
	KernelArgs []string
	// Stream is true for an image of a stream, which another may take the place of;
	// PXE where it is a kernel and its files, and Rootfs where these have a root file
	// system.
	Stream, PXE, Rootfs bool
	// Sum is the digest of what is served, in hex; Release the release that it is of
	// and MaxIgnition the newest Ignition spec that it reads, where they are known.
	Sum, Release, MaxIgnition string
	// Phase and Message are status.phase and status.errorMessage; IQN is the name
	// that this server offers it under.
	Phase, Message, IQN string
}

// compare is the order in which images win: the older, then namespace and name.
func (i *Image) compare(o *Image) int {
	return cmp.Or(i.Created.Compare(o.Created), i.Ref.Compare(o.Ref))
}

// Namespace is a Namespace as booting sees it. It is never changed.
type Namespace struct {
	Name string
	// IPXE is the script of hosts that have none of their own, a template; "": none.
	IPXE string
}

// Options are the surroundings of an Inventory; the zero value will do.
type Options struct {
	// Logger is told of stored values that cannot be read; nil: slog.Default().
	Logger *slog.Logger
	// OnConflict is called whenever the hosts that a host shares a hardware or IP
	// address with have changed, and after a load for every host that has such a
	// conflict. It is called once the change can be seen, one call at a time. It must
	// not block. May be nil.
	OnConflict func(ConflictChange)
	// OnChange is called after every change of a host, and of what decides which
	// config a host is given. It is called once the change can be seen, for a bucket
	// one call at a time. It must not block. May be nil.
	OnChange func(Change)
	// Now is the clock of BucketStats.At; nil: time.Now.
	Now func() time.Time
}

// Change is what has changed: a host, a config, an image, or more than that.
type Change struct {
	// Host and OldHost are a host after and before; nil where it is gone or new.
	Host, OldHost *Host
	// Config and OldConfig are a config after and before, Image and OldImage an image.
	Config, OldConfig *Config
	Image, OldImage   *Image
	// All is true where any host may be given another config than before.
	All bool
}

// Inventory is the index. It is safe for concurrent use; readers never wait.
type Inventory struct {
	opts Options
	// state is the newest.
	state atomic.Pointer[state]
	// mu is held while the next state is made.
	mu sync.Mutex
}

// state is the content of the inventory at one time. It does not change once it is
// published.
type state struct {
	hosts      hostIndex
	configs    configIndex
	images     imageIndex
	namespaces struct {
		bucket
		byRef shardmap.Map[Ref, *Namespace]
	}
	followers []func(old, now *Config) // see FollowConfigs
}

// update edits a copy of the newest state and publishes it.
func (inv *Inventory) update(edit func(next *state)) (before, after *state) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	before = inv.state.Load()
	next := *before
	edit(&next)
	inv.state.Store(&next)
	return before, &next
}

// New returns an empty inventory, which the observers of its buckets fill.
func New(opts Options) *Inventory {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.OnConflict == nil {
		opts.OnConflict = func(ConflictChange) {}
	}
	if opts.OnChange == nil {
		opts.OnChange = func(Change) {}
	}
	inv := &Inventory{opts: opts}
	inv.state.Store(&state{})
	return inv
}

// BucketStats is how one bucket stands in the inventory.
type BucketStats struct {
	// Loaded is true once the bucket has been read.
	Loaded bool
	// Objects is the number of objects; Bad of those that could not be read and
	// are kept out.
	Objects, Bad int
	// Revision is the last one that was observed, At when.
	Revision uint64
	At       time.Time
}

// Stats are counts for metrics. What a store's last revision is ahead of
// Revision is the lag of the index.
type Stats struct {
	Hosts, Configs, Images BucketStats
	// Conflicting is the number of hosts that share a hardware or IP address
	// with another.
	Conflicting int
}

// Stats counts what the inventory holds.
func (inv *Inventory) Stats() Stats {
	s := inv.state.Load()
	return Stats{
		Hosts:       s.hosts.stats(s.hosts.byRef.Len()),
		Configs:     s.configs.stats(s.configs.byRef.Len()),
		Images:      s.images.stats(s.images.byRef.Len()),
		Conflicting: len(s.hosts.conflicting()),
	}
}

// View returns the inventory as it is now.
func (inv *Inventory) View() View { return View{inv.state.Load()} }
