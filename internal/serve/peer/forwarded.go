package peer

import (
	"net/netip"
	"strings"
)

// maxHops bounds the chain of proxies that is followed.
const maxHops = 32

// forwardedClient walks X-Forwarded-For from the right, through every hop that
// is trusted, and gives the first that is not: the client. Each hop vouches for
// the one to its left alone, so what an untrusted client wrote itself is never
// reached. lines are the header's lines as they came; peer is a trusted proxy.
//
// Where all hops are trusted the left-most is the client. Where a trusted hop
// wrote something that is no address, or the chain is longer than maxHops, nobody
// knows the client: the address is the zero one, which belongs to no host.
func forwardedClient(peer netip.Addr, lines []string, trusted func(netip.Addr) bool) netip.Addr {
	client, hops := peer, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var entry string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, entry = rest[:comma], rest[comma+1:]
			} else {
				entry, more = rest, false
			}
			if entry = strings.Trim(entry, " \t"); entry == "" {
				continue
			}
			hop, ok := parseHop(entry)
			if hops++; !ok || hops > maxHops {
				return netip.Addr{}
			}
			if client = hop; !trusted(client) {
				return client
			}
		}
	}
	return client
}

// parseHop reads one entry: an address, in brackets or not, with or without a
// port. A zone belongs to the proxy's machine and is dropped.
func parseHop(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
			addr, err = netip.ParseAddr(inner[:len(inner)-1])
			if err != nil || addr.Is4() {
				return netip.Addr{}, false
			}
		} else {
			var hop netip.AddrPort
			if hop, err = netip.ParseAddrPort(s); err != nil {
				return netip.Addr{}, false
			}
			addr = hop.Addr()
		}
	}
	return addr.WithZone("").Unmap(), true
}
