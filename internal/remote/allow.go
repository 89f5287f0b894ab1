package remote

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/netaddr"
)

// Allow says where may be fetched from. The zero value allows nowhere.
type Allow struct {
	hosts, suffixes []string
	prefixes        []netip.Prefix
}

// ParseAllow reads a list of addresses, CIDRs, host names and "*." with a domain.
//
// A CIDR allows the addresses in it, by whatever name they are reached. A name allows
// what it resolves to. Neither allows a special address, such as a loopback one: that
// takes a CIDR which names it, by lying within the special range.
func ParseAllow(entries []string) (Allow, error) {
	var a Allow
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if prefix, err := netaddr.ParsePrefix(entry); err == nil {
			a.prefixes = append(a.prefixes, prefix.Masked())
			continue
		}
		domain, wild := strings.CutPrefix(entry, "*.")
		name, err := netaddr.ParseHostname(strings.TrimSuffix(domain, "."))
		if err != nil || numeric(name) {
			return Allow{}, fmt.Errorf("%q is neither an address, a CIDR, a host name nor *.domain", entry)
		}
		name = strings.ToLower(name)
		if wild {
			a.suffixes = append(a.suffixes, "."+name)
		} else {
			a.hosts = append(a.hosts, name)
		}
	}
	return a, nil
}

// numeric tells whether the last part of a name begins with a digit: such a name may
// be an address in disguise (127.1, 0177.0.0.1, 2130706433).
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}

// Nowhere tells whether nothing may be fetched at all.
func (a Allow) Nowhere() bool { return len(a.hosts)+len(a.suffixes)+len(a.prefixes) == 0 }

// names tells whether a host is on the list by its name.
func (a Allow) names(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.Contains(a.hosts, host) ||
		slices.ContainsFunc(a.suffixes, func(suffix string) bool { return strings.HasSuffix(host, suffix) && len(host) > len(suffix) })
}

// resolves tells whether it matters what a host resolves to. Where it does not, the
// resolver is not asked: a name in a question is a message, too.
func (a Allow) resolves(host string) bool { return len(a.prefixes) > 0 || a.names(host) }

// check says why an address that a host resolves to may not be connected to; empty:
// it may. An address by itself has itself as host.
func (a Allow) check(host string, addr netip.Addr) (refused string) {
	addr = addr.Unmap().WithZone("")
	what := host
	if _, err := netip.ParseAddr(host); err != nil {
		what = "what " + host + " resolves to"
	}
	if s := special(addr); s != nil {
		if slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool { return s.named(p) && p.Contains(addr) }) {
			return ""
		}
		return fmt.Sprintf("%s is %s, which --allow-fetch has to name as such: --allow-fetch=%s", what, s.what, s.prefix)
	}
	if a.names(host) || slices.ContainsFunc(a.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return ""
	}
	return unlisted(host)
}

// checkBehind is check for a host that a proxy connects to, whose address cannot be
// known: another name server may answer the proxy.
func (a Allow) checkBehind(host string) (refused string) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return a.check(host, addr)
	}
	if a.names(host) {
		return ""
	}
	return "behind a proxy a host's address is not known: " + unlisted(host)
}

func unlisted(host string) string {
	return fmt.Sprintf("%[1]s may not be fetched from: --allow-fetch does not name it (--allow-fetch=%[1]s)", host)
}
