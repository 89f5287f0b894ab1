package model

import (
	"cmp"
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
)

// Rivals finds the hosts of other islands that have a fact of a host; none where the host is in no island.
type Rivals struct {
	state *state
	host  *Host
}

// Rivals returns the finder for a host.
func (v View) Rivals(h *Host) Rivals { return Rivals{v.state, h} }

// First returns a conflict of the host with a rival that has one of its addresses.
func (r Rivals) First() (Conflict, bool) {
	for shared, hosts := range r.state.hosts.addressSharers(r.host) {
		if other := r.first(hosts); other != nil {
			shared.With = other.Ref
			return shared, true
		}
	}
	return Conflict{}, false
}

// ByMAC returns a rival with a hardware address, nil: none; and so do the others.
func (r Rivals) ByMAC(m netaddr.MAC) *Host { return r.first(r.state.hosts.byMAC.Get(m)) }

// ByOtherMAC finds by a hardware address that is none of Ethernet.
func (r Rivals) ByOtherMAC(m string) *Host { return r.first(r.state.hosts.byOtherMAC.Get(m)) }

// ByIP finds by an address.
func (r Rivals) ByIP(a netip.Addr) *Host { return r.first(r.state.hosts.byIP.Get(a)) }

// ByUUID finds by a system UUID.
func (r Rivals) ByUUID(uuid string) *Host {
	return r.first(r.state.hosts.byUUID.Get(netaddr.KeyOfUUID(uuid)))
}

// ByHostname finds by a name; see HostByHostname.
func (r Rivals) ByHostname(name string) *Host {
	equal, similar := r.state.hosts.named(name)
	return cmp.Or(r.first(equal), r.first(similar))
}

// first returns the first rival of a list.
func (r Rivals) first(hosts []*Host) *Host {
	if len(hosts) == 0 || !r.state.isIsland(r.host.Namespace) {
		return nil
	}
	i := slices.IndexFunc(hosts, func(o *Host) bool {
		return o.Namespace != r.host.Namespace && r.state.isIsland(o.Namespace)
	})
	if i < 0 {
		return nil
	}
	return hosts[i]
}
