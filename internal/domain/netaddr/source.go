package netaddr

import "net/netip"

// Source returns the address that counts for a bound per client: an IPv4 address for
// itself, an IPv6 address as its /64, which one machine owns. A link-local IPv6 address
// counts for itself, with its zone: all machines of a network share one /64 there.
func Source(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is4() || addr.IsLinkLocalUnicast() {
		return addr
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return prefix.Addr()
}

// SourceText is how a Source is written: an IPv6 /64 as such.
func SourceText(source netip.Addr) string {
	if source.Is6() && !source.IsLinkLocalUnicast() {
		return source.String() + "/64"
	}
	return source.String()
}
