package match

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

// world makes rules and queries from few values, so that matches, ties and
// near misses are frequent.
type world struct{ *rand.Rand }

func pickOf[T any](w world, values ...T) T { return values[w.IntN(len(values))] }

func some[T any](w world, one func() T) []T {
	var out []T
	for range max(0, w.IntN(5)-2) {
		out = append(out, one())
	}
	return out
}

func (w world) namespace() string { return pickOf(w, "default", "g10", "g11") }
func (w world) typ() string       { return pickOf(w, "ignition", "ignition", "kickstart") }
func (w world) mac() netaddr.MAC  { return netaddr.MAC{2, 0, 0, 0, byte(w.IntN(2)), byte(w.IntN(6))} }
func (w world) role() string      { return pickOf(w, "", "", "builder", "server") }
func (w world) hostname() string {
	return pickOf(w, "node1", "node2", "node1.lab", "node1.lab.example", "node2.lab", "lab")
}

func (w world) addr() netip.Addr {
	if w.IntN(3) == 0 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(w.IntN(8))})
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(w.IntN(2)), byte(w.IntN(8))})
}

func (w world) prefix() netip.Prefix {
	a := w.addr()
	p, _ := a.Prefix(a.BitLen() - pickOf(w, 0, 0, 1, 2, 8, 24, a.BitLen()))
	return p
}

func (w world) labels() map[string]string {
	m := map[string]string{}
	for range w.IntN(4) {
		m[pickOf(w, "role", "rack", "site")] = pickOf(w, "builder", "server", "a")
	}
	return m
}

func (w world) expression() metav1.LabelSelectorRequirement {
	r := metav1.LabelSelectorRequirement{
		Key: pickOf(w, "role", "rack", "site"),
		Operator: pickOf(w, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
			metav1.LabelSelectorOpDoesNotExist),
	}
	if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
		for range 1 + w.IntN(2) {
			r.Values = append(r.Values, pickOf(w, "builder", "server", "a"))
		}
	}
	return r
}

func (w world) rule(i int) *Rule {
	r := &Rule{
		Ref: Ref{w.namespace(), pickOf(w, fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i), "builder", "builder-target",
			"server")},
		Type:    w.typ(),
		Created: time.Unix(int64(w.IntN(3)), 0).UTC(),
		Role:    w.role(),
	}
	if w.IntN(3) > 0 {
		var macs, ips, names []string
		for _, m := range some(w, w.mac) {
			macs = append(macs, m.String())
		}
		for range max(0, w.IntN(6)-4) {
			macs = append(macs, w.mac().Prefix(1+w.IntN(5)).String())
		}
		for _, p := range some(w, w.prefix) {
			ips = append(ips, p.String())
		}
		names = some(w, w.hostname)
		var labels map[string]string
		if w.IntN(2) == 0 {
			labels = w.labels()
		}
		var expressions []metav1.LabelSelectorRequirement
		if w.IntN(3) == 0 {
			expressions = some(w, w.expression)
		}
		sel, err := ParseSelector(labels, expressions, names, ips, macs, w.IntN(6) == 0)
		if err != nil {
			panic(err)
		}
		r.Selector = sel
	}
	return r
}

func (w world) query(rules []*Rule) *Query {
	q := &Query{
		Type:      w.typ(),
		Namespace: pickOf(w, "", "g10", "g11", "elsewhere"),
		Offer:     pickOf(w, Everywhere, Everywhere, OwnNamespace, DefaultsOnly),
		Facts: Facts{
			MACs: some(w, w.mac), IPs: some(w, w.addr), Hostnames: some(w, w.hostname),
			Labels: w.labels(), Role: w.role(),
		},
	}
	if len(rules) > 0 && w.IntN(3) == 0 {
		q.Image = rules[w.IntN(len(rules))].Ref
	}
	if q.Offer == DefaultsOnly {
		q.Namespace = "" // it is that of unknown machines
	}
	return q
}

// islands returns some namespaces.
func (w world) islands() map[string]bool {
	islands := map[string]bool{}
	for range max(0, w.IntN(4)-1) {
		islands[w.namespace()] = true
	}
	return islands
}

