package match

import (
	"net/netip"
	"slices"
)

// prefixTable finds the longest prefix that holds an address.
type prefixTable struct {
	// tables are by the number of host bits, so that an exact address goes
	// first in either family.
	tables map[int]map[netip.Prefix][]*Rule
	// bits are the keys of tables, ascending.
	bits []int
}

func hostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

func (t *prefixTable) edit(p netip.Prefix, r *Rule, op op) {
	n := hostBits(p)
	table, had := t.tables[n]
	table = edit(table, p, r, op, (*Rule).Compare)
	if t.tables == nil {
		t.tables = make(map[int]map[netip.Prefix][]*Rule)
	}
	t.tables[n] = table
	switch i, _ := slices.BinarySearch(t.bits, n); {
	case len(table) == 0:
		delete(t.tables, n)
		if had {
			t.bits = slices.Delete(t.bits, i, i+1)
		}
	case !had:
		t.bits = slices.Insert(t.bits, i, n)
	}
}

func (t *prefixTable) pick(addrs []netip.Addr) (best *Rule) {
	for _, n := range t.bits {
		table := t.tables[n]
		for _, a := range addrs {
			if a.BitLen() < n {
				continue
			}
			p, err := a.Prefix(a.BitLen() - n)
			if err == nil {
				best = first(best, table[p])
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}
