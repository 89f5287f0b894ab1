package peer

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

var testMAC = netaddr.MAC{0xac, 0x1f, 0x6b, 0x8a, 0xa7, 0x9c}

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
		if got := table.Lookup(addr(c.addr), c.zone); got != (Neighbor{MAC: c.want}) || len(asked) != c.queries {
			t.Errorf("Lookup(%s, %q) = %v after %d queries; want %v after %d",
				c.addr, c.zone, got, len(asked), c.want, c.queries)
		}
	}
}

// TestNeighborChange is what an attacker can do to an entry, and what a network does.
// TestNeighborAddress finds the address of a machine by its hardware address.
func TestNeighborAddress(t *testing.T) {
	table := testTable(func(neighborKey) (netaddr.MAC, bool) { return netaddr.MAC{}, false })
	for _, addr := range []string{"fe80::1", "2001:db8::1", "169.254.0.1", "192.168.10.12", "192.168.10.10"} {
		table.put(neighborKey{2, netip.MustParseAddr(addr)}, testMAC)
	}
	table.put(neighborKey{2, netip.MustParseAddr("192.168.10.9")}, netaddr.MAC{2})
	resolver := NewResolver(ResolverOptions{Table: &kernelless{table}})
	table.put(neighborKey{3, netip.MustParseAddr("192.168.10.12")}, testMAC)
	if got := fmt.Sprint(resolver.AddressesOf(testMAC)); got != "[192.168.10.10 192.168.10.12 2001:db8::1]" {
		t.Errorf("the addresses are %s", got)
	}
	if got := resolver.AddressesOf(netaddr.MAC{4}); len(got) > 0 {
		t.Errorf("the addresses of an unknown machine are %s", got)
	}
}

// TestChangeBeforeTheConnectionIsSeen: the ARP request of a client changes its entry right before it
// connects, and the notification is still under way when it asks. --neighbors=enforce refuses it
// all the same.
func TestChangeBeforeTheConnectionIsSeen(t *testing.T) {
	other := netaddr.MAC{2, 0, 0, 0, 0, 1}
	remote := netip.MustParseAddrPort("192.168.10.10:40000")
	for what, ask := range map[string]func(*Resolver) identity.Caller{
		"HTTP": func(r *Resolver) identity.Caller {
			ctx := r.ConnContext(t.Context(), peerConn{peer: net.TCPAddrFromAddrPort(remote)})
			return r.Caller((&http.Request{RemoteAddr: remote.String()}).WithContext(ctx))
		},
		"iSCSI": func(r *Resolver) identity.Caller { return r.Peer(remote) },
	} {
		table := testTable(func(neighborKey) (netaddr.MAC, bool) { return other, true })
		table.put(neighborKey{2, remote.Addr()}, testMAC)
		if got := ask(NewResolver(ResolverOptions{Table: &kernelless{table}})); got.MAC != other || got.Former != testMAC {
			t.Errorf("%s: %v, formerly %v; want %v, formerly %v", what, got.MAC, got.Former, other, testMAC)
		}
		table.query = func(neighborKey) (netaddr.MAC, bool) { return netaddr.MAC{}, false } // as kernels before 5.0
		if got := table.Refresh(remote.Addr(), ""); got != (Neighbor{other, testMAC}) {
			t.Errorf("%s, where the kernel does not answer: %v", what, got)
		}
	}
}

// kernelless is a table without a kernel.
type kernelless struct{ *neighborTable }

func (*kernelless) Close() error { return nil }

