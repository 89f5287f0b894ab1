package netaddr

import (
	"net/netip"
	"testing"
)

func TestNetwork(t *testing.T) {
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
		if got := Network(netip.MustParseAddr(c.a)) == Network(netip.MustParseAddr(c.b)); got != c.same {
			t.Errorf("%s and %s count as one: %v, want %v", c.a, c.b, got, c.same)
		}
	}
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "fe80::1%eth0": "fe80::1%eth0",
	} {
		if got := NetworkText(Network(netip.MustParseAddr(in))); got != want {
			t.Errorf("%s is written as %s, want %s", in, got, want)
		}
	}
	if got := Network(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}

func TestSource(t *testing.T) {
	mac := MAC{2, 0, 0, 0, 0, 1}
	addr := netip.MustParseAddr
	for _, c := range []struct{ a, b Source }{
		{SourceOf(addr("192.0.2.1"), mac), SourceOf(addr("2001:db8::1"), mac)},
		{SourceOf(addr("2001:db8::1"), MAC{}), SourceOf(addr("2001:db8::ffff:2"), MAC{})},
	} {
		if c.a != c.b || c.a == (Source{}) {
			t.Errorf("%+v and %+v are two sources", c.a, c.b)
		}
	}
	for _, c := range []struct{ a, b Source }{
		{SourceOf(addr("192.0.2.1"), MAC{}), SourceOf(addr("192.0.2.2"), MAC{})},
		{SourceOf(addr("2001:db8::1"), MAC{}), SourceOf(addr("2001:db8:0:1::1"), MAC{})},
		{SourceOf(addr("192.0.2.1"), MAC{}), SourceOf(addr("192.0.2.1"), mac)},
	} {
		if c.a == c.b {
			t.Errorf("%+v is one source", c.a)
		}
	}
	if SourceOf(netip.Addr{}, MAC{}) != (Source{}) {
		t.Error("a client without an address is a source")
	}
}
