// Package identity has the sender of a request and the claims in it, and parses claims.
package identity

import (
	"net/netip"

	"glowplug/internal/domain/netaddr"
)

// Caller is the sender of a request, as far as the network shows it.
type Caller struct {
	// Addr is the client: the peer, or behind trusted proxies the right-most
	// untrusted X-Forwarded-For entry. IPv4-mapped IPv6 is IPv4; there is no
	// zone. The zero Addr, which no host has, is a client that the proxies do not name.
	Addr netip.Addr
	// MAC is the client's entry in the neighbour table, or the one that it had when
	// its connection was accepted; zero where it has none, is not on-link, or came
	// through a proxy.
	MAC netaddr.MAC
	// Former is the hardware address that the client's entry had before MAC, where
	// it changed within ChangeWindow or since the connection was accepted; zero
	// where it did not.
	Former netaddr.MAC
	// Proxied is true where the peer is a trusted proxy.
	Proxied bool
	// ForgedForward is true where a peer that is no trusted proxy sent an
	// X-Forwarded-For, which was ignored.
	ForgedForward bool
	// Believed is true for a caller of the admin listener and an authenticated one:
	// all their claims are believed.
	Believed bool
}

// Claims are the claims in the query of a request. Zero values are absent.
type Claims struct {
	MAC      netaddr.MAC
	IP       netip.Addr
	UUID     string // lower case
	Hostname string // lower case, no trailing dot
	Role     string
	// Raw is format=raw: the newest source instead of the artifact.
	Raw bool
	// Spec is the requested Ignition spec version, such as "3.2.0".
	Spec string
}

// Mode is the treatment of claims (--identity-claims).
type Mode uint8

// The modes.
const (
	Verify Mode = iota
	Trust
	Deny
)

// NeighborMode is the use of the neighbour table (--neighbors).
type NeighborMode uint8

// The modes: Auto finds hosts and reports contradictions and changes, Enforce refuses
// them, NeighborsOff does not use the table.
const (
	NeighborsAuto NeighborMode = iota
	NeighborsEnforce
	NeighborsOff
)
