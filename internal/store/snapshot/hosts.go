package snapshot

import (
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
)

// hostIndex finds hosts by what identifies them.
type hostIndex struct {
	byRef  map[Ref]*Host
	byMAC  table[netaddr.MAC]
	byIP   table[netip.Addr]
	byUUID table[string]
	// names holds host names as they are; stems those with a dot by their first
	// label.
	names, stems table[string]
}

func newHostIndex(size int) *hostIndex {
	return &hostIndex{
		byRef: make(map[Ref]*Host, size),
		byMAC: newTable[netaddr.MAC](size), byIP: newTable[netip.Addr](size), byUUID: newTable[string](size),
		names: newTable[string](size), stems: newTable[string](0),
	}
}

// load fills an empty index. It sorts hosts.
func (x *hostIndex) load(hosts []*Host) {
	// In the order in which they win, every insertion into a shared key is an append.
	slices.SortFunc(hosts, (*Host).compare)
	for _, h := range hosts {
		x.insert(h)
	}
}

func (x *hostIndex) insert(h *Host) {
	x.byRef[h.Ref] = h
	for _, m := range h.MACs {
		x.byMAC.insert(m, h)
	}
	for _, a := range h.IPs {
		x.byIP.insert(a, h)
	}
	if h.UUID != "" {
		x.byUUID.insert(h.UUID, h)
	}
	for _, n := range h.Hostnames {
		x.names.insert(n, h)
		if stem := netaddr.FirstLabel(n); stem != n {
			x.stems.insert(stem, h)
		}
	}
}

func (x *hostIndex) remove(h *Host) {
	delete(x.byRef, h.Ref)
	for _, m := range h.MACs {
		x.byMAC.remove(m, h)
	}
	for _, a := range h.IPs {
		x.byIP.remove(a, h)
	}
	if h.UUID != "" {
		x.byUUID.remove(h.UUID, h)
	}
	for _, n := range h.Hostnames {
		x.names.remove(n, h)
		x.stems.remove(netaddr.FirstLabel(n), h)
	}
}

// byHostname finds a host by name: equal, or one of the two has no dot and
// equals the other's first label. The one that wins is given.
func (x *hostIndex) byHostname(name string) *Host {
	best := x.names.first[name]
	var other *Host
	if stem := netaddr.FirstLabel(name); stem != name {
		other = x.names.first[stem]
	} else {
		other = x.stems.first[name]
	}
	if best == nil || other != nil && other.compare(best) < 0 {
		return other
	}
	return best
}

// putHost puts a host, or nothing where h is nil, in the place of what has that
// name. The lock is held; it gives what is to be done after it.
func (inv *Inventory) putHost(ref Ref, h *Host) func() {
	x := inv.hosts
	old := x.byRef[ref]
	if old == nil && h == nil {
		return nil
	}
	// Most updates are of the status, which leaves conflicts as they are.
	unchanged := old != nil && h != nil && old.Created.Equal(h.Created) &&
		slices.Equal(old.MACs, h.MACs) && slices.Equal(old.IPs, h.IPs)
	var before map[Ref][]Conflict
	if !unchanged {
		before = x.conflictsAround(old, h)
	}
	if old != nil {
		x.remove(old)
	}
	if h != nil {
		x.insert(h)
	}
	told := inv.changed(Change{Host: h, OldHost: old})
	if len(before) == 0 {
		return told
	}
	return both(inv.report(x.changesSince(before)), told)
}
