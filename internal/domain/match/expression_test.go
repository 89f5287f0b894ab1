package match

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"glowplug/internal/domain/netaddr"
)

// TestExpressionsAgreeWithKubernetes compares the expressions of a known host with the
// selectors of Kubernetes.
func TestExpressionsAgreeWithKubernetes(t *testing.T) {
	outcomes := map[bool]int{}
	for seed := range uint64(2000) {
		w := world{rand.New(rand.NewPCG(seed, 2))}
		requirements := []metav1.LabelSelectorRequirement{w.expression()}
		requirements = append(requirements, some(w, w.expression)...)
		matchLabels, has := w.labels(), w.labels()
		sel, err := ParseSelector(matchLabels, requirements, nil, nil, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		want, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
			MatchLabels: matchLabels, MatchExpressions: requirements})
		if err != nil {
			t.Fatal(err)
		}
		q := &Query{Namespace: "g10", Facts: Facts{Labels: has}}
		if got := q.hasLabels(&sel); got != want.Matches(labels.Set(has)) {
			t.Fatalf("%s with labels %v: %v", want, has, got)
		}
		outcomes[want.Matches(labels.Set(has))]++
	}
	if outcomes[true] < 100 || outcomes[false] < 100 {
		t.Errorf("the test proves little: %v", outcomes)
	}
}

// named returns a rule of the namespace g10.
func named(t *testing.T, name string, matchLabels map[string]string, expressions []metav1.LabelSelectorRequirement,
	macs ...string) *Rule {
	t.Helper()
	sel, err := ParseSelector(matchLabels, expressions, nil, nil, macs, false)
	if err != nil {
		t.Fatal(err)
	}
	return &Rule{Ref: Ref{"g10", name}, Type: "ignition", Created: time.Unix(1, 0), Selector: sel}
}

func requirement(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func TestExpressionsCountAsLabels(t *testing.T) {
	label := map[string]string{"role": "worker"}
	exists := requirement("site", metav1.LabelSelectorOpExists)
	rules := []*Rule{
		named(t, "a-one-label", label, nil),
		named(t, "z-label-and-expression", label, []metav1.LabelSelectorRequirement{exists}),
		named(t, "m-expression", nil, []metav1.LabelSelectorRequirement{
			requirement("role", metav1.LabelSelectorOpIn, "worker", "builder")}),
	}
	q := &Query{Type: "ignition", Namespace: "g10", Facts: Facts{Labels: map[string]string{"role": "worker", "site": "a"}}}
	ranked := Rank(rules, q, nil)
	var names []string
	for _, s := range ranked {
		names = append(names, s.Rule.Name)
	}
	if got := strings.Join(names, " "); got != "z-label-and-expression a-one-label m-expression" {
		t.Error(got)
	}
	if got := ranked[0].Reason; got != "matchLabels holds: role=worker; matchExpressions holds: site" {
		t.Error(got)
	}
	if got := ranked[0].Over(ranked[1]); got != "more labels and expressions go first" {
		t.Error(got)
	}
	q.Labels = map[string]string{"role": "other"}
	if got := Rank(rules, q, nil)[1]; got.Reason != "matchExpressions does not hold: role in (builder,worker)" {
		t.Errorf("%s: %s", got.Rule.Name, got.Reason)
	}
}

// TestUnknownMachineNeedsALabel: a selector that only forbids labels is no default for
// machines of which nothing is known.
func TestUnknownMachineNeedsALabel(t *testing.T) {
	rule := named(t, "a", nil, []metav1.LabelSelectorRequirement{requirement("role", metav1.LabelSelectorOpDoesNotExist)})
	x := NewIndex(rule)
	known, unknown := &Query{Type: "ignition", Namespace: "g10"}, &Query{Type: "ignition"}
	if got, tier := x.Pick(known); got != rule || tier != Labels {
		t.Errorf("a known host is given %v by %s", got, tier)
	}
	if got, _ := x.Pick(unknown); got != nil {
		t.Errorf("an unknown machine is given %s", got.Ref)
	}
	if got := Rank([]*Rule{rule}, unknown, nil)[0].Reason; !strings.Contains(got, "known hosts only") {
		t.Error(got)
	}
}

func TestLongestMACPrefixGoesFirst(t *testing.T) {
	rules := []*Rule{
		named(t, "a-short", nil, nil, "52:54:00:*"), named(t, "b-long", nil, nil, "52-54-00-AB-*"),
		named(t, "z-exact", nil, nil, "52:54:00:ab:cd:01"),
	}
	x := NewIndex(rules...)
	for mac, want := range map[string]string{
		"52:54:00:ab:cd:01": "z-exact", "52:54:00:ab:cd:02": "b-long", "52:54:00:00:00:01": "a-short", "52:54:01:00:00:01": "",
	} {
		parsed, err := netaddr.ParseMAC(mac)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := x.Pick(&Query{Type: "ignition", Facts: Facts{MACs: []netaddr.MAC{parsed}}})
		if want == "" && got != nil || want != "" && (got == nil || got.Name != want) {
			t.Errorf("%s is given %v, want %q", mac, got, want)
		}
	}
	parsed, _ := netaddr.ParseMAC("52:54:00:ab:cd:01")
	ranked := Rank(rules, &Query{Type: "ignition", Facts: Facts{MACs: []netaddr.MAC{parsed}}}, nil)
	if ranked[0].Over(ranked[1]) != "a whole address goes before a prefix" ||
		ranked[1].Over(ranked[2]) != "the longer prefix goes first" || ranked[1].Reason != "matchMACs has 52:54:00:ab:*" {
		t.Errorf("%+v", ranked)
	}
}
