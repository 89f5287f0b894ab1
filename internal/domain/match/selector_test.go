package match

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/domain/netaddr"
)

// Each value counts once, where it stands first.
func TestUnique(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""}, {"a", "a"}, {"aa", "a"}, {"bab", "ba"}, {"abcabcd", "abcd"},
	} {
		if got := strings.Join(Unique(strings.Split(test.in, "")), ""); got != test.want {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
}

// A list that was stored before there were bounds is read in linear time.
func TestParseLongSelector(t *testing.T) {
	macs := make([]string, 200_000)
	for i := range macs {
		macs[i] = fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)
	}
	began := time.Now()
	sel, err := ParseSelector(nil, nil, nil, nil, macs, false)
	if took := time.Since(began); err != nil || len(sel.MACs) != len(macs) || took > 5*time.Second {
		t.Errorf("%d of %d after %v: %v", len(sel.MACs), len(macs), took, err)
	}
}

func TestParseSelector(t *testing.T) {
	sel, err := ParseSelector(
		map[string]string{"role": "builder", "rack": "7"}, nil,
		[]string{"Server1.Lab.", "server1.lab"},
		[]string{"192.168.10.10", "::ffff:192.168.10.10", "192.168.10.77/24", "fd00::1"},
		[]string{"AC:1F:6B:8A:A7:9C", "ac1f.6b8a.a79c", "ac-1f-6b-8a-a7-9d"},
		true)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"server1.lab"}; !slices.Equal(sel.Hostnames, want) {
		t.Errorf("hostnames %q, want %q", sel.Hostnames, want)
	}
	if len(sel.MACs) != 2 {
		t.Errorf("MACs %v, want two", sel.MACs)
	}
	if want := []netip.Prefix{
		netip.MustParsePrefix("192.168.10.10/32"), netip.MustParsePrefix("192.168.10.0/24"),
		netip.MustParsePrefix("fd00::1/128"),
	}; !slices.Equal(sel.Prefixes, want) {
		t.Errorf("prefixes %v, want %v", sel.Prefixes, want)
	}
	if want := []Label{{"rack", "7"}, {"role", "builder"}}; !slices.Equal(sel.Labels, want) {
		t.Errorf("labels %v, want %v", sel.Labels, want)
	}
	if !sel.Default || sel.IsEmpty() {
		t.Error("the default is lost")
	}
}

func TestParseSelectorNamesTheField(t *testing.T) {
	for _, c := range []struct {
		hostnames, ips, macs []string
		field                string
	}{
		{macs: []string{"02:00:00:00:00:01", "zz"}, field: "selector.matchMACs[1]"},
		{ips: []string{"10.0.0.0/33"}, field: "selector.matchIPs[0]"},
		{hostnames: []string{"a b"}, field: "selector.matchHostnames[0]"},
	} {
		if _, err := ParseSelector(nil, nil, c.hostnames, c.ips, c.macs, false); err == nil || !strings.HasPrefix(err.Error(),
			c.field+": ") {
			t.Errorf("error %v, want one of %s", err, c.field)
		}
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"node1", "node1", true},
		{"node1", "node1.lab", true},
		{"node1.lab", "node1.lab", true},
		{"node1.lab", "node1.lab.example", false},
		{"node1.lab", "node1.other", false},
		{"node1", "node10", false},
		{"node1", "lab.node1", false},
	} {
		if SameHost(c.a, c.b) != c.same || SameHost(c.b, c.a) != c.same {
			t.Errorf("SameHost(%q, %q) is not %v", c.a, c.b, c.same)
		}
	}
}

// FuzzSelector reads any selector and any name and address: it must not fail,
// what was read must be read again as the same, and the index must agree with
// the plain evaluation.
func FuzzSelector(f *testing.F) {
	f.Add("ac:1f:6b:8a:a7:9c", "192.168.10.0/24", "server1.lab", "role", "builder", "server1", "192.168.10.9")
	f.Add("52-54-00-*,00:*", "", "", "role", "", "a", "10.0.0.1")
	f.Add("", "::ffff:10.0.0.0/104", "*", "", "", "a", "fd00::1")
	f.Fuzz(func(t *testing.T, mac, ip, hostname, key, value, asName, asAddr string) {
		split := func(s string) []string {
			return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
		}
		var labels map[string]string
		if key != "" {
			labels = map[string]string{key: value}
		}
		var expressions []metav1.LabelSelectorRequirement
		if key != "" {
			expressions = append(expressions, requirement(key, metav1.LabelSelectorOpIn, value, "other"))
		}
		sel, err := ParseSelector(labels, expressions, split(hostname), split(ip), split(mac), false)
		if err != nil {
			return
		}
		var macs, ips []string
		for _, m := range sel.MACs {
			macs = append(macs, m.String())
		}
		for _, p := range sel.MACPrefixes {
			macs = append(macs, p.String())
		}
		for _, p := range sel.Prefixes {
			ips = append(ips, p.String())
		}
		again, err := ParseSelector(labels, expressions, sel.Hostnames, ips, macs, false)
		if err != nil || !slices.Equal(again.MACPrefixes, sel.MACPrefixes) ||
			!slices.Equal(again.MACs, sel.MACs) || !slices.Equal(again.Prefixes, sel.Prefixes) ||
			!slices.Equal(again.Hostnames, sel.Hostnames) {
			t.Fatalf("read again %+v (%v), want %+v", again, err, sel)
		}
		rules := []*Rule{
			{Ref: Ref{"a", "fuzzed"}, Type: "ignition", Created: time.Unix(1, 0), Selector: sel},
			{Ref: Ref{"a", "wide"}, Type: "ignition",
				Selector: Selector{Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}},
		}
		q := &Query{Type: "ignition", Facts: Facts{MACs: sel.MACs, Labels: labels}}
		if name, err := netaddr.ParseHostname(asName); err == nil {
			q.Hostnames = []string{name}
		}
		if a, err := netaddr.ParseIP(asAddr); err == nil {
			q.IPs = []netip.Addr{a}
		}
		gotRule, gotTier := NewIndex(rules...).Pick(q)
		if wantRule, wantTier := linear(rules, q, nil); gotRule != wantRule || gotTier != wantTier {
			t.Fatalf("index %s %s, linear %s %s", gotTier, describe(gotRule), wantTier, describe(wantRule))
		}
	})
}
