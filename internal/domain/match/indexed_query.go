package match

import (
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
)

// indexedQuery is a query with its addresses and names in maps and sorted lists: a rule
// with a thousand addresses is compared with a machine that has a thousand of them, and
// need not be compared pair by pair.
type indexedQuery struct {
	*Query
	macs map[netaddr.MAC]bool
	// ips are sorted.
	ips []netip.Addr
	// names are the host names, and firstLabels the first labels of all of them.
	names, firstLabels map[string]bool
}

func newIndexedQuery(q *Query) *indexedQuery {
	indexed := &indexedQuery{
		Query: q, macs: map[netaddr.MAC]bool{}, ips: slices.SortedFunc(slices.Values(q.IPs), netip.Addr.Compare),
		names: map[string]bool{}, firstLabels: map[string]bool{},
	}
	for _, m := range q.MACs {
		indexed.macs[m] = true
	}
	for _, name := range q.Hostnames {
		indexed.names[name], indexed.firstLabels[netaddr.FirstLabel(name)] = true, true
	}
	return indexed
}

func (q *indexedQuery) hasMAC(m netaddr.MAC) bool { return q.macs[m] }

// hasHost reports whether SameHost holds for one of the machine's names.
func (q *indexedQuery) hasHost(want string) bool {
	if first := netaddr.FirstLabel(want); first != want {
		return q.names[want] || q.names[first]
	}
	return q.firstLabels[want]
}

// longest returns the longest prefix that contains one of the machine's addresses, and
// that address.
func (q *indexedQuery) longest(prefixes []netip.Prefix) (best netip.Prefix, addr netip.Addr, found bool) {
	for _, p := range prefixes {
		if found && hostBits(p) >= hostBits(best) {
			continue
		}
		// If the prefix contains any of the addresses, it contains the lowest that is not
		// below it.
		i, _ := slices.BinarySearchFunc(q.ips, p.Addr(), netip.Addr.Compare)
		if i < len(q.ips) && p.Contains(q.ips[i]) {
			best, addr, found = p, q.ips[i], true
		}
	}
	return best, addr, found
}
