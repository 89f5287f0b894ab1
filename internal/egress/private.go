package egress

import "net/netip"

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
