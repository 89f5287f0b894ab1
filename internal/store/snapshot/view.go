package snapshot

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
)

// View is the inventory held still for reading. End it soon: writers wait.
type View struct{ inv *Inventory }

// View holds the inventory still. Every View must be ended.
func (inv *Inventory) View() View {
	inv.mu.RLock()
	return View{inv}
}

// End lets go; the View must not be used after it. What it gave stays valid.
func (v View) End() { v.inv.mu.RUnlock() }

// Host gives a host by its name; nil: none.
func (v View) Host(ref Ref) *Host { return v.inv.hosts.byRef[ref] }

// Hosts gives all hosts, in no order; they stay valid after End.
func (v View) Hosts() []*Host {
	return slices.AppendSeq(make([]*Host, 0, len(v.inv.hosts.byRef)), maps.Values(v.inv.hosts.byRef))
}

// Templates gives all configs that are rendered for each machine, in no order.
func (v View) Templates() []*Config {
	var out []*Config
	for _, c := range v.inv.configs {
		if c.Template {
			out = append(out, c)
		}
	}
	return out
}

// HostByMAC gives the host with a network card's address; nil: none. Where
// several have it the oldest is given, as by the other lookups.
func (v View) HostByMAC(m netaddr.MAC) *Host { return v.inv.hosts.byMAC.first[m] }

// HostByIP gives the host with an address; nil: none.
func (v View) HostByIP(a netip.Addr) *Host { return v.inv.hosts.byIP.first[a] }

// HostByUUID gives the host with a system UUID in lower case; nil: none.
func (v View) HostByUUID(uuid string) *Host { return v.inv.hosts.byUUID.first[uuid] }

// HostByHostname gives the host with a name in lower case: equal, or one of the
// two has no dot and equals the other's first label; nil: none.
func (v View) HostByHostname(name string) *Host { return v.inv.hosts.byHostname(name) }

// SharedAcross gives a conflict of a host with one of another namespace.
func (v View) SharedAcross(h *Host) (Conflict, bool) {
	x := v.inv.hosts
	if len(x.byMAC.shared) > 0 {
		for _, m := range h.MACs {
			if other := foreign(x.byMAC.shared[m], h.Namespace); other != nil {
				return Conflict{With: other.Ref, MAC: m}, true
			}
		}
	}
	if len(x.byIP.shared) > 0 {
		for _, a := range h.IPs {
			if other := foreign(x.byIP.shared[a], h.Namespace); other != nil {
				return Conflict{With: other.Ref, IP: a}, true
			}
		}
	}
	return Conflict{}, false
}

// foreign gives the first host that is not in a namespace.
func foreign(hosts []*Host, namespace string) *Host {
	for _, h := range hosts {
		if h.Namespace != namespace {
			return h
		}
	}
	return nil
}

// HostsOf gives the hosts that boot an image of which ok is true, in no order; they
// stay valid after End.
func (v View) HostsOf(ok func(image Ref) bool) []*Host {
	var hosts []*Host
	for _, h := range v.inv.hosts.byRef {
		if h.Image != (Ref{}) && ok(h.Image) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// Image gives an image; nil: none.
func (v View) Image(ref Ref) *Image { return v.inv.images[ref] }

// Images gives all images of a namespace, or of all where it is "", the oldest
// first; they stay valid after End.
func (v View) Images(namespace string) []*Image {
	images := make([]*Image, 0, len(v.inv.images))
	for ref, i := range v.inv.images {
		if namespace == "" || namespace == ref.Namespace {
			images = append(images, i)
		}
	}
	slices.SortFunc(images, (*Image).compare)
	return images
}

// ImageByIQN gives the image that this server offers under a name; nil: none.
func (v View) ImageByIQN(iqn string) *Image {
	for _, i := range v.inv.images {
		if i.IQN != "" && i.External == nil && strings.EqualFold(i.IQN, iqn) {
			return i
		}
	}
	return nil
}

// Script gives the boot script of a namespace's hosts, a template; "": none.
func (v View) Script(namespace string) string {
	if n := v.inv.scripts[namespace]; n != nil {
		return n.IPXE
	}
	return ""
}

// Config gives a config; nil: none.
func (v View) Config(ref Ref) *Config { return v.inv.configs[ref] }

// Pick gives the config for a machine and the tier that chose it; nil and
// match.None where nothing matches.
func (v View) Pick(q *match.Query) (*Config, match.Tier) {
	r, tier := v.inv.rules.Pick(q)
	if r == nil {
		return nil, match.None
	}
	return r.Config.(*Config), tier
}

// Alone is an index of one config, which need not be stored; nil for none.
func Alone(config *Config) *match.Index {
	if config == nil {
		return nil
	}
	return match.NewIndex([]*match.Rule{config.rule})
}

// Wins tells whether a config that matches would be picked if it were stored.
func (v View) Wins(q *match.Query, config *Config) bool {
	now, _ := v.Pick(q)
	if now == nil || now.Ref == config.Ref {
		return true
	}
	r, _ := match.NewIndex([]*match.Rule{config.rule, now.rule}).Pick(q)
	return r == config.rule
}

// Rules gives the rules of all configs, in no order; they stay valid after End.
func (v View) Rules() []*match.Rule { return v.inv.rules.Rules() }