// linear is the answer without an index.
func linear(rules []*Rule, q *Query, islands map[string]bool) (*Rule, Tier) {
	ranked := Rank(rules, q, func(namespace string) bool { return islands[namespace] })
	if len(ranked) == 0 || ranked[0].Tier == None {
		return nil, None
	}
	return ranked[0].Rule, ranked[0].Tier
}

func describe(r *Rule) string {
	if r == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %v %+v", r.Type, r.Ref, r.Created.Unix(), r.Selector)
}

// answer is what an index picked before it was changed.
type answer struct {
	index Index
	query *Query
	rule  *Rule
}

// TestIndexAgreesWithRank compares the index, built at once and changed rule by
// rule, with the plain evaluation of the tiers, and has every index stay as it was.
func TestIndexAgreesWithRank(t *testing.T) {
	tiers := map[Tier]int{}
	for seed := range uint64(400) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		live := map[Ref]*Rule{}
		for i := range w.IntN(30) {
			r := w.rule(i)
			live[r.Ref] = r
		}
		x, islands := *NewIndex(values(live)...), map[string]bool{}
		var kept []answer
		for step := range 60 {
			switch w.IntN(5) {
			case 0:
				r := w.rule(step)
				live[r.Ref] = r
				x.Set(new(shardmap.Edit), r, islands[r.Namespace])
			case 1:
				for ref := range live {
					delete(live, ref)
					x.Delete(new(shardmap.Edit), ref)
					break
				}
			case 2:
				islands = w.islands()
				x.SetIslands(new(shardmap.Edit), func(namespace string) bool { return islands[namespace] })
			}
			rules := values(live)
			q := w.query(rules)
			gotRule, gotTier := x.Pick(q)
			wantRule, wantTier := linear(rules, q, islands)
			if gotRule != wantRule || gotTier != wantTier {
				t.Fatalf("seed %d step %d: query %+v\nindex:  %s %s\nlinear: %s %s", seed, step, q,
					gotTier, describe(gotRule), wantTier, describe(wantRule))
			}
			tiers[gotTier]++
			if step%10 == 0 {
				kept = append(kept, answer{x, q, gotRule})
			}
		}
		for _, a := range kept {
			if r, _ := a.index.Pick(a.query); r != a.rule {
				t.Fatalf("seed %d: an index that was changed since answers %s, and %s before", seed, describe(r), describe(a.rule))
			}
		}
		if x.byRef.Len() != len(live) || len(x.Rules()) != len(live) {
			t.Fatalf("the index holds %d rules, want %d", x.byRef.Len(), len(live))
		}
		for ref := range live {
			x.Delete(new(shardmap.Edit), ref)
			x.Delete(new(shardmap.Edit), ref)
		}
		if x.scopes.Len() != 0 || x.labelUses.Len() != 0 || x.typeUses.Len() != 0 ||
			x.byRef.Len() != 0 {
			t.Fatalf("an emptied index keeps %d scopes, %d labels, %d rules", x.scopes.Len(), x.labelUses.Len(), x.byRef.Len())
		}
	}
	for tier := None; tier <= Default; tier++ {
		if tiers[tier] < 50 {
			t.Errorf("tier %s was met %d times only: the test proves little", tier, tiers[tier])
		}
	}
}

// TestMayDependOnIP adds each address of the rules to queries without one: where one changes the
// result, the index has said that it may.
func TestMayDependOnIP(t *testing.T) {
	changed, unchanged := 0, 0
	for seed := range uint64(2000) {
		w := world{rand.New(rand.NewPCG(seed, 2))}
		var rules []*Rule
		seen := map[Ref]bool{}
		for i := range w.IntN(8) {
			if r := w.rule(i); !seen[r.Ref] {
				seen[r.Ref] = true
				rules = append(rules, r)
			}
		}
		x := NewIndex(rules...)
		q := w.query(rules)
		if q.IPs = nil; q.Namespace == "" || q.Offer == DefaultsOnly {
			continue // not of a host
		}
		before, tier := x.Pick(q)
		may := x.MayDependOnIP(q, before, tier)
		if !may {
			unchanged++
		}
		for _, r := range rules {
			for _, p := range r.Selector.Prefixes {
				q.IPs = []netip.Addr{p.Addr()}
				if after, _ := x.Pick(q); after != before {
					if changed++; !may {
						t.Fatalf("seed %d: %s changes %s to %s", seed, p, describe(before), describe(after))
					}
				}
			}
		}
	}
	if changed < 200 || unchanged < 200 {
		t.Errorf("%d results were changed and %d could not: the test proves little", changed, unchanged)
	}
}

