package model

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
)

// Host returns a host by its name; nil: none.
func (v View) Host(ref Ref) *Host { return v.state.hosts.byRef.get(ref) }

// Hosts returns all hosts, in no order.
func (v View) Hosts() []*Host {
	return slices.AppendSeq(make([]*Host, 0, v.state.hosts.byRef.len()), v.state.hosts.byRef.all())
}

// AllHosts is Hosts without a list.
func (v View) AllHosts() iter.Seq[*Host] { return v.state.hosts.byRef.all() }

// HostCount returns the number of hosts.
func (v View) HostCount() int { return v.state.hosts.byRef.len() }

// HostsByState counts the hosts by status.state. A host that has never booted is Available.
func HostsByState(v View) map[string]int {
	count := map[string]int{}
	for h := range v.state.hosts.byRef.all() {
		count[cmp.Or(h.Progress.State, v1.StateAvailable)]++
	}
	return count
}

// ConfigsByPhase counts the configs by status.phase.
func ConfigsByPhase(v View) map[string]int {
	count := map[string]int{}
	for c := range v.state.configs.byRef.all() {
		switch {
		case c.Failing:
			count[v1.PhaseError]++
		case c.Pending:
			count[v1.PhasePending]++
		default:
			count[v1.PhaseReady]++
		}
	}
	return count
}

// HostsNamed returns the hosts with a name, of all namespaces, in no order.
func (v View) HostsNamed(name string) []*Host {
	return v.state.hosts.byRef.filter(func(h *Host) bool { return h.Name == name })
}

// Templates returns all configs that are rendered for each machine, in no order.
func (v View) Templates() []*Config {
	return v.state.configs.byRef.filter(func(c *Config) bool { return c.Template })
}

// HostByMAC returns the host with a network card's address; nil: none. Where
// several have it the oldest is returned, as by the other lookups; one of a namespace
// that is no island goes first.
func (v View) HostByMAC(m netaddr.MAC) *Host { return v.first(v.state.hosts.byMAC.Get(m)) }

// HostByOtherMAC is HostByMAC for an address that is none of Ethernet.
func (v View) HostByOtherMAC(m string) *Host { return v.first(v.state.hosts.byOtherMAC.Get(m)) }

// HasOtherMACs reports whether any host has an address that is none of Ethernet.
func (v View) HasOtherMACs() bool { return v.state.hosts.byOtherMAC.Len() > 0 }

// HostByIP returns the host with an address; nil: none.
func (v View) HostByIP(a netip.Addr) *Host { return v.first(v.state.hosts.byIP.Get(a)) }

// HostByUUID returns the host with a system UUID, in either order of its bytes; nil: none.
func (v View) HostByUUID(uuid string) *Host {
	return v.first(v.state.hosts.byUUID.Get(netaddr.KeyOfUUID(uuid)))
}

// HostByHostname returns the host with a name in lower case: equal, or one of the
// two has no dot and equals the other's first label; nil: none.
func (v View) HostByHostname(name string) *Host {
	equal, similar := v.state.hosts.named(name)
	best, other := v.first(equal), v.first(similar)
	switch {
	case best == nil || other == nil:
		return cmp.Or(best, other)
	case v.state.isIsland(best.Namespace) != v.state.isIsland(other.Namespace):
		return v.first([]*Host{best, other})
	case other.compare(best) < 0:
		return other
	}
	return best
}

// Conflicts returns the conflicts that a host has, or would have if it were stored: with all hosts but the one of its
// own namespace and name.
func (v View) Conflicts(h *Host) []Conflict { return v.state.hosts.conflicts(h) }

// Sharing returns the hosts that have a hardware address, an IP address or the UUID of a host, which need not be
// stored and may be nil.
func (v View) Sharing(h *Host) map[Ref]bool {
	sharers := map[Ref]bool{}
	if h == nil {
		return sharers
	}
	for _, hosts := range v.state.hosts.sharers(h) {
		addRefs(sharers, hosts)
	}
	return sharers
}

// Conflicting returns the hosts that have a conflict.
func Conflicting(v View) map[Ref]bool {
	refs := map[Ref]bool{}
	addShared(refs, &v.state.hosts.byMAC)
	addShared(refs, &v.state.hosts.byOtherMAC)
	addShared(refs, &v.state.hosts.byIP)
	addShared(refs, &v.state.hosts.byUUID)
	return refs
}

// HostsOf returns the hosts that boot an image for which ok is true, in no order.
func (v View) HostsOf(ok func(image Ref) bool) []*Host {
	return v.state.hosts.byRef.filter(func(h *Host) bool { return h.Image != (Ref{}) && ok(h.Image) })
}

// Image returns an image; nil: none.
func (v View) Image(ref Ref) *Image { return v.state.images.byRef.get(ref) }

// Images returns all images of a namespace, or of all where it is "", the oldest
// first.
func (v View) Images(namespace string) []*Image {
	images := v.state.images.byRef.filter(func(i *Image) bool { return namespace == "" || namespace == i.Namespace })
	slices.SortFunc(images, (*Image).compare)
	return images
}

// ImageByIQN returns the image that this server offers under a name, in any case;
// nil: none. Where several are, the oldest is returned.
func (v View) ImageByIQN(iqn string) *Image {
	return firstOf(v.state.images.byIQN.Get(strings.ToLower(iqn)))
}

// Script returns the script that replaces the usual one of a host, its own or that of its namespace, a template; "":
// none.
func (v View) Script(h *Host) string {
	return cmp.Or(h.Booting().IPXE, v.namespace(h.Namespace).IPXE)
}

// RejectsBroken reports whether a namespace refuses configs whose source does not compile.
func (v View) RejectsBroken(namespace string) bool { return v.namespace(namespace).RejectsBroken }

// Config returns a config; nil: none.
func (v View) Config(ref Ref) *Config { return v.state.configs.byRef.get(ref) }

// Pick returns the config for a machine and the tier that chose it; nil and
// match.None where nothing matches.
func (v View) Pick(q *match.Query) (*Config, match.Tier) {
	r, tier := v.state.configs.rules.Pick(q)
	if r == nil {
		return nil, match.None
	}
	return r.Config.(*Config), tier
}

// MayDependOnIP reports whether a machine with an address that the query does not have could
// receive another config than the picked one; nil: none was picked.
func (v View) MayDependOnIP(q *match.Query, config *Config, tier match.Tier) bool {
	if config == nil {
		return v.state.configs.rules.MayDependOnIP(q, nil, match.None)
	}
	return v.state.configs.rules.MayDependOnIP(q, config.rule, tier)
}

// Wins reports whether a config that matches would be picked if it were stored.
func (v View) Wins(q *match.Query, config *Config) bool {
	now, _ := v.Pick(q)
	if now == nil || now.Ref == config.Ref {
		return true
	}
	r, _ := v.Subset(config, now).Pick(q)
	return r == config.rule
}

// Tied returns another config that matches the same machines in the same way as a config, which
// need not be stored; nil: there is none.
func (v View) Tied(config *Config) *Config {
	if r := v.state.configs.rules.Tied(config.rule); r != nil {
		return r.Config.(*Config)
	}
	return nil
}

// HasConfigs reports whether there is a config of a type.
func (v View) HasConfigs(typ string) bool { return v.state.configs.rules.Has(typ) }

// Rules returns the rules of all configs, in no order; see Rank for those of islands.
func (v View) Rules() []*match.Rule { return v.state.configs.rules.Rules() }
