package peer

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"glowplug/internal/domain/netaddr"
)

func TestNeighborStates(t *testing.T) {
	entry := netlink.Neigh{
		LinkIndex: 2, Family: unix.AF_INET, State: unix.NUD_REACHABLE,
		IP: net.ParseIP("192.168.10.10"), HardwareAddr: net.HardwareAddr(testMAC[:]),
	}
	with := func(change func(*netlink.Neigh)) *netlink.Neigh { n := entry; change(&n); return &n }
	for name, c := range map[string]struct {
		n       *netlink.Neigh
		addr    string
		counted bool
	}{
		"reachable":  {&entry, "192.168.10.10", true},
		"stale":      {with(func(n *netlink.Neigh) { n.State = unix.NUD_STALE }), "192.168.10.10", true},
		"delay":      {with(func(n *netlink.Neigh) { n.State = unix.NUD_DELAY }), "192.168.10.10", true},
		"probe":      {with(func(n *netlink.Neigh) { n.State = unix.NUD_PROBE }), "192.168.10.10", true},
		"permanent":  {with(func(n *netlink.Neigh) { n.State = unix.NUD_PERMANENT }), "192.168.10.10", true},
		"incomplete": {with(func(n *netlink.Neigh) { n.State = unix.NUD_INCOMPLETE }), "192.168.10.10", false},
		"failed":     {with(func(n *netlink.Neigh) { n.State = unix.NUD_FAILED }), "192.168.10.10", false},
		"noarp":      {with(func(n *netlink.Neigh) { n.State = unix.NUD_NOARP }), "192.168.10.10", false},
		"no address": {with(func(n *netlink.Neigh) { n.HardwareAddr = nil }), "192.168.10.10", false},
		"infiniband": {with(func(n *netlink.Neigh) { n.HardwareAddr = make([]byte, 20) }), "192.168.10.10", false},
		"multicast": {with(func(n *netlink.Neigh) { n.HardwareAddr = []byte{1, 0, 0x5e, 0, 0, 1} }), "192.168.10.10",
			false},
		"bridge": {with(func(n *netlink.Neigh) { n.Family = unix.AF_BRIDGE }), "", false},
		"proxy":  {with(func(n *netlink.Neigh) { n.Flags = netlink.NTF_PROXY }), "", false},
		"no IP":  {with(func(n *netlink.Neigh) { n.IP = nil }), "", false},
		"IPv6, valid": {with(func(n *netlink.Neigh) { n.Family = unix.AF_INET6; n.IP = net.ParseIP("fe80::1") }), "fe80::1",
			true},
	} {
		addr, mac, ok := neighborOf(c.n)
		if ok != c.counted || ok && mac != testMAC || addr.IsValid() != (c.addr != "") || c.addr != "" &&
			addr.String() != c.addr {
			t.Errorf("%s: %v %v %v", name, addr, mac, ok)
		}
	}

	table := &kernelTable{neighborTable: testTable(func(neighborKey) (netaddr.MAC, bool) { return netaddr.MAC{}, false })}
	addr := netip.MustParseAddr("192.168.10.10")
	steps := []struct {
		kind  uint16
		state int
		found bool
	}{
		{unix.RTM_NEWNEIGH, unix.NUD_INCOMPLETE, false},
		{unix.RTM_NEWNEIGH, unix.NUD_REACHABLE, true},
		{unix.RTM_NEWNEIGH, unix.NUD_STALE, true},
		{unix.RTM_NEWNEIGH, unix.NUD_FAILED, false},
		{unix.RTM_NEWNEIGH, unix.NUD_PERMANENT, true},
		{unix.RTM_DELNEIGH, unix.NUD_PERMANENT, false},
	}
	for i, s := range steps {
		table.apply(s.kind, with(func(n *netlink.Neigh) { n.State = s.state }))
		if e, ok := table.known(neighborKey{2, addr}); (ok && e.gone.IsZero()) != s.found {
			t.Errorf("step %d: %+v, want found %v", i, e, s.found)
		}
	}
}

