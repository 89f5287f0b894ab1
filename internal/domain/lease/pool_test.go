package lease

import (
	"net/netip"
	"testing"

	"glowplug/internal/domain/netaddr"
)

func TestParseRange(t *testing.T) {
	for _, c := range []struct {
		in   string
		size int // 0: refused
	}{
		{"192.168.10.100-192.168.10.199", 100},
		{" 10.0.0.1 - 10.0.0.1 ", 1},
		{"10.0.0.0-10.0.255.255", MaxRange},
		{"10.0.0.0-10.1.0.0", 0},
		{"10.0.0.9-10.0.0.1", 0},
		{"10.0.0.9", 0},
		{"10.0.0.9-", 0},
		{"10.0.0.9,10.0.0.10", 0},
		{"10.0.0.0/24", 0},
		{"fd00::1-fd00::9", 0},
		{"::ffff:10.0.0.1-::ffff:10.0.0.9", 0},
		{"", 0},
	} {
		r, err := ParseRange(c.in)
		if size := 0; err == nil {
			if size = r.Size(); size != c.size {
				t.Errorf("%q has %d addresses", c.in, size)
			}
		} else if c.size > 0 {
			t.Error(err)
		}
	}
}

func TestPool(t *testing.T) {
	p := Pool{Network: netip.MustParsePrefix("10.0.0.1/24"), Server: netip.MustParseAddr("10.0.0.1")}
	for _, c := range []struct {
		of string
		ok bool
	}{
		{"10.0.0.10-10.0.0.20", true},
		{"10.0.0.1-10.0.0.20", true}, // the server's own address is left out
		{"10.0.0.1-10.0.0.1", false},
		{"10.0.0.0-10.0.0.20", false},
		{"10.0.0.200-10.0.0.255", false},
		{"10.0.0.200-10.0.1.9", false},
	} {
		var err error
		if p.Range, err = ParseRange(c.of); err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.of, err)
		}
	}
	p.Others = []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	for address, want := range map[string]bool{"10.0.0.6": true, "10.0.0.7": false, "10.0.0.1": false, "10.0.0.0": false,
		"10.0.0.255": false, "10.0.1.6": false, "fd00::6": false} {
		if got := p.IsUsable(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// TestChoose: a machine is given the same address again, all addresses are given, and none twice.
func TestChoose(t *testing.T) {
	r, err := ParseRange("10.0.0.250-10.0.1.9")
	if err != nil {
		t.Fatal(err)
	}
	given := map[netip.Addr]bool{}
	isFree := func(a netip.Addr) bool { return !given[a] }
	for i := range r.Size() {
		mac := netaddr.MAC{2, 0, 0, 0, 0, byte(i)}
		a, ok := r.Choose(mac, isFree)
		again, _ := r.Choose(mac, isFree)
		if !ok || a != again || given[a] || !r.Contains(a) {
			t.Fatal(i, a, again, ok)
		}
		given[a] = true
	}
	if a, ok := r.Choose(netaddr.MAC{3}, isFree); ok {
		t.Error("a full range has given", a)
	}
}
