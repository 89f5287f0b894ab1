package match

import "slices"

// Index finds the rule for a machine in a time that does not depend on the
// number of rules. It is not safe for concurrent use.
type Index struct {
	// scopes holds the rules of each type by namespace, and, under the
	// namespace "", those of all namespaces together.
	scopes map[scopeKey]*scope
	byRef  map[Ref]*Rule
	// pairs counts how many selectors ask for a label.
	pairs map[Label]int
}

type scopeKey struct{ typ, namespace string }

// NewIndex makes an index of rules, whose order does not matter. No two rules
// have the same Ref.
func NewIndex(rules []*Rule) *Index {
	x := &Index{
		scopes: make(map[scopeKey]*scope),
		byRef:  make(map[Ref]*Rule, len(rules)),
		pairs:  make(map[Label]int),
	}
	// All labels are counted before the first is anchored, and in the order of
	// ties every insertion is an append.
	for _, r := range rules {
		x.count(r, 1)
	}
	sorted := slices.Clone(rules)
	slices.SortFunc(sorted, (*Rule).Compare)
	for _, r := range sorted {
		x.file(r)
	}
	return x
}

// Put adds a rule in the place of the one with the same Ref.
func (x *Index) Put(r *Rule) {
	x.Delete(r.Ref)
	x.count(r, 1)
	x.file(r)
}

// Delete takes out the rule of that name, if there is one.
func (x *Index) Delete(ref Ref) {
	r := x.byRef[ref]
	if r == nil {
		return
	}
	delete(x.byRef, ref)
	x.count(r, -1)
	for _, namespace := range [...]string{r.Namespace, ""} {
		key := scopeKey{r.Type, namespace}
		s := x.scopes[key]
		s.edit(r, remove)
		if s.rules--; s.rules == 0 {
			delete(x.scopes, key)
		}
	}
}

// Len is the number of rules.
func (x *Index) Len() int { return len(x.byRef) }

// Rules gives all rules, in no order.
func (x *Index) Rules() []*Rule {
	rules := make([]*Rule, 0, len(x.byRef))
	for _, r := range x.byRef {
		rules = append(rules, r)
	}
	return rules
}

func (x *Index) count(r *Rule, by int) {
	for _, l := range r.Selector.Labels {
		if x.pairs[l] += by; x.pairs[l] == 0 {
			delete(x.pairs, l)
		}
	}
}

// file puts a rule, whose labels are counted, into its two scopes.
func (x *Index) file(r *Rule) {
	x.byRef[r.Ref] = r
	for i, l := range r.Selector.Labels {
		if i == 0 || x.pairs[l] < x.pairs[r.anchor] {
			r.anchor = l
		}
	}
	for _, namespace := range [...]string{r.Namespace, ""} {
		key := scopeKey{r.Type, namespace}
		s := x.scopes[key]
		if s == nil {
			s = new(scope)
			x.scopes[key] = s
		}
		s.edit(r, insert)
		s.rules++
	}
}

// Pick gives the rule for a machine and the tier that chose it; nil and None
// where nothing matches.
func (x *Index) Pick(q *Query) (*Rule, Tier) {
	if q.Offer == DefaultsOnly {
		if s := x.scopes[scopeKey{q.Type, DefaultNamespace}]; s != nil && len(s.defaults) > 0 {
			return s.defaults[0], Default
		}
		return nil, None
	}
	// Where nothing in the own namespace matches, what matches among all is the
	// answer of the others.
	var own, all *scope
	if q.Namespace != "" {
		own = x.scopes[scopeKey{q.Type, q.Namespace}]
	}
	if q.Offer == Everywhere {
		all = x.scopes[scopeKey{q.Type, ""}]
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
		if image = x.byRef[q.Image]; image != nil && image.Type != q.Type {
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
