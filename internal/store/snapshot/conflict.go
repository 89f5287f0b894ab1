package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

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

// ConflictChange is a change of the conflicts of a host.
type ConflictChange struct {
	Host *Host
	// Conflicts are those that it has now: MACs, then addresses, then the UUID, each with the other hosts
	// in the order in which they win, at most a few of them. Empty: it has none any more.
	Conflicts []Conflict
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

// addSharers adds the hosts that have an address or the UUID of a host, which may be nil.
func (x *hostIndex) addSharers(sharers map[Ref]bool, h *Host) {
	if h == nil {
		return
	}
	for _, m := range h.MACs {
		addRefs(sharers, x.byMAC.Get(m))
	}
	for _, m := range h.OtherMACs() {
		addRefs(sharers, x.byOtherMAC.Get(m))
	}
	for _, a := range h.IPs {
		addRefs(sharers, x.byIP.Get(a))
	}
	if h.UUID != "" {
		addRefs(sharers, x.byUUID.Get(netaddr.KeyOfUUID(h.UUID)))
	}
}

// conflicting returns the hosts that have a conflict.
func (x *hostIndex) conflicting() map[Ref]bool {
	refs := map[Ref]bool{}
	addShared(refs, &x.byMAC)
	addShared(refs, &x.byOtherMAC)
	addShared(refs, &x.byIP)
	addShared(refs, &x.byUUID)
	return refs
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

// reportConflicts calls OnConflict for the hosts whose conflicts have changed, in the order
// of their names. A host that is gone is not reported.
func (inv *Inventory) reportConflicts(before, after *state, around map[Ref]bool) {
	var changes []ConflictChange
	for ref := range around {
		h, old := after.hosts.byRef.get(ref), before.hosts.byRef.get(ref)
		if h == nil {
			continue
		}
		var was []Conflict
		if old != nil {
			was = before.hosts.conflicts(old)
		}
		if now := after.hosts.conflicts(h); !slices.Equal(now, was) {
			changes = append(changes, ConflictChange{Host: h, Conflicts: now})
		}
	}
	slices.SortFunc(changes, func(a, b ConflictChange) int { return a.Host.Ref.Compare(b.Host.Ref) })
	for _, change := range changes {
		inv.opts.OnConflict(change)
	}
}
