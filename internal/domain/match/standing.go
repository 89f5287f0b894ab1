package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// Standing is the result of comparing one rule with a query. The order of standings defines
// matching: an Index has to pick the rule whose Standing goes first.
type Standing struct {
	Rule *Rule
	// Tier is the first tier in which the rule matches; None: it does not match, or is not
	// offered.
	Tier Tier
	// Offered is true unless the rule is of another type or isolation keeps it
	// from the machine.
	Offered bool
	// Reason names the part of the rule that matches, or says why none does.
	Reason string

	// isForeign is true for a rule outside the machine's namespace.
	isForeign bool
	// depth is the order within the tier, lower first. Rules of the same depth are ordered
	// by age.
	depth int
}

// Rank evaluates every rule. Those that match come first, in the order in which
// they win; the rest follow by namespace and name. isIsland reports whether a
// namespace is an island; nil: none is.
func Rank(rules []*Rule, q *Query, isIsland func(namespace string) bool) []Standing {
	standings := make([]Standing, len(rules))
	query := newIndexedQuery(q)
	query.isIsland = isIsland
	for i, r := range rules {
		standings[i] = query.standing(r)
	}
	slices.SortFunc(standings, Standing.compare)
	return standings
}

// compare is the order of precedence: role in the own namespace, role in the
// others, every other tier in the own namespace, then in the others.
func (s Standing) compare(o Standing) int {
	if s.Tier == None || o.Tier == None {
		return cmp.Or(compareBools(s.Tier == None, o.Tier == None), s.Rule.Ref.Compare(o.Rule.Ref))
	}
	return cmp.Or(
		compareBools(s.Tier != Role, o.Tier != Role),
		compareBools(s.isForeign, o.isForeign),
		cmp.Compare(s.Tier, o.Tier),
		cmp.Compare(s.depth, o.depth),
		s.Rule.Compare(o.Rule),
	)
}

// Equals reports whether both match and only the age of the rules puts one first.
func (s Standing) Equals(o Standing) bool {
	return s.Tier != None && s.Tier == o.Tier && s.isForeign == o.isForeign && s.depth == o.depth
}

// Equal reports whether two rules match a machine and only their age puts a before b. tier is that
// of b.
func Equal(a, b *Rule, tier Tier, q *Query) bool {
	// Most rules differ in what can be seen at once.
	if (a.Namespace == q.Namespace) != (b.Namespace == q.Namespace) ||
		tier == Labels && a.Selector.requirements() != b.Selector.requirements() ||
		tier == Default && !a.Selector.Default {
		return false
	}
	indexed := newIndexedQuery(q)
	return indexed.standing(a).Equals(indexed.standing(b))
}

// compareBools compares two bools: false goes first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Over says why s goes before o; both match.
func (s Standing) Over(o Standing) string {
	switch {
	case s.Tier == Role && o.Tier != Role:
		return "the role that was asked for goes first"
	case s.isForeign != o.isForeign:
		return "the host's own namespace goes first"
	case s.Tier != o.Tier:
		return fmt.Sprintf("%s goes before %s", s.Tier, o.Tier)
	case s.depth != o.depth:
		return map[Tier]string{
			Role:   roleOrder(s.depth),
			MAC:    macOrder(s.depth),
			IP:     fmt.Sprintf("its prefix has fewer host bits (%d, not %d)", s.depth, o.depth),
			Labels: labelOrder(s.Rule, o.Rule),
		}[s.Tier]
	case !s.Rule.Created.Equal(o.Rule.Created):
		return "a tie: the older goes first"
	}
	return "a tie of the same age: the order of namespace/name decides"
}

// roleOrder says why a rule of a depth of the tier Role goes before a deeper one.
func roleOrder(depth int) string {
	if depth == 0 {
		return "the label role goes before the name"
	}
	return "the name with -target goes before the name of the role"
}

// macOrder says why a rule of a depth of the tier MAC goes before a deeper one.
func macOrder(depth int) string {
	if depth == 0 {
		return "a whole address goes before a prefix"
	}
	return "the longer prefix goes first"
}

// labelOrder says why the rule with more labels and expressions goes first.
func labelOrder(r, other *Rule) string {
	if len(r.Selector.Expressions)+len(other.Selector.Expressions) > 0 {
		return "more labels and expressions go first"
	}
	return "more labels go first"
}

// standing compares one rule with the query.
func (q *indexedQuery) standing(r *Rule) Standing {
	s := Standing{Rule: r, isForeign: q.Namespace == "" || r.Namespace != q.Namespace}
	switch {
	case r.Type != q.Type:
		s.Reason = "its type is " + r.Type
	case q.Offer == OwnNamespace && s.isForeign:
		s.Reason = "isolated: the host's namespace is an island, so only its own configs are offered"
	case s.isForeign && q.isIsland != nil && q.isIsland(r.Namespace):
		s.Reason = "isolated: the namespace " + r.Namespace + " is an island, so its configs are for its own hosts"
	case q.Offer == DefaultsOnly && !r.Selector.Default:
		s.Reason = "isolated: there are islands, so an unknown machine is offered only defaults"
	case q.Offer == DefaultsOnly:
		s.Offered, s.Tier, s.Reason = true, Default, "it is a default of a namespace that is no island"
	default:
		s.Offered = true
		q.evaluate(r, &s)
	}
	return s
}

