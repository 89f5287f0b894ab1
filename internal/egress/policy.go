// Package egress guards what the server fetches for others: whoever may write an object
// that holds a URL must not reach what the server can reach. A policy, which the
// operator sets, is applied to each address that is connected to, after the name was
// resolved and for every hop of a redirect.
package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// addressRange is a range of addresses that are of one kind.
type addressRange struct {
	prefix netip.Prefix
	what   string
}

// specials are addresses that no list of hosts means: connections to them end on this
// machine, on its link, or at what hands out credentials. The narrow ranges stand before
// the wide ones that they lie in. Sources: the IANA registries of special-purpose
// addresses (RFC 6890), and the documents of the clouds for their metadata services.
var specials = []addressRange{
	{netip.MustParsePrefix("169.254.169.254/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("169.254.170.2/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("100.100.100.200/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("192.0.0.192/32"), "the metadata service of a cloud"},
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address"},
}

// translated are prefixes under which an IPv4 address is reached over IPv6, and where
// in the 16 bytes it is (RFC 6052, RFC 8215, RFC 3056, RFC 4291).
var translated = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{netip.MustParsePrefix("::/96"), 12},
}

// special returns the range that an address, which is not IPv4-mapped, lies in; nil for
// an address like any other.
func special(addr netip.Addr) *addressRange { return rangeOf(specials, addr) }

// rangeOf finds the range of an address, or of the IPv4 address within it.
func rangeOf(ranges []addressRange, addr netip.Addr) *addressRange {
	for i := range ranges {
		if ranges[i].prefix.Contains(addr) {
			return &ranges[i]
		}
	}
	if inner, ok := translatedFrom(addr); ok {
		for i := range ranges {
			if ranges[i].prefix.Contains(inner) {
				// Only the address itself names it.
				return &addressRange{netip.PrefixFrom(addr, addr.BitLen()), ranges[i].what}
			}
		}
	}
	return nil
}

// translatedFrom returns the IPv4 address that is reached by an IPv6 address.
func translatedFrom(addr netip.Addr) (inner netip.Addr, ok bool) {
	for _, t := range translated {
		if t.prefix.Contains(addr) {
			all := addr.As16()
			return netip.AddrFromSlice(all[t.at : t.at+4])
		}
	}
	return netip.Addr{}, false
}

// named reports whether a prefix means the range, or a part of it: 0.0.0.0/0 does not.
func (r *addressRange) named(p netip.Prefix) bool {
	return p.Bits() >= r.prefix.Bits() && r.prefix.Contains(p.Addr())
}

// privates are addresses that are not special, and not reachable from everywhere
// either: the hosts there are private. Source: the IANA registries of
// special-purpose addresses (RFC 6890).
var privates = []addressRange{
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address of a provider's own network"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a reserved address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
}

// reachable are the IPv6 addresses that may be public: what is handed out so far, and
// IPv4 addresses behind NAT64.
var reachable = []netip.Prefix{netip.MustParsePrefix("2000::/3"), netip.MustParsePrefix("64:ff9b::/96")}

// private returns the range that an address lies in which is not special, nor public; nil
// for a public one.
func private(addr netip.Addr) *addressRange {
	if r := rangeOf(privates, addr); r != nil {
		return r
	}
	if addr.Is4() {
		return nil
	}
	for _, prefix := range reachable {
		if prefix.Contains(addr) {
			return nil
		}
	}
	return &addressRange{netip.PrefixFrom(addr, addr.BitLen()), "a reserved address"}
}

// Policy says where may be fetched from. The zero value allows nowhere.
type Policy struct {
	// flag is the option that the policy is set with, for messages.
	flag string
	// public is true where public addresses need no entry.
	public          bool
	hosts, suffixes []string
	prefixes        []netip.Prefix
}

// Listed allows what a list of addresses, CIDRs, host names and "*." with a domain
// names. The flag is the option that the list comes from.
//
// A CIDR allows the addresses in it, by whatever name they are reached. A name allows
// what it resolves to. Neither allows a special address, such as a loopback one: that
// takes a CIDR which names it, by lying within the special range.
func Listed(flag string, entries []string) (Policy, error) {
	p := Policy{flag: flag}
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if prefix, err := netaddr.ParsePrefix(entry); err == nil {
			p.prefixes = append(p.prefixes, prefix.Masked())
			continue
		}
		domain, wild := strings.CutPrefix(entry, "*.")
		name, err := netaddr.ParseHostname(strings.TrimSuffix(domain, "."))
		if err != nil || numeric(name) {
			return Policy{}, fmt.Errorf("%q is neither an address, a CIDR, a host name nor *.domain", entry)
		}
		name = strings.ToLower(name)
		if wild {
			p.suffixes = append(p.suffixes, "."+name)
		} else {
			p.hosts = append(p.hosts, name)
		}
	}
	return p, nil
}

// PublicAnd allows all public addresses, and besides them those that a list of addresses
// and CIDRs names. It takes no host names: the owner of a name server must not decide
// which private address is fetched from.
func PublicAnd(flag string, entries []string) (Policy, error) {
	p := Policy{flag: flag, public: true}
	for _, entry := range entries {
		prefix, err := netaddr.ParsePrefix(strings.TrimSpace(entry))
		if err != nil {
			return Policy{}, fmt.Errorf("%q is neither an address nor a CIDR: "+
				"public hosts need no entry, and private ones are named by their addresses", entry)
		}
		p.prefixes = append(p.prefixes, prefix.Masked())
	}
	return p, nil
}

// numeric reports whether the last part of a name begins with a digit: such a name may
// be an address in disguise (127.1, 0177.0.0.1, 2130706433).
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}

