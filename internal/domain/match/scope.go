package match

import "glowplug/internal/domain/netaddr"

// scope is the rules of one type in one namespace, or in all. Every list is in
// the order in which its rules win. A nil scope is empty.
type scope struct {
	rules    int
	macs     lists[netaddr.MAC]
	prefixes prefixTable
	// names holds hostnames as they are written; stems those with a dot by
	// their first label.
	names, stems lists[string]
	// labels holds each rule under its anchor.
	labels lists[Label]
	// roleLabels and roleNames hold the rules with an empty selector.
	roleLabels, roleNames lists[string]
	defaults              []*Rule
}

// edit puts a rule on, or takes it off, every list that it belongs on.
func (s *scope) edit(f filed, e edit) {
	r := f.rule
	sel := &r.Selector
	for _, m := range sel.MACs {
		editList(&s.macs, m, r, e, (*Rule).Compare)
	}
	for _, p := range sel.Prefixes {
		s.prefixes.edit(p, r, e)
	}
	for _, n := range sel.Hostnames {
		editList(&s.names, n, r, e, (*Rule).Compare)
		if first := netaddr.FirstLabel(n); first != n {
			editList(&s.stems, first, r, e, (*Rule).Compare)
		}
	}
	if len(sel.Labels) > 0 {
		editList(&s.labels, f.anchor, r, e, compareLabels)
	}
	if sel.Default {
		s.defaults = e.list(s.defaults, r, (*Rule).Compare)
	}
	if sel.IsEmpty() {
		if r.Role != "" {
			editList(&s.roleLabels, r.Role, r, e, (*Rule).Compare)
		}
		editList(&s.roleNames, r.Name, r, e, (*Rule).Compare)
	}
}

// role is tier 0: among rules with an empty selector the label, then the name
// with "-target", then the name.
func (s *scope) role(role string) *Rule {
	if s == nil {
		return nil
	}
	if l := s.roleLabels.Get(role); len(l) > 0 {
		return l[0]
	}
	if l := s.roleNames.Get(role + "-target"); len(l) > 0 {
		return l[0]
	}
	if l := s.roleNames.Get(role); len(l) > 0 {
		return l[0]
	}
	return nil
}

// pick goes through the tiers from MAC to Default.
func (s *scope) pick(f *Facts, image *Rule) (*Rule, Tier) {
	if s == nil {
		return nil, None
	}
	if r := s.byMAC(f); r != nil {
		return r, MAC
	}
	if r := s.prefixes.pick(f.IPs); r != nil {
		return r, IP
	}
	if r := s.byHostname(f); r != nil {
		return r, Hostname
	}
	if r := s.byLabels(f); r != nil {
		return r, Labels
	}
	if image != nil {
		return image, Image
	}
	if len(s.defaults) > 0 {
		return s.defaults[0], Default
	}
	return nil, None
}

func (s *scope) byMAC(f *Facts) (best *Rule) {
	if s.macs.Len() == 0 {
		return nil
	}
	for _, m := range f.MACs {
		best = first(best, s.macs.Get(m))
	}
	return best
}

// byHostname finds equal names, and where one of the two has no dot, names
// with the same first label.
func (s *scope) byHostname(f *Facts) (best *Rule) {
	if s.names.Len() == 0 {
		return nil
	}
	for _, name := range f.Hostnames {
		best = first(best, s.names.Get(name))
		if stem := netaddr.FirstLabel(name); stem != name {
			best = first(best, s.names.Get(stem))
		} else {
			best = first(best, s.stems.Get(name))
		}
	}
	return best
}

func (s *scope) byLabels(f *Facts) (best *Rule) {
	if s.labels.Len() == 0 {
		return nil
	}
	if f.Role != "" {
		best = s.anchored(best, Label{RoleLabel, f.Role}, f)
	}
	for k, v := range f.Labels {
		if f.Role == "" || k != RoleLabel {
			best = s.anchored(best, Label{k, v}, f)
		}
	}
	return best
}

// anchored returns the better of best and the first rule under the anchor that
// holds.
func (s *scope) anchored(best *Rule, anchor Label, f *Facts) *Rule {
	for _, r := range s.labels.Get(anchor) {
		if best != nil && compareLabels(best, r) <= 0 {
			return best
		}
		if f.holds(r.Selector.Labels) {
			return r
		}
	}
	return best
}

// first returns the rule that goes first: best, or the head of a list.
func first(best *Rule, list []*Rule) *Rule {
	if len(list) > 0 && (best == nil || list[0].Compare(best) < 0) {
		return list[0]
	}
	return best
}
