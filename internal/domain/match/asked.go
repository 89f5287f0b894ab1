package match

import (
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// asked is a query whose facts are filed for lookup, so that a rule of a thousand
// addresses is held against a machine of a thousand cards without trying all pairs.
type asked struct {
	*Query
	macs map[netaddr.MAC]struct{}
	// ips are sorted.
	ips []netip.Addr
	// names are the host names, firsts the first labels of all of them.
	names, firsts map[string]struct{}
}

func file(q *Query) *asked {
	a := &asked{Query: q, ips: slices.Clone(q.IPs), macs: map[netaddr.MAC]struct{}{}, names: map[string]struct{}{},
		firsts: map[string]struct{}{}}
	slices.SortFunc(a.ips, netip.Addr.Compare)
	for _, m := range q.MACs {
		a.macs[m] = struct{}{}
	}
	for _, name := range q.Hostnames {
		a.names[name] = struct{}{}
		a.firsts[netaddr.FirstLabel(name)] = struct{}{}
	}
	return a
}

// hasMAC reports whether a hardware address is the machine's.
func (a *asked) hasMAC(m netaddr.MAC) bool {
	_, ok := a.macs[m]
	return ok
}

// hasHost reports whether SameHost holds for one of the machine's names.
func (a *asked) hasHost(want string) bool {
	if _, ok := a.names[want]; ok {
		return true
	}
	short := !strings.Contains(want, ".")
	if short {
		_, ok := a.firsts[want]
		return ok
	}
	_, ok := a.names[netaddr.FirstLabel(want)]
	return ok
}

// longest finds the longest prefix that holds one of the machine's addresses.
func (a *asked) longest(prefixes []netip.Prefix) (best netip.Prefix, addr netip.Addr, found bool) {
	for _, p := range prefixes {
		if found && hostBits(p) >= hostBits(best) {
			continue
		}
		// Of the addresses that are not below a prefix, the lowest is in it if any is.
		i, _ := slices.BinarySearchFunc(a.ips, p.Addr(), netip.Addr.Compare)
		if i < len(a.ips) && p.Contains(a.ips[i]) {
			best, addr, found = p, a.ips[i], true
		}
	}
	return best, addr, found
}