// Nowhere reports whether nothing may be fetched at all.
func (p Policy) Nowhere() bool { return !p.public && len(p.hosts)+len(p.suffixes)+len(p.prefixes) == 0 }

// names reports whether a host is on the list by its name.
func (p Policy) names(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.Contains(p.hosts, host) ||
		slices.ContainsFunc(p.suffixes, func(suffix string) bool {
			return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
		})
}

// resolves reports whether it matters what a host resolves to. Where it does not, the
// resolver is not asked: a name in a question is a message, too.
func (p Policy) resolves(host string) bool { return p.public || len(p.prefixes) > 0 || p.names(host) }

// check says why an address that a host resolves to may not be connected to; nil: it
// may. An address by itself has itself as host.
func (p Policy) check(host string, addr netip.Addr) *RefusedError {
	addr = addr.Unmap().WithZone("")
	what := host
	if _, err := netip.ParseAddr(host); err != nil {
		what = "what " + host + " resolves to"
	}
	if s := special(addr); s != nil {
		named := func(prefix netip.Prefix) bool { return s.named(prefix) && prefix.Contains(addr) }
		if slices.ContainsFunc(p.prefixes, named) {
			return nil
		}
		return &RefusedError{what, fmt.Sprintf("is %s, which %s has to name as such: %[2]s=%s", s.what, p.flag, s.prefix)}
	}
	holds := func(prefix netip.Prefix) bool { return prefix.Contains(addr) }
	if slices.ContainsFunc(p.prefixes, holds) || p.names(host) {
		return nil
	}
	if !p.public {
		return p.unlisted(host)
	}
	if r := private(addr); r != nil {
		return &RefusedError{what, fmt.Sprintf("is %s, which %s has to name: %[2]s=%s", r.what, p.flag, r.prefix)}
	}
	return nil
}

// Behind says why a host that a proxy connects to may not be asked for, as a
// *RefusedError. Its address cannot be known: another name server may answer the proxy.
func (p Policy) Behind(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		if refused := p.check(host, addr); refused != nil {
			return refused
		}
		return nil
	}
	if p.names(host) {
		return nil
	}
	refused := p.unlisted(host)
	refused.what = "behind a proxy a host's address is not known: " + refused.what
	return refused
}

func (p Policy) unlisted(host string) *RefusedError {
	return &RefusedError{host, fmt.Sprintf("may not be fetched from: %s does not name it (%[1]s=%s)", p.flag, host)}
}
