package model

import (
	"fmt"
	"net/netip"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

// maxOthers bounds how many other hosts are named for one shared address: a
// thousand cards with the same factory address must not make a million pairs.
const maxOthers = 8

// Conflict is a hardware address, IP address or UUID that a host shares with another.
type Conflict struct {
	// With is the other host.
	With Ref
	// MAC, OtherMAC, IP or UUID is what they share; the others are zero.
	MAC      netaddr.MAC
	OtherMAC string
	IP       netip.Addr
	UUID     string
}

// Shared returns what the hosts share, such as "MAC 02:00:00:00:00:01".
func (c Conflict) Shared() string {
	switch {
	case c.IP.IsValid():
		return "IP " + c.IP.String()
	case c.UUID != "":
		return "UUID " + c.UUID
	case c.OtherMAC != "":
		return "MAC " + c.OtherMAC
	}
	return "MAC " + c.MAC.String()
}

// String returns a sentence without its subject and full stop.
func (c Conflict) String() string {
	return fmt.Sprintf("shares %s with BareMetalHost %s", c.Shared(), c.With)
}

// conflicts returns the conflicts of a host, which need not be in the index.
func (x *hostIndex) conflicts(h *Host) []Conflict {
	var all []Conflict
	add := func(sharers []*Host, c Conflict) {
		most := len(all) + maxOthers
		for _, other := range sharers {
			if len(all) == most {
				return
			}
			if other.Ref != h.Ref {
				c.With = other.Ref
				all = append(all, c)
			}
		}
	}
	for _, m := range h.MACs {
		add(x.byMAC.Get(m), Conflict{MAC: m})
	}
	for _, m := range h.OtherMACs() {
		add(x.byOtherMAC.Get(m), Conflict{OtherMAC: m})
	}
	for _, a := range h.IPs {
		add(x.byIP.Get(a), Conflict{IP: a})
	}
	if h.UUID != "" {
		add(x.byUUID.Get(netaddr.KeyOfUUID(h.UUID)), Conflict{UUID: h.UUID})
	}
	return all
}

func addShared[K comparable](refs map[Ref]bool, hosts *shardmap.Map[K, []*Host]) {
	for _, sharers := range hosts.All() {
		if len(sharers) > 1 {
			addRefs(refs, sharers)
		}
	}
}

func addRefs(refs map[Ref]bool, hosts []*Host) {
	for _, h := range hosts {
		refs[h.Ref] = true
	}
}