// It opens and closes without privileges, whatever the kernel lets it do.
func TestOpenNeighbors(t *testing.T) {
	for range 3 {
		r := NewResolver(ResolverOptions{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if r.neighbors.Lookup(netip.MustParseAddr("192.0.2.254"), "") != (Neighbor{}) {
			t.Log("192.0.2.254 is a neighbour here")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The kernel's own table, over a pair of interfaces: needs root.
func TestKernelNeighbors(t *testing.T) {
	if os.Getenv("TEST_E2E") != "1" {
		t.Skip("makes network interfaces: set TEST_E2E=1 and run as root")
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	resolver := NewResolver(ResolverOptions{})
	defer resolver.Close()
	ip("netns", "add", "gpneigh")
	defer exec.Command("ip", "netns", "del", "gpneigh").Run()
	ip("link", "add", "gpn0", "type", "veth", "peer", "name", "gpn1", "netns", "gpneigh")
	defer exec.Command("ip", "link", "del", "gpn0").Run()
	ip("-n", "gpneigh", "link", "set", "gpn1", "address", testMAC.String(), "up")
	ip("-n", "gpneigh", "addr", "add", "10.213.7.2/24", "dev", "gpn1")
	ip("-n", "gpneigh", "addr", "add", "fd00:213:7::2/64", "dev", "gpn1", "nodad")
	ip("addr", "add", "10.213.7.1/24", "dev", "gpn0")
	ip("addr", "add", "fd00:213:7::1/64", "dev", "gpn0", "nodad")
	ip("link", "set", "gpn0", "up")

	table := resolver.neighbors.(*kernelTable)
	until := func(addr, zone string, want Neighbor) {
		t.Helper()
		var got Neighbor
		for range 500 {
			if got = table.Lookup(netip.MustParseAddr(addr), zone); got == want {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("Lookup(%s, %q) = %v; want %v", addr, zone, got, want)
	}
	find := func(addr, zone string, want bool) {
		t.Helper()
		if want {
			until(addr, zone, Neighbor{MAC: testMAC})
		} else {
			until(addr, zone, Neighbor{})
		}
	}
	ip("neigh", "add", "10.213.7.2", "lladdr", testMAC.String(), "nud", "stale", "dev", "gpn0")
	find("10.213.7.2", "", true)
	ip("neigh", "add", "fd00:213:7::2", "lladdr", testMAC.String(), "nud", "reachable", "dev", "gpn0")
	find("fd00:213:7::2", "", true)
	ip("neigh", "add", "fe80::7", "lladdr", testMAC.String(), "nud", "permanent", "dev", "gpn0")
	find("fe80::7", "gpn0", true)
	find("fe80::7", "lo", false)
	find("10.213.7.1", "", false)

	// What the kernel gives up is remembered, and so is what came in its place.
	other := netaddr.MAC{2, 0, 0, 0, 0, 1}
	ip("neigh", "del", "10.213.7.2", "dev", "gpn0")
	find("10.213.7.2", "", true)
	ip("neigh", "add", "10.213.7.2", "lladdr", other.String(), "nud", "reachable", "dev", "gpn0")
	until("10.213.7.2", "", Neighbor{MAC: other, Former: testMAC})
	ip("neigh", "change", "10.213.7.2", "lladdr", testMAC.String(), "nud", "reachable", "dev", "gpn0")
	until("10.213.7.2", "", Neighbor{MAC: testMAC, Former: other})

	// A host that announces another hardware address, as one does after a failover.
	if _, err := exec.LookPath("arping"); err == nil {
		ip("-n", "gpneigh", "link", "set", "gpn1", "address", other.String())
		ip("netns", "exec", "gpneigh", "arping", "-q", "-c", "1", "-w", "2", "-I", "gpn1", "10.213.7.1")
		until("10.213.7.2", "", Neighbor{MAC: other, Former: testMAC})
		ip("-n", "gpneigh", "link", "set", "gpn1", "address", testMAC.String())
	}

	// The query alone finds what the cache has lost.
	table.mu.Lock()
	clear(table.entries)
	table.mu.Unlock()
	find("fd00:213:7::2", "", true)
	ip("addr", "del", "fd00:213:7::1/64", "dev", "gpn0")
	find("fd00:213:7::2", "", false)
}
