package peer

import (
	"net/netip"
	"slices"
	"strings"
)

// maxHops bounds the chain of proxies that is followed.
const maxHops = 32

// forwardedClient walks X-Forwarded-For from the right, through every hop that is
// trusted, and returns the first that is not: the client. Each hop vouches for the one to
// its left alone, so what an untrusted client wrote itself is never reached. lines are
// the header's lines in their order; peer is a trusted proxy.
//
// Where all hops are trusted the left-most is the client. Where a trusted hop wrote
// something that is no address, or the chain is longer than maxHops, the client is
// unknown: the address is the zero one, which belongs to no host.
func forwardedClient(peer netip.Addr, lines []string, trusted func(netip.Addr) bool) netip.Addr {
	client, hops := peer, 0
	for _, entry := range slices.Backward(strings.Split(strings.Join(lines, ","), ",")) {
		if entry = strings.Trim(entry, " \t"); entry == "" {
			continue
		}
		hop, err := parseHop(entry)
		if hops++; err != nil || hops > maxHops {
			return netip.Addr{}
		}
		if client = hop; !trusted(client) {
			return client
		}
	}
	return client
}

// parseHop parses an entry: an address with or without a port, and an IPv6 one with or
// without brackets. A zone belongs to the proxy's machine and is dropped.
func parseHop(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if strings.HasSuffix(s, "]") {
			s += ":0"
		}
		var hop netip.AddrPort
		hop, err = netip.ParseAddrPort(s)
		addr = hop.Addr()
	}
	return addr.WithZone("").Unmap(), err
}
