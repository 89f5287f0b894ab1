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
	"glowplug/internal/domain/template"
)

// Ref names an object.
type Ref = match.Ref

// Host is the part of a BareMetalHost that decisions need. It is immutable: an update of the
// object makes a new one.
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
	// Boot has its settings of booting; nil: all are the defaults.
	Boot *HostBoot
	// More has properties that few hosts have; nil: this one has none.
	More *HostMore
	// Progress is the state of its boot by its status.
	Progress Progress
	// Unmet are the conditions that its status says to be False.
	Unmet Conditions
	// Hardware identifies the hardware in its status; 0: there is none.
	Hardware uint32
}

// HostBoot are settings of booting that few hosts have.
type HostBoot struct {
	// Disk is true where spec.image is "localboot": neither an image nor a script
	// is booted.
	Disk bool
	// Forever is bootMode: forever.
	Forever    bool
	KernelArgs []string
	// IPXE is the host's own script, a template.
	IPXE string
	// Rearm is the annotation that arms the host again, and Armed the time of its last new value;
	// zero: it was never changed.
	Rearm string
	Armed time.Time
	// Provisioning are its own limits for its config.
	Provisioning v1.Provisioning
}

// HostMore are properties that few hosts have.
type HostMore struct {
	// Annotations are metadata.annotations, without kubectl's copy of the object.
	Annotations map[string]string
	// NICs are spec.nics.
	NICs []template.NIC
	// OtherMACs are the hardware addresses of NICs that are none of Ethernet; see netaddr.ParseOtherMAC.
	OtherMACs []string
}

// Conditions is a set of the conditions of a host that depend on other objects.
type Conditions uint8

// The conditions.
const (
	ConfigMatched Conditions = 1 << iota
	ImageReady
	ConfigReadable
	DataPreserved
)

// conditionNames has the name of each in a status.
var conditionNames = map[string]Conditions{
	v1.ConditionConfigMatched: ConfigMatched, v1.ConditionImageReady: ImageReady,
	v1.ConditionConfigReadable: ConfigReadable, v1.ConditionDataPreserved: DataPreserved,
}

// ConditionOf returns the condition with a name in a status.
func ConditionOf(name string) Conditions { return conditionNames[name] }

// NoBoot is the HostBoot of a host that has none.
var NoBoot = &HostBoot{}

// Booting returns the settings of booting, which must not be changed; it is never nil.
func (h *Host) Booting() *HostBoot {
	if h.Boot == nil {
		return NoBoot
	}
	return h.Boot
}

// Progress is the state of a machine's boot: the part of its status that decides what it
// boots next.
type Progress struct {
	// State is status.state; "" is Available.
	State string
	// Script is the time of its last boot script, Seen that of its last request, and Boot
	// that of the begin of its last boot; zero: never. A status has them in whole seconds.
	Script, Seen, Boot time.Time
	// Rearmed is the value of the annotation that was last followed.
	Rearmed string
	// Boots counts the boots that began.
	Boots int64
	// Window is the use of the provisioning window; nil: nothing of it is recorded. It is
	// immutable.
	Window *Window
	// Position is that of the newest record of the boot log that is included; 0: none is.
	Position uint64
}

// compare is the order in which hosts win what they share: the older, then
// namespace and name.
func (h *Host) compare(o *Host) int {
	return cmp.Or(h.Created.Compare(o.Created), h.Ref.Compare(o.Ref))
}

