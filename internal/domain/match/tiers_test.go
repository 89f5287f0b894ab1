package match

import (
	"net/netip"
	"testing"
	"time"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/shardmap"
)

func rule(t *testing.T, ref Ref, age int, typ string, sel Selector) *Rule {
	t.Helper()
	return &Rule{Ref: ref, Type: typ, Created: time.Unix(int64(1000-age), 0), Selector: sel}
}

// TestTiers has a case for each sentence of the matching order.
func TestTiers(t *testing.T) {
	mac := netaddr.MAC{2, 0, 0, 0, 0, 1}
	byMAC := Selector{MACs: []netaddr.MAC{mac}}
	byIP := func(p string) Selector { return Selector{Prefixes: []netip.Prefix{netip.MustParsePrefix(p)}} }
	byName := Selector{Hostnames: []string{"node1"}}
	byLabels := func(l ...Label) Selector { return Selector{Labels: l} }
	byDefault := Selector{Default: true}
	host := Facts{
		MACs: []netaddr.MAC{{2, 9}, mac}, IPs: []netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")},
		Hostnames: []string{"node1.lab"}, Labels: map[string]string{"role": "builder", "rack": "7"},
	}
	withRole := func(role string) Facts { f := host; f.Role = role; return f }
	withImage := func(ref Ref) Facts { f := host; f.Image = ref; return f }
	own := func(name string) Ref { return Ref{"g10", name} }
	other := func(name string) Ref { return Ref{"a", name} }
	const ign = "ignition"

	for _, c := range []struct {
		name   string
		rules  []*Rule
		facts  Facts
		offer  Offer
		anon   bool // the machine has no namespace
		island string
		want   string
		tier   Tier
		reason string // of the second, where one is named
	}{
		{name: "MAC before IP", facts: host, want: "g10/m", tier: MAC, reason: "mac goes before ip", rules: []*Rule{
			rule(t, own("i"), 9, ign, byIP("10.0.0.9/32")), rule(t, own("m"), 0, ign, byMAC)}},
		{name: "IP before hostname", facts: host, want: "g10/i", tier: IP, rules: []*Rule{
			rule(t, own("n"), 9, ign, byName), rule(t, own("i"), 0, ign, byIP("10.0.0.0/8"))}},
		{name: "longest prefix first", facts: host, want: "g10/long", tier: IP,
			reason: "its prefix has fewer host bits (8, not 24)",
			rules: []*Rule{
				rule(t, own("short"), 9, ign, byIP("10.0.0.0/8")), rule(t, own("long"), 0, ign, byIP("10.0.0.0/24"))}},
		{name: "an exact IPv4 address before an IPv6 prefix", facts: host, want: "g10/exact", tier: IP, rules: []*Rule{
			rule(t, own("net"), 9, ign, byIP("fd00::/64")), rule(t, own("exact"), 0, ign, byIP("10.0.0.9/32"))}},
		{name: "prefixes of two families: fewer host bits first", facts: host, want: "g10/four", tier: IP,
			reason: "its prefix has fewer host bits (24, not 64)", rules: []*Rule{
				rule(t, own("six"), 9, ign, byIP("fd00::/64")), rule(t, own("four"), 0, ign, byIP("10.0.0.0/8"))}},
		{name: "hostname before labels", facts: host, want: "g10/n", tier: Hostname, rules: []*Rule{
			rule(t, own("l"), 9, ign, byLabels(Label{"role", "builder"})), rule(t, own("n"), 0, ign, byName)}},
		{name: "more labels first", facts: host, want: "g10/two", tier: Labels, reason: "more labels go first",
			rules: []*Rule{
				rule(t, own("one"), 9, ign, byLabels(Label{"role", "builder"})),
				rule(t, own("two"), 0, ign, byLabels(Label{"rack", "7"}, Label{"role", "builder"}))}},
		{name: "all labels must hold", facts: host, tier: None, rules: []*Rule{
			rule(t, own("two"), 0, ign, byLabels(Label{"rack", "8"}, Label{"role", "builder"}))}},
		{name: "labels before the image", facts: withImage(own("img")), want: "g10/l", tier: Labels, rules: []*Rule{
			rule(t, own("img"), 9, ign, Selector{}), rule(t, own("l"), 0, ign, byLabels(Label{"rack", "7"}))}},
		{name: "the image before defaults", facts: withImage(own("img")), want: "g10/img", tier: Image, rules: []*Rule{
			rule(t, own("d"), 9, ign, byDefault), rule(t, own("img"), 0, ign, Selector{})}},
		{name: "an image's config elsewhere after the own default", facts: withImage(other("img")), want: "g10/d",
			tier: Default, rules: []*Rule{
				rule(t, own("d"), 0, ign, byDefault), rule(t, other("img"), 9, ign, Selector{})}},
		{name: "all tiers in the own namespace first", facts: host, want: "g10/d", tier: Default,
			reason: "the host's own namespace goes first", rules: []*Rule{
				rule(t, own("d"), 0, ign, byDefault), rule(t, other("m"), 9, ign, byMAC)}},
		{name: "then in the others", facts: host, want: "a/m", tier: MAC, rules: []*Rule{
			rule(t, own("n"), 0, ign, byIP("10.9.0.0/16")), rule(t, other("m"), 9, ign, byMAC)}},
		{name: "a tie: the older", facts: host, want: "g10/z", tier: MAC, reason: "a tie: the older goes first",
			rules: []*Rule{
				rule(t, own("a"), 1, ign, byMAC), rule(t, own("z"), 2, ign, byMAC)}},
		{name: "a tie of one age: the name", facts: host, want: "g10/a", tier: MAC, rules: []*Rule{
			rule(t, own("z"), 1, ign, byMAC), rule(t, own("a"), 1, ign, byMAC)}},
		{name: "a tie of one age: the namespace", facts: host, anon: true, want: "a/z", tier: MAC, rules: []*Rule{
			rule(t, other("z"), 1, ign, byMAC), rule(t, own("a"), 1, ign, byMAC)}},
		{name: "a selector is an OR of its fields", facts: host, want: "g10/or", tier: Hostname, rules: []*Rule{
			rule(t, own("or"), 0, ign, Selector{MACs: []netaddr.MAC{{2, 7}}, Hostnames: []string{"node1"}})}},
		{name: "an empty selector matches nobody", facts: host, tier: None, rules: []*Rule{rule(t, own("builder"), 0, ign,
			Selector{})}},
		{name: "another type is not considered", facts: host, tier: None, rules: []*Rule{rule(t, own("m"), 0, "kickstart",
			byMAC)}},
		{name: "role: R-target before R, and before MAC", facts: withRole("builder"), want: "g10/builder-target", tier: Role,
			rules: []*Rule{
				rule(t, own("m"), 9, ign, byMAC), rule(t, own("builder"), 5, ign, Selector{}), rule(t, own("builder-target"), 0,
					ign, Selector{})}},
		{name: "role: the name R", facts: withRole("builder"), want: "g10/builder", tier: Role, rules: []*Rule{
			rule(t, own("m"), 9, ign, byMAC), rule(t, own("builder"), 5, ign, Selector{})}},
		{name: "role: only among empty selectors", facts: withRole("builder"), want: "g10/m", tier: MAC, rules: []*Rule{
			rule(t, own("m"), 9, ign, byMAC), rule(t, own("builder"), 5, ign, byIP("10.9.9.9/32"))}},
		{name: "role: all three in the own namespace first", facts: withRole("builder"), want: "g10/builder", tier: Role,
			rules: []*Rule{
				rule(t, own("builder"), 0, ign, Selector{}), rule(t, other("builder-target"), 9, ign, Selector{})}},
		{name: "role: then in the others, before the own tiers", facts: withRole("builder"), want: "a/builder-target",
			tier: Role, reason: "the role that was asked for goes first", rules: []*Rule{
				rule(t, own("m"), 0, ign, byMAC), rule(t, other("builder-target"), 9, ign, Selector{})}},
		{name: "role: none, and R overlays the label", facts: withRole("server"), want: "g10/s", tier: Labels, rules: []*Rule{
			rule(t, own("b"), 9, ign, byLabels(Label{"role", "builder"})), rule(t, own("s"), 0, ign,
				byLabels(Label{"role", "server"}))}},
		{name: "isolated: nothing from the others", facts: host, offer: OwnNamespace, tier: None, rules: []*Rule{
			rule(t, other("m"), 0, ign, byMAC)}},
		{name: "isolated: no image's config from the others", facts: withImage(other("img")), offer: OwnNamespace, tier: None,
			rules: []*Rule{
				rule(t, other("img"), 0, ign, Selector{}), rule(t, own("x"), 0, ign, byIP("10.9.9.9/32"))}},
		{name: "isolated: no role from the others", facts: withRole("builder"), offer: OwnNamespace, tier: None,
			rules: []*Rule{
				rule(t, other("builder-target"), 0, ign, Selector{})}},
		{name: "isolated, unknown: only the defaults of no island", facts: host, offer: DefaultsOnly, anon: true,
			island: "g10", want: "a/d", tier: Default, rules: []*Rule{
				rule(t, other("m"), 9, ign, byMAC), rule(t, own("d"), 9, ign, byDefault), rule(t, other("d"), 0, ign, byDefault)}},
		{name: "nothing from an island, whatever its tier", facts: host, island: "a", want: "g10/d", tier: Default,
			rules: []*Rule{rule(t, other("m"), 9, ign, byMAC), rule(t, own("d"), 0, ign, byDefault)}},
		{name: "no image's config from an island", facts: withImage(other("img")), island: "a", tier: None,
			rules: []*Rule{rule(t, other("img"), 0, ign, Selector{}), rule(t, Ref{"b", "x"}, 0, ign, byIP("10.9.9.9/32"))}},
		{name: "no role from an island", facts: withRole("builder"), island: "a", want: "b/builder", tier: Role,
			rules: []*Rule{rule(t, other("builder-target"), 9, ign, Selector{}), rule(t, Ref{"b", "builder"}, 0, ign, Selector{})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &Query{Type: ign, Namespace: "g10", Offer: c.offer, Facts: c.facts}
			if c.anon {
				q.Namespace = ""
			}
			isIsland := func(namespace string) bool { return namespace == c.island }
			x := NewIndex(c.rules...)
			x.SetIslands(new(shardmap.Edit), isIsland)
			r, tier := x.Pick(q)
			got := ""
			if r != nil {
				got = r.Ref.String()
			}
			if got != c.want || tier != c.tier {
				t.Errorf("got %q by %s, want %q by %s", got, tier, c.want, c.tier)
			}
			ranked := Rank(c.rules, q, isIsland)
			if c.reason != "" && ranked[0].Over(ranked[1]) != c.reason {
				t.Errorf("the winner goes first because %q, want %q", ranked[0].Over(ranked[1]), c.reason)
			}
			for _, s := range ranked {
				if s.Reason == "" {
					t.Errorf("%s stands without a reason", s.Rule.Ref)
				}
			}
		})
	}
}