// evaluate compares a rule that is offered with the host, tier by tier.
func (q *indexedQuery) evaluate(r *Rule, s *Standing) {
	sel := &r.Selector
	empty := sel.IsEmpty()
	if empty && q.evaluateRole(r, s) {
		return
	}
	if i := slices.IndexFunc(sel.MACs, q.hasMAC); i >= 0 {
		s.Tier, s.Reason = MAC, "matchMACs has "+sel.MACs[i].String()
		return
	}
	if p, ok := q.longestMAC(sel.MACPrefixes); ok {
		s.Tier, s.depth, s.Reason = MAC, len(netaddr.MAC{})-p.Bytes, "matchMACs has "+p.String()
		return
	}
	if p, a, ok := q.longest(sel.Prefixes); ok {
		s.Tier, s.depth = IP, hostBits(p)
		if p.IsSingleIP() {
			s.Reason = "matchIPs has " + a.String()
		} else {
			s.Reason = fmt.Sprintf("matchIPs has %s, where %s is", p, a)
		}
		return
	}
	if i := slices.IndexFunc(sel.Hostnames, q.hasHost); i >= 0 {
		s.Tier, s.Reason = Hostname, "matchHostnames has "+sel.Hostnames[i]
		return
	}
	if q.hasLabels(sel) {
		s.Tier, s.depth, s.Reason = Labels, -sel.requirements(), holding(sel)
		return
	}
	if q.Image != (Ref{}) && q.Image == r.Ref {
		s.Tier, s.Reason = Image, "the host's image names it"
		return
	}
	if sel.Default {
		s.Tier, s.Reason = Default, "it is a default"
		return
	}
	s.Reason = q.miss(sel, empty)
}

// evaluateRole reports whether a rule without a selector is for the role that was
// requested.
func (q *indexedQuery) evaluateRole(r *Rule, s *Standing) bool {
	switch {
	case q.Role == "":
		return false
	case r.Role == q.Role:
		s.Tier, s.depth, s.Reason = Role, 0, "its label role is "+q.Role
	case r.Name == q.Role+"-target":
		s.Tier, s.depth, s.Reason = Role, 1, "its name is the role with -target"
	case r.Name == q.Role:
		s.Tier, s.depth, s.Reason = Role, 2, "its name is the role"
	default:
		return false
	}
	return true
}

// SameHost compares two host names in lower case: they are equal, or one of
// them has no dot and equals the other's first label.
func SameHost(a, b string) bool {
	if a == b {
		return true
	}
	firstA, firstB := netaddr.FirstLabel(a), netaddr.FirstLabel(b)
	return firstA == firstB && (firstA == a || firstB == b)
}

// miss says why no field of a selector matches.
func (q *Query) miss(sel *Selector, empty bool) string {
	if empty {
		return "its selector is empty: it is given by role or image only"
	}
	var fields []string
	if len(sel.MACs)+len(sel.MACPrefixes) > 0 {
		fields = append(fields, "matchMACs has none of its MACs")
	}
	switch {
	case len(sel.Prefixes) > 0 && len(q.IPs) == 0:
		fields = append(fields, "matchIPs is not counted, since its address is not known")
	case len(sel.Prefixes) > 0:
		fields = append(fields, "matchIPs has none of its addresses")
	}
	if len(sel.Hostnames) > 0 {
		fields = append(fields, "matchHostnames has none of its names")
	}
	for _, l := range sel.Labels {
		if v, ok := q.Label(l.Key); !ok {
			fields = append(fields, fmt.Sprintf("it has no label %s", l.Key))
		} else if v != l.Value {
			fields = append(fields, fmt.Sprintf("its label %s is %q, not %q", l.Key, v, l.Value))
		}
	}
	isMissed := false
	for i := range sel.Expressions {
		if e := &sel.Expressions[i]; !e.holds(&q.Facts) {
			isMissed = true
			fields = append(fields, fmt.Sprintf("matchExpressions does not hold: %s", e))
		}
	}
	if len(sel.Expressions) > 0 && len(sel.Labels) == 0 && !isMissed {
		fields = append(fields, "matchExpressions needs no label, so it is for known hosts only")
	}
	return strings.Join(fields, "; ")
}

// holding says which labels and expressions hold.
func holding(sel *Selector) string {
	var parts []string
	if len(sel.Labels) > 0 {
		parts = append(parts, "matchLabels holds: "+joinLabels(sel.Labels))
	}
	if len(sel.Expressions) > 0 {
		texts := make([]string, len(sel.Expressions))
		for i := range sel.Expressions {
			texts[i] = sel.Expressions[i].String()
		}
		parts = append(parts, "matchExpressions holds: "+strings.Join(texts, ", "))
	}
	return strings.Join(parts, "; ")
}

func joinLabels(labels []Label) string {
	pairs := make([]string, len(labels))
	for i, l := range labels {
		pairs[i] = l.Key + "=" + l.Value
	}
	return strings.Join(pairs, ", ")
}
