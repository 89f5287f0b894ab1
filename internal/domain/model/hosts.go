package model

import (
	"net/netip"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

// hostIndex finds hosts by what identifies them. Hosts with an address or name in common
// are listed in the order in which they win it.
type hostIndex struct {
	byRef table[Host]
	byMAC shardmap.Map[netaddr.MAC, []*Host]
	// byOtherMAC has the addresses that are none of Ethernet.
	byOtherMAC shardmap.Map[string, []*Host]
	byIP       shardmap.Map[netip.Addr, []*Host]
	byUUID     shardmap.Map[netaddr.UUIDKey, []*Host]
	// names has host names as they are, and stems those with a dot by their first label.
	names, stems shardmap.Map[string, []*Host]
}

// put puts a host, which may be nil, in place of the one with that name.
func (x *hostIndex) put(edit *shardmap.Edit, ref Ref, h *Host) {
	old := x.byRef.get(ref)
	if old != nil && (h == nil || !h.sameKeys(old)) {
		x.setKeys(edit, old, false)
	}
	x.byRef.put(edit, ref, h)
	if h != nil {
		x.setKeys(edit, h, true)
	}
}

// setKeys lists a host under all that identifies it, or removes it there.
func (x *hostIndex) setKeys(edit *shardmap.Edit, h *Host, isListed bool) {
	for _, m := range h.MACs {
		shardmap.SetListed(edit, &x.byMAC, m, h, isListed, (*Host).compare)
	}
	for _, m := range h.OtherMACs() {
		shardmap.SetListed(edit, &x.byOtherMAC, m, h, isListed, (*Host).compare)
	}
	for _, a := range h.IPs {
		shardmap.SetListed(edit, &x.byIP, a, h, isListed, (*Host).compare)
	}
	if h.UUID != "" {
		shardmap.SetListed(edit, &x.byUUID, netaddr.KeyOfUUID(h.UUID), h, isListed, (*Host).compare)
	}
	for _, n := range h.Hostnames {
		shardmap.SetListed(edit, &x.names, n, h, isListed, (*Host).compare)
		if stem := netaddr.FirstLabel(n); stem != n {
			shardmap.SetListed(edit, &x.stems, stem, h, isListed, (*Host).compare)
		}
	}
}

// named returns the hosts with a name, and those with a similar one: one of the two names has no dot, and it is the
// first label of the other.
func (x *hostIndex) named(name string) (equal, similar []*Host) {
	similar = x.stems.Get(name)
	if stem := netaddr.FirstLabel(name); stem != name {
		similar = x.names.Get(stem)
	}
	return x.names.Get(name), similar
}

// firstOf returns the first object of a list, or nil.
func firstOf[T any](list []*T) *T {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}
