package match

import (
	"cmp"
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

// Index finds the rule for a machine in a time that does not depend on the number of
// rules. The zero value is empty. A change of an Index does not change its copies.
type Index struct {
	// scopes holds the rules of each type by namespace, and, under the namespace "",
	// those of all namespaces that are no islands together.
	scopes shardmap.Map[scopeKey, *scope]
	byRef  shardmap.Map[Ref, indexed]
	// typeUses counts the rules of a type.
	typeUses shardmap.Map[string, int]
	// labelUses counts the selectors that have a label.
	labelUses shardmap.Map[Label, int]
	// tied lists the rules that may tie with each other, by their tieKey.
	tied shardmap.Map[string, []*Rule]
}

type scopeKey struct{ typ, namespace string }

// indexed is a rule in an Index, with the anchors under which scopes list it.
type indexed struct {
	rule    *Rule
	anchors []anchor
	// isApart is true for a rule of an island.
	isApart bool
}

// NewIndex returns an index of rules. No two rules have the same Ref.
func NewIndex(rules ...*Rule) *Index {
	x, edit := &Index{}, new(shardmap.Edit)
	for _, r := range rules {
		x.Set(edit, r, false)
	}
	return x
}

// Set adds a rule, in place of the one with the same Ref. isApart is true for a rule of an island.
func (x *Index) Set(edit *shardmap.Edit, r *Rule, isApart bool) {
	x.Delete(edit, r.Ref)
	x.countLabels(edit, r, 1)
	count(edit, &x.typeUses, r.Type, 1)
	added := indexed{r, x.anchors(r), isApart}
	x.byRef.Set(edit, r.Ref, added)
	x.setInScopes(edit, added, true)
	x.setTied(edit, r, true)
}

// SetIslands makes all rules those of islands for whose namespace isIsland is true, and no others.
func (x *Index) SetIslands(edit *shardmap.Edit, isIsland func(namespace string) bool) {
	before := x.byRef
	for ref, rule := range before.All() {
		if isApart := isIsland(ref.Namespace); isApart != rule.isApart {
			x.setInScope(edit, scopeKey{rule.rule.Type, ""}, rule, !isApart)
			rule.isApart = isApart
			x.byRef.Set(edit, ref, rule)
		}
	}
}

// Delete removes the rule with a Ref.
func (x *Index) Delete(edit *shardmap.Edit, ref Ref) {
	removed := x.byRef.Get(ref)
	if removed.rule == nil {
		return
	}
	x.byRef.Delete(edit, ref)
	x.countLabels(edit, removed.rule, -1)
	count(edit, &x.typeUses, removed.rule.Type, -1)
	x.setInScopes(edit, removed, false)
	x.setTied(edit, removed.rule, false)
}

func (x *Index) setTied(edit *shardmap.Edit, r *Rule, isListed bool) {
	if key := r.tieKey(); key != "" {
		shardmap.SetListed(edit, &x.tied, key, r, isListed, (*Rule).Compare)
	}
}

// Tied returns the first other rule, in the order of ties, that matches the same machines in the same
// way as a rule, which need not be in the index; nil: there is none.
func (x *Index) Tied(r *Rule) *Rule {
	for _, other := range x.tied.Get(r.tieKey()) {
		if other.Ref != r.Ref {
			return other
		}
	}
	return nil
}

// setInScopes adds a rule to the scopes of its type, or removes it from them.
func (x *Index) setInScopes(edit *shardmap.Edit, rule indexed, isListed bool) {
	x.setInScope(edit, scopeKey{rule.rule.Type, rule.rule.Namespace}, rule, isListed)
	if !rule.isApart {
		x.setInScope(edit, scopeKey{rule.rule.Type, ""}, rule, isListed)
	}
}

func (x *Index) setInScope(edit *shardmap.Edit, key scopeKey, rule indexed, isListed bool) {
	var next scope
	if s := x.scopes.Get(key); s != nil {
		next = *s
	}
	next.set(edit, rule, isListed)
	if next.rules > 0 {
		x.scopes.Set(edit, key, &next)
	} else {
		x.scopes.Delete(edit, key)
	}
}

// Has reports whether there is a rule of a type.
func (x *Index) Has(typ string) bool { return x.typeUses.Has(typ) }

// Rules returns all rules, in no order.
func (x *Index) Rules() []*Rule {
	rules := make([]*Rule, 0, x.byRef.Len())
	for _, r := range x.byRef.All() {
		rules = append(rules, r.rule)
	}
	return rules
}

func (x *Index) countLabels(edit *shardmap.Edit, r *Rule, by int) {
	for _, l := range r.Selector.Labels {
		count(edit, &x.labelUses, l, by)
	}
}

// count adds to the number of uses of a key.
func count[K comparable](edit *shardmap.Edit, uses *shardmap.Map[K, int], key K, by int) {
	if n := uses.Get(key) + by; n == 0 {
		uses.Delete(edit, key)
	} else {
		uses.Set(edit, key, n)
	}
}

// rarestLabel returns the label of a rule that the fewest rules have.
func (x *Index) rarestLabel(r *Rule) (rarest Label) {
	for i, l := range r.Selector.Labels {
		if i == 0 || x.labelUses.Get(l) < x.labelUses.Get(rarest) {
			rarest = l
		}
	}
	return rarest
}

// Pick returns the rule for a machine and the tier that chose it; nil and None
// where nothing matches.
func (x *Index) Pick(q *Query) (*Rule, Tier) {
	if q.Offer == DefaultsOnly {
		if r := x.scopes.Get(scopeKey{q.Type, ""}).pickDefault(); r != nil {
			return r, Default
		}
		return nil, None
	}
	// The machine's own namespace goes first. The scope of the others is used only if no
	// rule of the own namespace matches, so it may include that namespace.
	var own, all *scope
	if q.Namespace != "" {
		own = x.scopes.Get(scopeKey{q.Type, q.Namespace})
	}
	if q.Offer == Everywhere {
		all = x.scopes.Get(scopeKey{q.Type, ""})
	}
	if q.Role != "" {
		if r := cmp.Or(own.pickRole(q.Role), all.pickRole(q.Role)); r != nil {
			return r, Role
		}
	}
	image := x.ofImage(q)
	ownImage := image
	if image != nil && image.Namespace != q.Namespace {
		ownImage = nil
	}
	if r, tier := own.pick(q, ownImage); r != nil {
		return r, tier
	}
	return all.pick(q, image)
}

// ofImage returns the rule of the config that the image of the host names; nil: none that the host may have.
func (x *Index) ofImage(q *Query) *Rule {
	if q.Image == (Ref{}) {
		return nil
	}
	named := x.byRef.Get(q.Image)
	if r := named.rule; r != nil && r.Type == q.Type && (!named.isApart || r.Namespace == q.Namespace) {
		return r
	}
	return nil
}

// MayDependOnIP reports whether an address that the query does not have can change the result
// of Pick, which is a rule and its tier.
func (x *Index) MayDependOnIP(q *Query, r *Rule, tier Tier) bool {
	isBeaten := r == nil || tier > IP
	isOwn := r != nil && r.Namespace == q.Namespace
	if tier != Role && (isBeaten || !isOwn) && x.scopes.Get(scopeKey{q.Type, q.Namespace}).hasPrefixes() {
		return true
	}
	return q.Offer == Everywhere && !isOwn && isBeaten && x.scopes.Get(scopeKey{q.Type, ""}).hasPrefixes()
}

// indexedQuery is a query with its addresses and names in maps and sorted lists, so that a
// rule with many addresses is not compared with each address of the machine.
type indexedQuery struct {
	*Query
	// isIsland is that of Rank.
	isIsland func(namespace string) bool
	macs     map[netaddr.MAC]bool
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

// longestMAC returns the longest prefix of one of the machine's hardware addresses.
func (q *indexedQuery) longestMAC(prefixes []netaddr.MACPrefix) (best netaddr.MACPrefix, found bool) {
	for _, p := range prefixes {
		for _, m := range q.MACs {
			if p.Bytes > best.Bytes && m.Prefix(p.Bytes) == p {
				best, found = p, true
			}
		}
	}
	return best, found
}

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
		// If the prefix contains any address of the machine, it contains the first one that is
		// not lower than the prefix.
		i, _ := slices.BinarySearchFunc(q.ips, p.Addr(), netip.Addr.Compare)
		if i < len(q.ips) && p.Contains(q.ips[i]) {
			best, addr, found = p, q.ips[i], true
		}
	}
	return best, addr, found
}

// prefixTable finds the longest prefix that contains an address.
type prefixTable struct {
	rules shardmap.Map[netip.Prefix, []*Rule]
	// lengths are the numbers of host bits of the prefixes, ascending, so that an exact
	// address goes first in both families.
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
