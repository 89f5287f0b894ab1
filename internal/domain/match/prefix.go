package match

import (
	"cmp"
	"net/netip"
	"slices"
)

// prefixTable finds the longest prefix that holds an address.
type prefixTable struct {
	rules lists[netip.Prefix]
	// lengths are the numbers of host bits that prefixes in rules have, ascending, so
	// that an exact address goes first in either family.
	lengths []length
}

// length is a number of host bits, and how many prefixes have it.
type length struct{ bits, prefixes int }

func hostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

func (t *prefixTable) edit(p netip.Prefix, r *Rule, e edit) {
	before := t.rules.Len()
	editList(&t.rules, p, r, e, (*Rule).Compare)
	by := t.rules.Len() - before
	if by == 0 {
		return
	}
	n := hostBits(p)
	i, found := slices.BinarySearchFunc(t.lengths, n, func(l length, n int) int { return cmp.Compare(l.bits, n) })
	t.lengths = slices.Clone(t.lengths)
	if !found {
		t.lengths = slices.Insert(t.lengths, i, length{bits: n})
	}
	if t.lengths[i].prefixes += by; t.lengths[i].prefixes == 0 {
		t.lengths = slices.Delete(t.lengths, i, i+1)
	}
}

func (t *prefixTable) pick(addrs []netip.Addr) (best *Rule) {
	for _, l := range t.lengths {
		for _, a := range addrs {
			if a.BitLen() < l.bits {
				continue
			}
			p, err := a.Prefix(a.BitLen() - l.bits)
			if err == nil {
				best = first(best, t.rules.Get(p))
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}