// TestRoleLabel has the label go before the names.
func TestRoleLabel(t *testing.T) {
	labelled := rule(t, Ref{"g10", "x"}, 0, "ignition", Selector{})
	labelled.Role = "builder"
	rules := []*Rule{labelled, rule(t, Ref{"g10", "builder-target"}, 9, "ignition", Selector{})}
	q := &Query{Type: "ignition", Namespace: "g10", Facts: Facts{Role: "builder"}}
	if r, tier := NewIndex(rules...).Pick(q); r != labelled || tier != Role {
		t.Errorf("got %v by %s, want the labelled one", r, tier)
	}
	if got := Rank(rules, q, nil)[0].Over(Rank(rules, q, nil)[1]); got != "the label role goes before the name" {
		t.Errorf("reason %q", got)
	}
}

// TestRoleNames has the name with -target go before the name of the role.
func TestRoleNames(t *testing.T) {
	target := rule(t, Ref{"g10", "builder-target"}, 0, "ignition", Selector{})
	rules := []*Rule{rule(t, Ref{"g10", "builder"}, 9, "ignition", Selector{}), target}
	ranked := Rank(rules, &Query{Type: "ignition", Namespace: "g10", Facts: Facts{Role: "builder"}}, nil)
	if ranked[0].Rule != target {
		t.Errorf("%s wins, want the name with -target", ranked[0].Rule.Ref)
	}
	if got, want := ranked[0].Over(ranked[1]), "the name with -target goes before the name of the role"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}
