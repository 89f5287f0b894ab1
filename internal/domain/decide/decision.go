// Package decide decides about the requests of machines. The sender of a request and its
// claims identify a host, the host has a config and an image, the config an artifact.
// Serving, explaining and planning all call it. It uses no clock, network or disk.
package decide

import (
	"net/netip"
	"time"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// Identity is the machine that sent a request.
type Identity struct {
	// Host is the machine; nil where none is known.
	Host *model.Host
	// FoundBy is the fact that identifies the host: mac, ip, uuid, hostname (claims),
	// address or neighbor; "" where there is none.
	FoundBy string
	// Notices become events.
	Notices []Notice
	// Unheld are the claims that do not hold.
	Unheld Unheld
	// Unknown is true for a machine that is no known host. Addr and Neighbor are then its
	// address, or the believed one, and its entry in the neighbour table.
	Unknown  bool
	Addr     netip.Addr
	Neighbor netaddr.MAC
}

// ConfigDecision is the config that a machine receives.
type ConfigDecision struct {
	Identity
	// Config is the config to serve. It may be set beside Err, where a config
	// matched and cannot be served.
	Config *model.Config
	// Template is true where a template was chosen. Config is then its rendering
	// for the machine, or the template itself where that fails.
	Template bool
	// Form is Config in the Ignition version of the answer; nil: it is not converted.
	Form *Form
	// Tier is the rule that chose Config.
	Tier match.Tier
	// Limits are those for the config of Host. Limited is true where Err is that they refuse it.
	Limits  model.Limits
	Limited bool
	// Err is the reason why there is nothing to serve; nil where there is.
	Err *fault.Error
}

// Trace is how a decision was made.
type Trace struct {
	// Query has the facts that configs were matched with.
	Query match.Query
	// Types are the types of config that were considered, in order.
	Types []string
	// View has the configs at the time of the decision.
	View model.View
}

// considered records that configs of a type were considered. A nil Trace records nothing.
func (t *Trace) considered(typ string) {
	if t != nil {
		t.Types = append(t.Types, typ)
	}
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
	// ReasonScriptUnavailable is for a boot script that is not known or cannot be made.
	ReasonScriptUnavailable = "ScriptUnavailable"
	ReasonNoConfig          = "NoConfig"
	ReasonClaimsLimited     = "ClaimsLimited"
	ReasonImagesLimited     = "ImagesLimited"
	// ReasonWindowClosed is for a request for a config outside the limits of its host, and
	// ReasonSecondClient for one from a second address within them.
	ReasonWindowClosed = "WindowClosed"
	ReasonSecondClient = "SecondClient"
	// ReasonTokenRefused is for a request without the token of the boot.
	ReasonTokenRefused = "TokenRefused"
	// ReasonPlainHTTP is for a request over plain HTTP for a config that is served over HTTPS alone.
	ReasonPlainHTTP = "PlainHTTPRefused"
)

// Reasons has the reason of each notice.
var Reasons = []string{
	ReasonUnknownHost, ReasonClaimRefused, ReasonClaimIgnored, ReasonNeighborMismatch, ReasonNeighborChanged,
	ReasonDuplicate, ReasonImageUnavailable, ReasonScriptUnavailable, ReasonNoConfig, ReasonClaimsLimited,
	ReasonImagesLimited, ReasonWindowClosed, ReasonSecondClient, ReasonTokenRefused,
	ReasonPlainHTTP,
}

// Notice is an event on Host, or, where Host is nil, on the UnknownMachine with the name
// Machine; without both it is about no single object.
type Notice struct {
	Reason  string
	Host    *model.Host
	Machine string
	Message string
	// Key aggregates: notices with the same Reason, Host and Key are one event.
	Key string
	// From is the client that caused it; zero: there is none.
	From netaddr.Source
}

// IsAlarm reports whether the notice says that a machine may have received the config of
// another one. Such a notice is never left out.
func (n *Notice) IsAlarm() bool {
	return n.Reason == ReasonNeighborMismatch || n.Reason == ReasonNeighborChanged || n.Reason == ReasonSecondClient
}

// IsOfOneRequest reports whether an event with a reason says that a request was refused, and nothing that lasts.
func IsOfOneRequest(reason string) bool {
	switch reason {
	case ReasonClaimRefused, ReasonClaimsLimited, ReasonImagesLimited, ReasonNoConfig, ReasonWindowClosed,
		ReasonTokenRefused, ReasonPlainHTTP:
		return true
	}
	return false
}

// Limit names the clients for which nothing is looked up, after too many guesses.
type Limit uint8

// The limits. After guesses from a network its unknown machines are limited, and its hosts
// are not.
const (
	Unlimited Limit = iota
	StrangersLimited
	AllLimited
)

// Types of a Request that is not for a config: IPXE is for a script or an image, with Complete the
// machine reports that it is provisioned, and with Hardware what it consists of.
const (
	IPXE     = "ipxe"
	Complete = "boot-complete"
	Hardware = "hardware"
)

// Request is the request of one machine.
type Request struct {
	// Type is the endpoint: "ignition", "kickstart", "ipxe", "boot-complete" or "hardware".
	Type string
	// At is the time of the request; zero: the provisioning window of the host does not count.
	At     time.Time
	Caller identity.Caller
	Claims identity.Claims
	// Cards are the hardware addresses of the machine's cards, of which it claims each. The claims have the first,
	// until the decision takes the one that identifies a host.
	Cards []identity.Card
	// Accept is the Accept header as it was sent; "" where there is none.
	Accept string
	// UserAgent is the User-Agent header. Some clients read other Ignition versions than
	// their Accept header names, and are recognised by it.
	UserAgent string
	// ClaimLimit and ImageLimit are the limits for looking up claims and images.
	ClaimLimit, ImageLimit Limit
	// Reveal is true for a request whose answer the machine reads: it has the values of Secrets.
	Reveal bool
	// Pointer is true where the answer refers to the config, and has nothing of it: that is neither rendered nor
	// converted, so that no error is about its content.
	Pointer bool
	// Again is true where the machine says that it has asked for its script before in this boot.
	Again bool
	// Explains is true where the request is that of an explanation, whose sender does not know the token
	// of the boot: the machine is taken to have it as far as its script has it.
	Explains bool
	// Gone is closed when the client has gone away; nil: never. Requests wait only for
	// the rendering of a template.
	Gone <-chan struct{}
	// Last is true where a client of the API asks: the rendering waits for those of machines.
	Last bool
}
