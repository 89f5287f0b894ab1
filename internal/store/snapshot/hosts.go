package snapshot

import (
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

// hostIndex finds hosts by what identifies them.
type hostIndex struct {
	byRef  shardmap.Map[Ref, *Host]
	byMAC  table[netaddr.MAC, *Host]
	byIP   table[netip.Addr, *Host]
	byUUID table[string, *Host]
	// names holds host names as they are; stems those with a dot by their first
	// label.
	names, stems table[string, *Host]
}

// indexHosts makes an index of hosts, which it sorts.
func indexHosts(hosts []*Host) *hostIndex {
	slices.SortFunc(hosts, (*Host).compare)
	n := len(hosts)
	x := &hostIndex{
		byRef: shardmap.Sized[Ref, *Host](n), byMAC: sized[netaddr.MAC](n), byIP: sized[netip.Addr](n),
		byUUID: sized[string](n), names: sized[string](n),
	}
	for _, h := range hosts {
		x.byRef.Add(h.Ref, h)
		x.edit(adding, h)
	}
	return x
}

// edit has each key of a host edited.
func (x *hostIndex) edit(e edit, h *Host) {
	for _, m := range h.MACs {
		x.byMAC.edit(e, m, h)
	}
	for _, a := range h.IPs {
		x.byIP.edit(e, a, h)
	}
	if h.UUID != "" {
		x.byUUID.edit(e, h.UUID, h)
	}
	for _, n := range h.Hostnames {
		x.names.edit(e, n, h)
		if stem := netaddr.FirstLabel(n); stem != n {
			x.stems.edit(e, stem, h)
		}
	}
}

// with returns the index with a host in the place of old; either may be nil.
func (x *hostIndex) with(old, h *Host) *hostIndex {
	next := *x
	if old != nil && (h == nil || !h.sameKeys(old)) {
		next.edit(removing, old)
	}
	if h != nil {
		next.byRef = next.byRef.With(h.Ref, h)
		next.edit(inserting, h)
	} else {
		next.byRef = next.byRef.Without(old.Ref)
	}
	return &next
}

// sameKeys reports whether a host is found as another is, and wins where that wins.
func (h *Host) sameKeys(o *Host) bool {
	return h.sameAddresses(o) && h.UUID == o.UUID && slices.Equal(h.Hostnames, o.Hostnames)
}

// sameAddresses reports whether a host has the conflicts that another has.
func (h *Host) sameAddresses(o *Host) bool {
	return h.Created.Equal(o.Created) && slices.Equal(h.MACs, o.MACs) && slices.Equal(h.IPs, o.IPs)
}

// byHostname finds a host by name: equal, or one of the two has no dot and
// equals the other's first label. Of several the one that wins is returned.
func (x *hostIndex) byHostname(name string) *Host {
	best := x.names.first.Get(name)
	var other *Host
	if stem := netaddr.FirstLabel(name); stem != name {
		other = x.names.first.Get(stem)
	} else {
		other = x.stems.first.Get(name)
	}
	if best == nil || other != nil && other.compare(best) < 0 {
		return other
	}
	return best
}

// putHost puts a host, or nothing where h is nil, in the place of what has that
// name. It returns what is to be done once the state is published.
func (inv *Inventory) putHost(next *state, ref Ref, h *Host) func() {
	x := next.hosts
	old := x.byRef.Get(ref)
	if old == nil && h == nil {
		return nil
	}
	next.hosts = x.with(old, h)
	told := inv.changed(Change{Host: h, OldHost: old})
	// Most updates are of the status, which leaves conflicts as they are.
	if old != nil && h != nil && h.sameAddresses(old) {
		return told
	}
	return both(inv.report(next.hosts.changesSince(x.conflictsAround(old, h))), told)
}
