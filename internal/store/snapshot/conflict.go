package snapshot

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
)

// maxOthers bounds how many other hosts are named for one shared address: a
// thousand cards with the same factory address must not make a million pairs.
const maxOthers = 8

// Conflict is a hardware or IP address that a host shares with another.
type Conflict struct {
	// With is the other host.
	With Ref
	// MAC or IP is what they share; the other one is zero.
	MAC netaddr.MAC
	IP  netip.Addr
}

// Shared is what the hosts share, such as "MAC 02:00:00:00:00:01".
func (c Conflict) Shared() string {
	if c.IP.IsValid() {
		return "IP " + c.IP.String()
	}
	return "MAC " + c.MAC.String()
}

// String is a sentence without its subject and full stop.
func (c Conflict) String() string {
	return fmt.Sprintf("shares %s with BareMetalHost %s", c.Shared(), c.With)
}

// ConflictChange says that the conflicts of a host have changed.
type ConflictChange struct {
	Host *Host
	// Conflicts are those that it has now: MACs first, each with the other hosts
	// in the order in which they win, at most a few of them. Empty: none any more.
	Conflicts []Conflict
}

// ConflictsOf returns the conflicts that a host has, or would have if it were
// stored: with all hosts but the one of its own namespace and name. Addresses
// that cannot be read have none.
func (inv *Inventory) ConflictsOf(host *v1.BareMetalHost) []Conflict {
	ref := Ref{Namespace: host.Namespace, Name: host.Name}
	var h Host
	h.Ref = ref
	nics := append([]v1.NIC{{MAC: host.Spec.BootMACAddress, IP: host.Spec.IP}}, host.Spec.NICs...)
	for _, nic := range nics {
		if m, err := netaddr.ParseMAC(nic.MAC); err == nil {
			h.MACs = append(h.MACs, m)
		}
		if a, err := netaddr.ParseIP(nic.IP); err == nil {
			h.IPs = append(h.IPs, a)
		}
	}
	h.MACs, h.IPs = match.Unique(h.MACs), match.Unique(h.IPs)
	return inv.View().hosts.conflicts(&h)
}

// conflicts returns the conflicts of a host, which need not be in the index.
func (x *hostIndex) conflicts(h *Host) []Conflict {
	var out []Conflict
	for _, m := range h.MACs {
		out = conflictsAt(out, &x.byMAC, m, h, Conflict{MAC: m})
	}
	for _, a := range h.IPs {
		out = conflictsAt(out, &x.byIP, a, h, Conflict{IP: a})
	}
	return out
}

// conflictsAt appends the conflicts of a host over one key.
func conflictsAt[K comparable](out []Conflict, t *table[K, *Host], key K, h *Host, c Conflict) []Conflict {
	n := 0
	for _, other := range t.owners(key) {
		if other.Ref == h.Ref {
			continue
		}
		if n++; n > maxOthers {
			break
		}
		c.With = other.Ref
		out = append(out, c)
	}
	return out
}

// conflictsAround returns, by host, the conflicts of every host that has one of
// the addresses of old or new; nil where these two are the only ones. Either may
// be nil.
func (x *hostIndex) conflictsAround(old, new *Host) map[Ref][]Conflict {
	var around []*Host
	for _, h := range [...]*Host{old, new} {
		if h == nil {
			continue
		}
		for _, m := range h.MACs {
			around = append(around, x.byMAC.owners(m)...)
		}
		for _, a := range h.IPs {
			around = append(around, x.byIP.owners(a)...)
		}
	}
	var out map[Ref][]Conflict
	for _, h := range around {
		if h == old {
			continue
		}
		if out == nil {
			out = make(map[Ref][]Conflict)
		}
		if _, done := out[h.Ref]; !done {
			out[h.Ref] = x.conflicts(h)
		}
	}
	switch {
	case out == nil:
	case old != nil:
		out[old.Ref] = x.conflicts(old)
	case new != nil:
		out[new.Ref] = nil
	}
	return out
}

// changesSince returns the hosts whose conflicts are no longer what they were. A
// host that is gone has none to tell of.
func (x *hostIndex) changesSince(before map[Ref][]Conflict) []ConflictChange {
	var changes []ConflictChange
	for ref, was := range before {
		h := x.byRef.Get(ref)
		if h == nil {
			continue
		}
		if now := x.conflicts(h); !slices.Equal(now, was) {
			changes = append(changes, ConflictChange{Host: h, Conflicts: now})
		}
	}
	slices.SortFunc(changes, func(a, b ConflictChange) int { return a.Host.Ref.Compare(b.Host.Ref) })
	return changes
}

// conflicting returns the hosts that have a conflict.
func (x *hostIndex) conflicting() map[Ref]*Host {
	out := make(map[Ref]*Host)
	for _, list := range x.byMAC.shared.All() {
		for _, h := range list {
			out[h.Ref] = h
		}
	}
	for _, list := range x.byIP.shared.All() {
		for _, h := range list {
			out[h.Ref] = h
		}
	}
	return out
}

// changesOfLoad compares the conflicts before and after a load.
func changesOfLoad(old, now *hostIndex) []ConflictChange {
	before := make(map[Ref][]Conflict)
	for ref := range now.conflicting() {
		before[ref] = nil
	}
	for ref, h := range old.conflicting() {
		before[ref] = old.conflicts(h)
	}
	return now.changesSince(before)
}

// report returns the calls of OnConflict that are due; nil where there are none.
func (inv *Inventory) report(changes []ConflictChange) func() {
	if inv.opts.OnConflict == nil || len(changes) == 0 {
		return nil
	}
	return func() {
		for _, c := range changes {
			inv.opts.OnConflict(c)
		}
	}
}
