package decide

import (
	"net/netip"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot"
)

// Identity is what a decision found out about the machine that asks.
type Identity struct {
	// Host is the machine; nil where none is known.
	Host *snapshot.Host
	// FoundBy is what found the host: mac, ip, uuid, hostname (claims), address
	// or neighbor; "" where there is none.
	FoundBy string
	// Notices are what deserves an event.
	Notices []Notice
	// Unheld are the claims that do not hold.
	Unheld Unheld
}

// ConfigDecision is the config that a machine is given.
type ConfigDecision struct {
	Identity
	// Config is the config to serve. It may be set beside Err, where a config
	// matched and cannot be given.
	Config *snapshot.Config
	// Template is true where a template was chosen. Config is then its rendering
	// for the machine, or the template itself where that fails.
	Template bool
	// Form is Config in the spec version that the client is given; nil: as it is.
	Form *Form
	// Tier is the rule that chose Config.
	Tier match.Tier
	// Err says why there is nothing to serve; nil where there is.
	Err *fault.Error
}

// Reasons of notices, which are the reasons of the events made of them.
const (
	ReasonUnknownHost      = "UnknownHost"
	ReasonClaimRefused     = "ClaimRefused"
	ReasonClaimIgnored     = "ClaimIgnored"
	ReasonNeighborMismatch = "NeighborMismatch"
	ReasonNeighborChanged  = "NeighborChanged"
	ReasonDuplicate        = "DuplicateIdentity"
	ReasonImageUnavailable = "ImageUnavailable"
	ReasonClaimsLimited    = "ClaimsLimited"
	ReasonImagesLimited    = "ImagesLimited"
)

// Notice is something that deserves an event on Host, or, where Host is nil, in
// the namespace "default".
type Notice struct {
	Reason  string
	Host    *snapshot.Host
	Message string
	// Key aggregates: notices with the same Reason, Host and Key are one event.
	Key string
	// From is the client that caused it; zero: none did.
	From Source
}

// IsAlarm reports whether the notice says that one machine may have been given what
// is another's. Such a one is never left out.
func (n *Notice) IsAlarm() bool {
	return n.Reason == ReasonNeighborMismatch || n.Reason == ReasonNeighborChanged
}

// Source is a client as limits see it: by its hardware address or, where that is not
// known, by what its address counts as.
type Source struct {
	MAC  netaddr.MAC
	Addr netip.Addr // see netaddr.Source
}

// sourceOf is the source of a client.
func sourceOf(addr netip.Addr, mac netaddr.MAC) Source {
	if mac != zeroMAC {
		return Source{MAC: mac}
	}
	return Source{Addr: netaddr.Source(addr)}
}
