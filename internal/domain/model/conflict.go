package model

import (
	"fmt"
	"iter"
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
	for shared, sharers := range x.sharers(h) {
		most := len(all) + maxOthers
		for _, other := range sharers {
			if len(all) == most {
				break
			}
			if other.Ref != h.Ref {
				shared.With = other.Ref
				all = append(all, shared)
			}
		}
	}
	return all
}

// sharers returns what a host, which need not be in the index, can share with others, its addresses and then its UUID,
// each as a conflict with nobody and with the hosts that have it.
func (x *hostIndex) sharers(h *Host) iter.Seq2[Conflict, []*Host] {
	return func(yield func(Conflict, []*Host) bool) {
		for shared, sharers := range x.addressSharers(h) {
			if !yield(shared, sharers) {
				return
			}
		}
		if h.UUID != "" {
			yield(Conflict{UUID: h.UUID}, x.byUUID.Get(netaddr.KeyOfUUID(h.UUID)))
		}
	}
}

// addressSharers is sharers for the addresses alone.
func (x *hostIndex) addressSharers(h *Host) iter.Seq2[Conflict, []*Host] {
	return func(yield func(Conflict, []*Host) bool) {
		for _, m := range h.MACs {
			if !yield(Conflict{MAC: m}, x.byMAC.Get(m)) {
				return
			}
		}
		for _, m := range h.OtherMACs() {
			if !yield(Conflict{OtherMAC: m}, x.byOtherMAC.Get(m)) {
				return
			}
		}
		for _, a := range h.IPs {
			if !yield(Conflict{IP: a}, x.byIP.Get(a)) {
				return
			}
		}
	}
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
