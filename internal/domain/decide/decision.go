package decide

import (
	"net/netip"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot"
)

// Identity is the machine that sent a request.
type Identity struct {
	// Host is the machine; nil where none is known.
	Host *snapshot.Host
	// FoundBy is the fact that identifies the host: mac, ip, uuid, hostname (claims),
	// address or neighbor; "" where there is none.
	FoundBy string
	// Notices become events.
	Notices []Notice
	// Unheld are the claims that do not hold.
	Unheld Unheld
}

// ConfigDecision is the config that a machine receives.
type ConfigDecision struct {
	Identity
	// Config is the config to serve. It may be set beside Err, where a config
	// matched and cannot be served.
	Config *snapshot.Config
	// Template is true where a template was chosen. Config is then its rendering
	// for the machine, or the template itself where that fails.
	Template bool
	// Form is Config in the Ignition version of the answer; nil: it is not converted.
	Form *Form
	// Tier is the rule that chose Config.
	Tier match.Tier
	// Err is the reason why there is nothing to serve; nil where there is.
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

// Notice is an event on Host, or, where Host is nil, in the namespace "default".
type Notice struct {
	Reason  string
	Host    *snapshot.Host
	Message string
	// Key aggregates: notices with the same Reason, Host and Key are one event.
	Key string
	// From is the client that caused it; zero: there is none.
	From Source
}

// IsAlarm reports whether the notice says that a machine may have received the config of
// another one. Such a notice is never left out.
func (n *Notice) IsAlarm() bool {
	return n.Reason == ReasonNeighborMismatch || n.Reason == ReasonNeighborChanged
}

// Source is a client for limits: its hardware address or, where that is unknown, its
// address or network.
type Source struct {
	MAC  netaddr.MAC
	Addr netip.Addr // see netaddr.Source
}

// sourceOf returns the source of a client.
func sourceOf(addr netip.Addr, mac netaddr.MAC) Source {
	if mac != zeroMAC {
		return Source{MAC: mac}
	}
	return Source{Addr: netaddr.Source(addr)}
}
