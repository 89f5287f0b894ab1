package match

import (
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

// scope is the rules of one type in one namespace, or in all. Each list has the order in
// which its rules win. A nil scope is empty.
type scope struct {
	rules    int
	macs     shardmap.Map[netaddr.MAC, []*Rule]
	macStems shardmap.Map[netaddr.MACPrefix, []*Rule]
	prefixes prefixTable
	// names has the rules by host name. stems has the rules with a full host name by its
	// first label.
	names, stems shardmap.Map[string, []*Rule]
	// labels has each rule under its anchors. keys has those whose anchor is a key, under that
	// key, and those that need no label under "".
	labels shardmap.Map[Label, []*Rule]
	keys   shardmap.Map[string, []*Rule]
	// roleLabels and roleNames have the rules with an empty selector.
	roleLabels, roleNames shardmap.Map[string, []*Rule]
	defaults              shardmap.Map[struct{}, []*Rule]
}

// set adds a rule to each list that it belongs to, or removes it from them.
func (s *scope) set(edit *shardmap.Edit, rule indexed, isListed bool) {
	r := rule.rule
	sel := &r.Selector
	byName := func(m *shardmap.Map[string, []*Rule], name string) {
		shardmap.SetListed(edit, m, name, r, isListed, (*Rule).Compare)
	}
	for _, m := range sel.MACs {
		shardmap.SetListed(edit, &s.macs, m, r, isListed, (*Rule).Compare)
	}
	for _, p := range sel.MACPrefixes {
		shardmap.SetListed(edit, &s.macStems, p, r, isListed, (*Rule).Compare)
	}
	for _, p := range sel.Prefixes {
		s.prefixes.set(edit, p, r, isListed)
	}
	for _, n := range sel.Hostnames {
		byName(&s.names, n)
		if first := netaddr.FirstLabel(n); first != n {
			byName(&s.stems, first)
		}
	}
	for _, a := range rule.anchors {
		if a.hasAnyValue {
			shardmap.SetListed(edit, &s.keys, a.Key, r, isListed, compareLabels)
		} else {
			shardmap.SetListed(edit, &s.labels, a.Label, r, isListed, compareLabels)
		}
	}
	if sel.Default {
		shardmap.SetListed(edit, &s.defaults, struct{}{}, r, isListed, (*Rule).Compare)
	}
	if sel.IsEmpty() {
		if r.Role != "" {
			byName(&s.roleLabels, r.Role)
		}
		byName(&s.roleNames, r.Name)
	}
	if isListed {
		s.rules++
	} else {
		s.rules--
	}
}

// hasPrefixes reports whether a rule has addresses in its selector.
func (s *scope) hasPrefixes() bool { return s != nil && len(s.prefixes.lengths) > 0 }

// pickRole picks by role, among the rules with an empty selector: by their label, then by
// the name with "-target", then by the name.
func (s *scope) pickRole(role string) *Rule {
	if s == nil {
		return nil
	}
	for _, list := range [...][]*Rule{s.roleLabels.Get(role), s.roleNames.Get(role + "-target"), s.roleNames.Get(role)} {
		if len(list) > 0 {
			return list[0]
		}
	}
	return nil
}

// pickDefault returns the first of the defaults.
func (s *scope) pickDefault() *Rule {
	if s == nil {
		return nil
	}
	return firstOf(nil, s.defaults.Get(struct{}{}))
}

// pick picks by the tiers from MAC to Default.
func (s *scope) pick(q *Query, image *Rule) (*Rule, Tier) {
	if s == nil {
		return nil, None
	}
	if r := s.byMAC(&q.Facts); r != nil {
		return r, MAC
	}
	if r := s.prefixes.pick(q.IPs); r != nil {
		return r, IP
	}
	if r := s.byHostname(&q.Facts); r != nil {
		return r, Hostname
	}
	if r := s.byLabels(q); r != nil {
		return r, Labels
	}
	if image != nil {
		return image, Image
	}
	if r := s.pickDefault(); r != nil {
		return r, Default
	}
	return nil, None
}

func (s *scope) byMAC(f *Facts) (best *Rule) {
	for _, m := range f.MACs {
		best = firstOf(best, s.macs.Get(m))
	}
	if s.macStems.Len() == 0 {
		return best
	}
	for n := len(netaddr.MAC{}) - 1; n > 0 && best == nil; n-- {
		for _, m := range f.MACs {
			best = firstOf(best, s.macStems.Get(m.Prefix(n)))
		}
	}
	return best
}

// byHostname finds equal names, and where one of the two has no dot, names
// with the same first label.
func (s *scope) byHostname(f *Facts) (best *Rule) {
	for _, name := range f.Hostnames {
		best = firstOf(best, s.names.Get(name))
		if stem := netaddr.FirstLabel(name); stem != name {
			best = firstOf(best, s.names.Get(stem))
		} else {
			best = firstOf(best, s.stems.Get(name))
		}
	}
	return best
}

func (s *scope) byLabels(q *Query) (best *Rule) {
	if q.Role != "" {
		best = s.anchored(best, Label{RoleLabel, q.Role}, q)
	}
	for k, v := range q.Labels {
		if q.Role == "" || k != RoleLabel {
			best = s.anchored(best, Label{k, v}, q)
		}
	}
	if s.keys.Len() > 0 {
		best = firstHolding(best, s.keys.Get(""), q)
	}
	return best
}

// anchored returns the better of best and the first matching rule whose anchor is a label, or
// its key.
func (s *scope) anchored(best *Rule, label Label, q *Query) *Rule {
	best = firstHolding(best, s.labels.Get(label), q)
	if s.keys.Len() > 0 {
		best = firstHolding(best, s.keys.Get(label.Key), q)
	}
	return best
}

// firstHolding returns the better of best and the first rule of a list that matches.
func firstHolding(best *Rule, list []*Rule, q *Query) *Rule {
	for _, r := range list {
		if best != nil && compareLabels(best, r) <= 0 {
			return best
		}
		if q.hasLabels(&r.Selector) {
			return r
		}
	}
	return best
}

// firstOf returns the better of best and the first rule of a list.
func firstOf(best *Rule, list []*Rule) *Rule {
	if len(list) > 0 && (best == nil || list[0].Compare(best) < 0) {
		return list[0]
	}
	return best
}
