package model

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/template"
)

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
	// InstallDevice is the disk that it installs on by its own hints; "": they name none.
	InstallDevice string
	// PXE is how its firmware is answered.
	PXE v1.HostPXE
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
	BootProgressing
)

// conditionNames has the name of each in a status.
var conditionNames = map[string]Conditions{
	v1.ConditionConfigMatched: ConfigMatched, v1.ConditionImageReady: ImageReady,
	v1.ConditionConfigReadable: ConfigReadable, v1.ConditionDataPreserved: DataPreserved,
	v1.ConditionBootProgressing: BootProgressing,
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
	// Position is that of the newest record that is included of the boot log, which former releases kept.
	Position uint64
}

// compare is the order in which hosts win what they share: the older, then
// namespace and name.
func (h *Host) compare(o *Host) int {
	return cmp.Or(h.Created.Compare(o.Created), h.Ref.Compare(o.Ref))
}

// sameKeys reports whether a host is found under the same keys as another, and wins
// against the same hosts.
func (h *Host) sameKeys(o *Host) bool {
	return h.SameIdentity(o) && slices.Equal(h.Hostnames, o.Hostnames)
}

// SameIdentity reports whether a host has the same conflicts as another.
func (h *Host) SameIdentity(o *Host) bool {
	return h.Created.Equal(o.Created) && h.SameMACs(o) && slices.Equal(h.IPs, o.IPs) && h.UUID == o.UUID
}

// SameMACs reports whether a host has the same hardware addresses as another.
func (h *Host) SameMACs(o *Host) bool {
	return slices.Equal(h.MACs, o.MACs) && slices.Equal(h.OtherMACs(), o.OtherMACs())
}

// OtherMACs returns the hardware addresses that are none of Ethernet, which few hosts have.
func (h *Host) OtherMACs() []string {
	if h.More == nil {
		return nil
	}
	return h.More.OtherMACs
}

// HasMACs reports whether any hardware address of a host is known.
func (h *Host) HasMACs() bool { return len(h.MACs) > 0 || len(h.OtherMACs()) > 0 }

// HasUUID reports whether a host has a system UUID, in either order of its bytes.
func (h *Host) HasUUID(uuid string) bool {
	return h.UUID != "" && netaddr.KeyOfUUID(h.UUID) == netaddr.KeyOfUUID(uuid)
}

// Facts returns what templates know of the host.
func (h *Host) Facts() *template.Facts {
	f := &template.Facts{Namespace: h.Namespace, Name: h.Name, Labels: h.Labels}
	if len(h.Hostnames) > 0 {
		f.Hostname = h.Hostnames[0]
	}
	if len(h.IPs) > 0 {
		f.IP = h.IPs[0].String()
	}
	if len(h.MACs) > 0 {
		f.MAC = h.MACs[0].String()
	}
	if h.More != nil {
		f.Annotations, f.NICs = h.More.Annotations, h.More.NICs
	}
	return f
}
