package netaddr

import (
	"fmt"
	"net/netip"
	"strings"
)

// ParseIP reads an IPv4 or IPv6 address. IPv4-mapped IPv6 is IPv4; a zone is
// refused, for it means nothing on another machine.
func ParseIP(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", clip(s))
	}
	return a.Unmap(), nil
}

// ParsePrefix reads a CIDR, or an address as the prefix that holds it alone.
// Bits behind the prefix length are cleared.
func ParsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := ParseIP(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an IP address or a CIDR such as 192.168.10.0/24", clip(s))
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%q is not a CIDR: an IPv4-mapped prefix is at least 96 bits long", clip(s))
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}
