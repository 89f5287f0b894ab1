package egress

import "net/netip"

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
// in the 16 bytes it stands (RFC 6052, RFC 8215, RFC 3056, RFC 4291).
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

// rangeOf finds the range of an address, or of the IPv4 address that stands in it.
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
// either: what stands there is somebody's own. Source: the IANA registries of
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
