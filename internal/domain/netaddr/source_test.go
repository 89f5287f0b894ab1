package netaddr

import (
	"net/netip"
	"testing"
)

func TestSource(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::ffff:2", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"2001:db8::1", "2001:db8::1%eth0", true},
		{"fe80::1%eth0", "fe80::1%eth0", true},
		{"fe80::1%eth0", "fe80::2%eth0", false},
		{"fe80::1%eth0", "fe80::1%eth1", false},
	} {
		if got := Source(netip.MustParseAddr(c.a)) == Source(netip.MustParseAddr(c.b)); got != c.same {
			t.Errorf("%s and %s count as one: %v, want %v", c.a, c.b, got, c.same)
		}
	}
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "fe80::1%eth0": "fe80::1%eth0",
	} {
		if got := SourceText(Source(netip.MustParseAddr(in))); got != want {
			t.Errorf("%s is written as %s, want %s", in, got, want)
		}
	}
	if got := Source(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}
