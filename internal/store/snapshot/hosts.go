package snapshot

import (
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
	"glowplug/internal/domain/template"
)

// hostIndex finds hosts by what identifies them. Hosts with an address or name in common
// are listed in the order in which they win it.
type hostIndex struct {
	bucket
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

// firstOf returns the first object of a list, or nil.
func firstOf[T any](list []*T) *T {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// sameKeys reports whether a host is found under the same keys as another, and wins
// against the same hosts.
func (h *Host) sameKeys(o *Host) bool {
	return h.sameIdentity(o) && slices.Equal(h.Hostnames, o.Hostnames)
}

// sameIdentity reports whether a host has the same conflicts as another.
func (h *Host) sameIdentity(o *Host) bool {
	return h.Created.Equal(o.Created) && h.SameMACs(o) && slices.Equal(h.IPs, o.IPs) && h.UUID == o.UUID
}

// SameMACs reports whether a host has the same hardware addresses as another.
func (h *Host) SameMACs(o *Host) bool {
	return slices.Equal(h.MACs, o.MACs) && slices.Equal(h.OtherMACs(), o.OtherMACs())
}

// OtherMACs returns the hardware addresses that are none of Ethernet, which few hosts have.
func (h *Host) OtherMACs() []string {
	if h.More == nil {
		return nil
	}
	return h.More.OtherMACs
}

// HasMACs reports whether any hardware address of a host is known.
func (h *Host) HasMACs() bool { return len(h.MACs) > 0 || len(h.OtherMACs()) > 0 }

// HasUUID reports whether a host has a system UUID, in either order of its bytes.
func (h *Host) HasUUID(uuid string) bool {
	return h.UUID != "" && netaddr.KeyOfUUID(h.UUID) == netaddr.KeyOfUUID(uuid)
}

// Facts returns what templates know of the host.
func (h *Host) Facts() *template.Facts {
	f := &template.Facts{Namespace: h.Namespace, Name: h.Name, Labels: h.Labels}
	if len(h.Hostnames) > 0 {
		f.Hostname = h.Hostnames[0]
	}
	if len(h.IPs) > 0 {
		f.IP = h.IPs[0].String()
	}
	if len(h.MACs) > 0 {
		f.MAC = h.MACs[0].String()
	}
	if h.More != nil {
		f.Annotations, f.NICs = h.More.Annotations, h.More.NICs
	}
	return f
}
