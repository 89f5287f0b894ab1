package match

import (
	"slices"

	"glowplug/internal/domain/shardmap"
)

// Index finds the rule for a machine in a time that does not depend on the
// number of rules. It is never changed: With and Without return the next one.
type Index struct {
	// scopes holds the rules of each type by namespace, and, under the
	// namespace "", those of all namespaces together.
	scopes shardmap.Map[scopeKey, *scope]
	byRef  shardmap.Map[Ref, filed]
	// pairs counts how many selectors ask for a label.
	pairs shardmap.Map[Label, int]
}

type scopeKey struct{ typ, namespace string }

// filed is a rule, and the label of its selector that it is found by.
type filed struct {
	rule   *Rule
	anchor Label
}

// NewIndex makes an index of rules, whose order does not matter. No two rules
// have the same Ref.
func NewIndex(rules []*Rule) *Index {
	x := &Index{}
	// All labels are counted before the first is anchored, and in the order of
	// ties every insertion is an append.
	for _, r := range rules {
		for _, l := range r.Selector.Labels {
			x.pairs.Add(l, x.pairs.Get(l)+1)
		}
	}
	sorted := slices.Clone(rules)
	slices.SortFunc(sorted, (*Rule).Compare)
	for _, r := range sorted {
		f := filed{r, x.anchor(r)}
		x.byRef.Add(r.Ref, f)
		for _, key := range scopesOf(r) {
			s := x.scopes.Get(key)
			if s == nil {
				s = new(scope)
				x.scopes.Add(key, s)
			}
			s.edit(f, building)
			s.rules++
		}
	}
	return x
}

// With returns the index with a rule in the place of the one with the same Ref.
func (x *Index) With(r *Rule) *Index {
	next := *x.Without(r.Ref)
	next.count(r, 1)
	f := filed{r, next.anchor(r)}
	next.byRef = next.byRef.With(r.Ref, f)
	next.editScopes(f, inserting, 1)
	return &next
}

// Without returns the index without the rule of that name.
func (x *Index) Without(ref Ref) *Index {
	f := x.byRef.Get(ref)
	if f.rule == nil {
		return x
	}
	next := *x
	next.byRef = next.byRef.Without(ref)
	next.count(f.rule, -1)
	next.editScopes(f, removing, -1)
	return &next
}

// editScopes puts copies in the place of the scopes of a rule, where that has been
// added or taken out.
func (x *Index) editScopes(f filed, e edit, by int) {
	for _, key := range scopesOf(f.rule) {
		var next scope
		if s := x.scopes.Get(key); s != nil {
			next = *s
		}
		next.edit(f, e)
		if next.rules += by; next.rules == 0 {
			x.scopes = x.scopes.Without(key)
		} else {
			x.scopes = x.scopes.With(key, &next)
		}
	}
}

func scopesOf(r *Rule) [2]scopeKey {
	return [...]scopeKey{{r.Type, r.Namespace}, {r.Type, ""}}
}

// Len is the number of rules.
func (x *Index) Len() int { return x.byRef.Len() }

// Rules returns all rules, in no order.
func (x *Index) Rules() []*Rule {
	rules := make([]*Rule, 0, x.byRef.Len())
	for _, f := range x.byRef.All() {
		rules = append(rules, f.rule)
	}
	return rules
}

func (x *Index) count(r *Rule, by int) {
	for _, l := range r.Selector.Labels {
		if n := x.pairs.Get(l) + by; n == 0 {
			x.pairs = x.pairs.Without(l)
		} else {
			x.pairs = x.pairs.With(l, n)
		}
	}
}

// anchor returns the label of a rule that the fewest rules ask for.
func (x *Index) anchor(r *Rule) (rarest Label) {
	for i, l := range r.Selector.Labels {
		if i == 0 || x.pairs.Get(l) < x.pairs.Get(rarest) {
			rarest = l
		}
	}
	return rarest
}

// Pick returns the rule for a machine and the tier that chose it; nil and None
// where nothing matches.
func (x *Index) Pick(q *Query) (*Rule, Tier) {
	if q.Offer == DefaultsOnly {
		if s := x.scopes.Get(scopeKey{q.Type, DefaultNamespace}); s != nil && len(s.defaults) > 0 {
			return s.defaults[0], Default
		}
		return nil, None
	}
	// Where nothing in the own namespace matches, what matches among all is the
	// answer of the others.
	var own, all *scope
	if q.Namespace != "" {
		own = x.scopes.Get(scopeKey{q.Type, q.Namespace})
	}
	if q.Offer == Everywhere {
		all = x.scopes.Get(scopeKey{q.Type, ""})
	}
	if q.Role != "" {
		if r := own.role(q.Role); r != nil {
			return r, Role
		}
		if r := all.role(q.Role); r != nil {
			return r, Role
		}
	}
	var image *Rule
	if q.Image != (Ref{}) {
		if image = x.byRef.Get(q.Image).rule; image != nil && image.Type != q.Type {
			image = nil
		}
	}
	ownImage := image
	if image != nil && image.Namespace != q.Namespace {
		ownImage = nil
	}
	if r, tier := own.pick(&q.Facts, ownImage); r != nil {
		return r, tier
	}
	return all.pick(&q.Facts, image)
}