// Config is the part of an IgnitionConfig that serving needs. It is immutable: an update of
// the object makes a new one.
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
	// Secrets are those of a rendering that has placeholders in place of their values. Revealed is true for one
	// that has the values, whose Hash is that of the other. Neither is stored.
	Secrets  []template.SecretKey
	Revealed bool
	// Servable are the Ignition spec versions that it can be converted to; none where that
	// is not known.
	Servable ignition.Specs
	// Demands are what the artifact asks of a live system; nil: nothing, or it is a template.
	Demands *ignition.LiveDemands
	// Stale is true while the served artifact is not that of the newest source and its
	// layers.
	Stale bool
	// Pending and Failing are the phase: the newest source is being compiled, or
	// cannot be served.
	Pending, Failing bool
	// Unjudged is true while status.servable does not describe the artifact.
	Unjudged bool
	// Foreign is true where another program has put the config into the bucket: its artifact
	// need not be that of its source.
	Foreign bool
	// ErrorMessage is status.errorMessage.
	ErrorMessage string
	// Confidential is true where only some users may read what machines are served: the source, a layer, or
	// the older source that is served is confidential.
	Confidential bool
	// confidentialSource is true where the newest source is.
	confidentialSource bool
	// Stack has the layers of the config; nil: it has none.
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

// Stack is the layers of a config. It is immutable.
type Stack struct {
	// Layers are configs of its namespace, the lowest first.
	Layers []string
	// Own is the artifact of the newest source alone; nil where it does not compile.
	Own []byte
	// Merged are the layers of the artifact.
	Merged []v1.LayerStatus
}

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
	Args []string
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

// Namespace is the part of a Namespace that booting needs. It is immutable.
type Namespace struct {
	Name string
	// IPXE is the script of hosts that have none of their own, a template; "": none.
	IPXE string
	// RejectsBroken is true where a config whose source does not compile is refused.
	RejectsBroken bool
	// Island is its annotation glowplug.dev/island: "true", "false" or "".
	Island string
	// Isolated is true where an earlier release has isolated all namespaces; that of the namespace
	// default counts.
	Isolated bool
	// Provisioning are the limits of hosts that have none of their own.
	Provisioning v1.Provisioning
}

// isolation returns the isolation by the namespace default.
func (n *Namespace) isolation() Isolation {
	if n.Isolated {
		return IsolateOthers
	}
	return IsolateTenants
}

// Options are the surroundings of an Inventory; the zero value will do.
type Options struct {
	// Logger takes the errors of stored values that cannot be read; nil: slog.Default().
	Logger *slog.Logger
	// OnConflict is called when the conflicts of a host have changed, one call at a time.
	// The change is visible by then. It must not block. May be nil.
	OnConflict func(ConflictChange)
	// OnChange is called after every change of a host, a config or an image, for a bucket
	// one call at a time. The change is visible by then. It must not block. May be nil.
	OnChange func(Change)
	// Now is the clock of BucketStats.At; nil: time.Now.
	Now func() time.Time
	// Isolation says which namespaces are islands whatever is stored.
	Isolation Isolation
}

// Change is a change of a host, a config or an image, or of several.
type Change struct {
	// Host and OldHost are a host after and before the change; nil where it is gone or new.
	Host, OldHost *Host
	// Config and OldConfig are a config after and before, Image and OldImage an image.
	Config, OldConfig *Config
	Image, OldImage   *Image
	// All is true where the config of any host may have changed.
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
		byRef table[Namespace]
	}
	grants    grants
	islands   islands
	followers []func(old, now *Config) // see FollowConfigs
	// isolation is that of Options.
	isolation Isolation
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
	inv.state.Store(newState(opts.Isolation))
	return inv
}

// newState returns an empty state.
func newState(isolation Isolation) *state {
	return &state{isolation: isolation, islands: islands{isolation: isolation}}
}

// BucketStats is the state of one bucket in the inventory.
type BucketStats struct {
	// Loaded is true once the bucket has been read.
	Loaded bool
	// Objects is the number of objects, and Bad that of stored values that cannot be read.
	Objects, Bad int
	// Revision is the last one that was observed, and At the time of that.
	Revision uint64
	At       time.Time
}

// Stats are counts for metrics. The lag of the index is the last revision of the store less
// Revision.
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
		Hosts:       s.hosts.report(s.hosts.byRef.len()),
		Configs:     s.configs.report(s.configs.byRef.len()),
		Images:      s.images.report(s.images.byRef.len()),
		Conflicting: len(s.hosts.conflicting()),
	}
}

// View returns the inventory as it is now.
func (inv *Inventory) View() View { return View{inv.state.Load()} }