func values(m map[Ref]*Rule) []*Rule {
	var out []*Rule
	for _, r := range m {
		out = append(out, r)
	}
	return out
}

func TestPickDoesNotAllocate(t *testing.T) {
	w := world{rand.New(rand.NewPCG(1, 1))}
	var rules []*Rule
	seen := map[Ref]bool{}
	for i := range 200 {
		if r := w.rule(i); !seen[r.Ref] {
			seen[r.Ref] = true
			rules = append(rules, r)
		}
	}
	x := NewIndex(rules...)
	q := &Query{Type: "ignition", Namespace: "elsewhere", Facts: Facts{
		MACs: []netaddr.MAC{{2, 9}}, IPs: []netip.Addr{netip.MustParseAddr("10.9.9.9")},
		Hostnames: []string{"node9.lab"}, Labels: map[string]string{"role": "none", "rack": "z"},
	}}
	if n := testing.AllocsPerRun(100, func() { x.Pick(q) }); n != 0 {
		t.Errorf("Pick allocates %v times", n)
	}
}

// BenchmarkPickByExpressions is BenchmarkPick for rules with expressions and prefixes of
// hardware addresses.
func BenchmarkPickByExpressions(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rules := make([]*Rule, n)
			for i := range rules {
				rules[i] = &Rule{
					Ref: Ref{"g10", fmt.Sprintf("c%d", i)}, Type: "ignition", Created: time.Unix(int64(i), 0),
					Selector: Selector{
						MACPrefixes: []netaddr.MACPrefix{netaddr.MAC{2, 0, 0, byte(i >> 8), byte(i)}.Prefix(5)},
						Expressions: []Expression{
							{"role", metav1.LabelSelectorOpExists, nil},
							{"rack", metav1.LabelSelectorOpIn, []string{fmt.Sprint(i), "x"}},
						},
					},
				}
			}
			x := NewIndex(rules...)
			q := &Query{Type: "ignition", Namespace: "g10", Facts: Facts{
				MACs: []netaddr.MAC{{2, 9}}, Labels: map[string]string{"role": "server", "rack": fmt.Sprint(n - 1)},
			}}
			b.ReportAllocs()
			for b.Loop() {
				if r, _ := x.Pick(q); r == nil {
					b.Fatal("no match")
				}
			}
		})
	}
}

// BenchmarkPick shows that the time does not depend on the number of rules.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rules := make([]*Rule, n)
			for i := range rules {
				rules[i] = &Rule{
					Ref: Ref{"g10", fmt.Sprintf("c%d", i)}, Type: "ignition", Created: time.Unix(int64(i), 0),
					Selector: Selector{
						MACs:   []netaddr.MAC{{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}},
						Labels: []Label{{"rack", fmt.Sprint(i)}, {"role", "server"}},
					},
				}
			}
			x := NewIndex(rules...)
			q := &Query{Type: "ignition", Namespace: "g10", Facts: Facts{
				MACs: []netaddr.MAC{{2, 9}}, IPs: []netip.Addr{netip.MustParseAddr("10.9.9.9")},
				Hostnames: []string{"node9.lab"}, Labels: map[string]string{"role": "server", "rack": fmt.Sprint(n - 1)},
			}}
			b.ReportAllocs()
			for b.Loop() {
				if r, _ := x.Pick(q); r == nil {
					b.Fatal("no match")
				}
			}
		})
	}
}
