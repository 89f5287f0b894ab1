package decide

import (
	"slices"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// The facts that identify a host. The first four are claims.
const (
	byMAC      = "mac"
	byIP       = "ip"
	byUUID     = "uuid"
	byHostname = "hostname"
	byAddress  = "address"
	byNeighbor = "neighbor"
)

// claim is a kind of claim that identifies a host.
type claim struct {
	kind string
	// present reports whether a request has the claim; text returns its value.
	present func(c *identity.Claims) bool
	text    func(c *identity.Claims) string
	// host returns the host with the claimed value; nil: there is none. holds reports
	// whether a host has it, since several may.
	host  func(view model.View, c *identity.Claims) *model.Host
	holds func(h *model.Host, c *identity.Claims) bool
	// rival returns the host of another island than a host's with the claimed value; nil: there is none.
	rival func(of model.Rivals, c *identity.Claims) *model.Host
}

// claims are the kinds in the order in which they are tried.
var claims = [...]*claim{claimedMAC, claimedOtherMAC, {
	kind:    byIP,
	present: func(c *identity.Claims) bool { return c.IP.IsValid() },
	text:    func(c *identity.Claims) string { return c.IP.String() },
	host:    func(view model.View, c *identity.Claims) *model.Host { return view.HostByIP(c.IP) },
	holds:   func(h *model.Host, c *identity.Claims) bool { return slices.Contains(h.IPs, c.IP) },
	rival:   func(r model.Rivals, c *identity.Claims) *model.Host { return r.ByIP(c.IP) },
}, {
	kind:    byUUID,
	present: func(c *identity.Claims) bool { return c.UUID != "" },
	text:    func(c *identity.Claims) string { return c.UUID },
	host:    hostByUUID,
	holds:   func(h *model.Host, c *identity.Claims) bool { return h.HasUUID(c.UUID) },
	rival:   func(r model.Rivals, c *identity.Claims) *model.Host { return r.ByUUID(c.UUID) },
}, {
	kind:    byHostname,
	present: func(c *identity.Claims) bool { return c.Hostname != "" },
	text:    func(c *identity.Claims) string { return c.Hostname },
	host:    func(view model.View, c *identity.Claims) *model.Host { return view.HostByHostname(c.Hostname) },
	holds: func(h *model.Host, c *identity.Claims) bool {
		return slices.ContainsFunc(h.Hostnames, func(name string) bool { return match.SameHost(name, c.Hostname) })
	},
	rival: func(r model.Rivals, c *identity.Claims) *model.Host { return r.ByHostname(c.Hostname) },
}}

var claimedMAC = &claim{
	kind:    byMAC,
	present: func(c *identity.Claims) bool { return c.MAC != zeroMAC },
	text:    func(c *identity.Claims) string { return c.MAC.String() },
	host:    func(view model.View, c *identity.Claims) *model.Host { return view.HostByMAC(c.MAC) },
	holds:   func(h *model.Host, c *identity.Claims) bool { return slices.Contains(h.MACs, c.MAC) },
	rival:   func(r model.Rivals, c *identity.Claims) *model.Host { return r.ByMAC(c.MAC) },
}

// claimedOtherMAC is the claim of a hardware address that is none of Ethernet.
var claimedOtherMAC = &claim{
	kind:    byMAC,
	present: func(c *identity.Claims) bool { return c.OtherMAC != "" },
	text:    func(c *identity.Claims) string { return c.OtherMAC },
	host:    func(view model.View, c *identity.Claims) *model.Host { return view.HostByOtherMAC(c.OtherMAC) },
	holds:   func(h *model.Host, c *identity.Claims) bool { return slices.Contains(h.OtherMACs(), c.OtherMAC) },
	rival:   func(r model.Rivals, c *identity.Claims) *model.Host { return r.ByOtherMAC(c.OtherMAC) },
}

// ClaimedHost returns the host that claims name; nil: they name none.
func ClaimedHost(view model.View, c *identity.Claims) *model.Host {
	for _, claim := range claims {
		if claim.present(c) {
			if h := claim.host(view, c); h != nil {
				return h
			}
		}
	}
	return nil
}

// hostByUUID returns the host with the claimed UUID, unless the claimed MAC is that of another machine: boards
// of one model may share a UUID.
func hostByUUID(view model.View, c *identity.Claims) *model.Host {
	h := view.HostByUUID(c.UUID)
	if h != nil && c.MAC != zeroMAC && len(h.MACs) > 0 && !slices.Contains(h.MACs, c.MAC) {
		return nil
	}
	return h
}

// claimOfCard returns the kind of a claim of one card.
func claimOfCard(c *identity.Claims) *claim {
	if c.OtherMAC != "" {
		return claimedOtherMAC
	}
	return claimedMAC
}
