package match

import (
	"cmp"
	"net/netip"
	"slices"

	"glowplug/internal/domain/shardmap"
)

// prefixTable finds the longest prefix that contains an address.
type prefixTable struct {
	rules shardmap.Map[netip.Prefix, []*Rule]
	// lengths are the numbers of host bits that prefixes in rules have, ascending, so
	// that an exact address goes first in either family.
	lengths []length
}

// length is a number of host bits, and the number of prefixes that have it.
type length struct{ bits, prefixes int }

func hostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

func (t *prefixTable) set(edit *shardmap.Edit, p netip.Prefix, r *Rule, isListed bool) {
	before := t.rules.Len()
	shardmap.SetListed(edit, &t.rules, p, r, isListed, (*Rule).Compare)
	added := t.rules.Len() - before
	if added == 0 {
		return
	}
	n := hostBits(p)
	i, found := slices.BinarySearchFunc(t.lengths, n, func(l length, n int) int { return cmp.Compare(l.bits, n) })
	t.lengths = slices.Clone(t.lengths)
	if !found {
		t.lengths = slices.Insert(t.lengths, i, length{bits: n})
	}
	if t.lengths[i].prefixes += added; t.lengths[i].prefixes == 0 {
		t.lengths = slices.Delete(t.lengths, i, i+1)
	}
}

func (t *prefixTable) pick(addrs []netip.Addr) (best *Rule) {
	for _, l := range t.lengths {
		for _, a := range addrs {
			if p, err := a.Prefix(a.BitLen() - l.bits); err == nil {
				best = firstOf(best, t.rules.Get(p))
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}
