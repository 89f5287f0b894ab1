package identity

import (
	"net/netip"
	"testing"

	"glowplug/internal/netaddr"
)

func testTable(query func(neighborKey) (netaddr.MAC, bool)) *neighborTable {
	t := newNeighborTable(query)
	t.links.Store(&links{
		nets: []onLink{
			{netip.MustParsePrefix("192.168.10.0/24"), 2},
			{netip.MustParsePrefix("fe80::/64"), 2},
			{netip.MustParsePrefix("fe80::/64"), 3},
			{netip.MustParsePrefix("192.168.0.0/16"), 3},
		},
		own:   map[netip.Addr]struct{}{netip.MustParseAddr("192.168.10.1"): {}},
		index: map[string]int{"eth0": 2, "eth1": 3},
	})
	return t
}

func TestNeighborLookup(t *testing.T) {
	other := netaddr.MAC{2, 0, 0, 0, 0, 1}
	var asked []neighborKey
	table := testTable(func(key neighborKey) (netaddr.MAC, bool) {
		asked = append(asked, key)
		return other, key == neighborKey{3, netip.MustParseAddr("192.168.10.77")}
	})
	addr := netip.MustParseAddr
	table.put(neighborKey{2, addr("192.168.10.10")}, testMAC)
	table.put(neighborKey{2, addr("fe80::1")}, testMAC)
	table.put(neighborKey{3, addr("fe80::1")}, other)
	table.put(neighborKey{9, addr("192.168.10.12")}, testMAC)
	table.put(neighborKey{2, addr("172.16.0.1")}, testMAC)

	for _, c := range []struct {
		addr, zone string
		want       netaddr.MAC
		queries    int
	}{
		{"192.168.10.10", "", testMAC, 0},
		{"fe80::1", "eth0", testMAC, 0},
		{"fe80::1", "eth1", other, 0},
		{"fe80::1", "3", other, 0},
		{"192.168.10.1", "", netaddr.MAC{}, 0},  // our own
		{"172.16.0.1", "", netaddr.MAC{}, 0},    // not on-link
		{"192.168.10.12", "", netaddr.MAC{}, 2}, // known on another interface alone
		{"192.168.10.77", "", other, 2},         // found by asking
		{"192.168.10.77", "", other, 0},         // and remembered
	} {
		asked = nil
		got, ok := table.Lookup(addr(c.addr), c.zone)
		if got != c.want || ok != (c.want != netaddr.MAC{}) || len(asked) != c.queries {
			t.Errorf("Lookup(%s, %q) = %v, %v after %d queries; want %v after %d", c.addr, c.zone, got, ok, len(asked), c.want, c.queries)
		}
	}
	table.remove(neighborKey{2, addr("192.168.10.10")})
	if _, ok := table.Lookup(addr("192.168.10.10"), ""); ok {
		t.Error("a removed entry is still found")
	}
	if table.clear(); len(table.macs) != 0 {
		t.Error("entries after clear")
	}
}

func TestNeighborLookupIsBounded(t *testing.T) {
	asked := 0
	table := testTable(func(neighborKey) (netaddr.MAC, bool) { asked++; return netaddr.MAC{}, false })
	for a := netip.MustParseAddr("192.168.20.0"); a != netip.MustParseAddr("192.168.60.0"); a = a.Next() {
		table.Lookup(a, "")
	}
	if asked == 0 || asked > 2*queriesPerSecond {
		t.Errorf("a scan of 10,240 addresses asked the kernel %d times", asked)
	}
	for i := range maxNeighbors + 100 {
		table.put(neighborKey{i, netip.MustParseAddr("10.0.0.1")}, testMAC)
	}
	if len(table.macs) > maxNeighbors {
		t.Errorf("%d entries are kept", len(table.macs))
	}
}