func TestNeighborChange(t *testing.T) {
	other := netaddr.MAC{2, 0, 0, 0, 0, 1}
	addr := netip.MustParseAddr("192.168.10.10")
	key := neighborKey{2, addr}
	for name, c := range map[string]struct {
		do   func(*neighborTable)
		want Neighbor
	}{
		"nothing":       {func(*neighborTable) {}, Neighbor{}},
		"a first entry": {func(n *neighborTable) { n.put(key, testMAC) }, Neighbor{MAC: testMAC}},
		"the same again": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.put(key, testMAC)
		}, Neighbor{MAC: testMAC}},
		"another": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.put(key, other)
		}, Neighbor{other, testMAC}},
		"there and back": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.put(key, other)
			n.put(key, testMAC)
		}, Neighbor{testMAC, other}},
		"another, confirmed for a while": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.put(key, other)
			time.Sleep(ChangeWindow - time.Second)
			n.put(key, other)
		}, Neighbor{other, testMAC}},
		"another, a minute ago": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.put(key, other)
			time.Sleep(ChangeWindow)
		}, Neighbor{MAC: other}},
		"gone": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.remove(key)
			time.Sleep(59 * time.Second)
		}, Neighbor{MAC: testMAC}},
		"gone for a minute": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.remove(key)
			time.Sleep(ChangeWindow)
		}, Neighbor{}},
		"gone and back": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.remove(key)
			n.put(key, testMAC)
		}, Neighbor{MAC: testMAC}},
		"gone, and back as another": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.remove(key)
			n.remove(key)
			time.Sleep(ChangeWindow - time.Second)
			n.put(key, other)
		}, Neighbor{other, testMAC}},
		"gone for a minute, and back as another": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.remove(key)
			time.Sleep(ChangeWindow)
			n.put(key, other)
		}, Neighbor{MAC: other}},
		"changed, gone and back": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.put(key, other)
			n.remove(key)
			n.put(key, other)
		}, Neighbor{other, testMAC}},
		"changed while all are listed anew": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.clear()
			n.put(key, other)
		}, Neighbor{other, testMAC}},
		"listed anew": {func(n *neighborTable) {
			n.put(key, testMAC)
			n.clear()
			n.put(key, testMAC)
			time.Sleep(ChangeWindow)
			n.remove(neighborKey{2, addr.Next()})
		}, Neighbor{MAC: testMAC}},
		"told by the query first": {func(n *neighborTable) {
			n.query = func(neighborKey) (netaddr.MAC, bool) { return other, true }
			n.Lookup(addr, "")
			n.put(key, testMAC) // what was under way
			n.put(key, other)
		}, Neighbor{other, testMAC}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := testTable(func(neighborKey) (netaddr.MAC, bool) { return netaddr.MAC{}, false })
				c.do(table)
				if got := table.Lookup(addr, ""); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
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
	key := func(i int) neighborKey { return neighborKey{i, netip.MustParseAddr("10.0.0.1")} }
	for i := range maxNeighbors + 100 {
		table.put(key(i), testMAC)
	}
	if len(table.entries) > maxNeighbors {
		t.Errorf("%d entries are kept", len(table.entries))
	}
	// One that flaps neither fills the memory nor is forgotten. Those that have gone
	// make room for others.
	for range maxNeighbors + 100 {
		table.remove(key(1))
		table.put(key(1), testMAC)
	}
	if e, ok := table.known(key(1)); !ok || !e.gone.IsZero() || table.departed.Len() > maxNeighbors {
		t.Errorf("%+v, %d departures are kept", e, table.departed.Len())
	}
	table.clear()
	for i := range maxNeighbors + 100 {
		table.put(key(-1-i), testMAC)
	}
	if _, ok := table.known(key(-1)); !ok || len(table.entries) > maxNeighbors || table.departed.Len() > maxNeighbors {
		t.Errorf("%d entries and %d departures are kept", len(table.entries), table.departed.Len())
	}
	// The oldest departures make room for newer ones.
	table.clear()
	last := key(2 * maxNeighbors)
	table.put(last, testMAC)
	table.remove(last)
	_, isFirst := table.known(key(2))
	if _, isLast := table.known(last); !isLast || isFirst || table.departed.Len() != maxNeighbors {
		t.Errorf("%d departures are kept, the first: %t, the last: %t", table.departed.Len(), isFirst, isLast)
	}
}
