package peer

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNeighbors knows some addresses and records what it was asked.
type fakeNeighbors struct {
	asked []string
	macs  map[string]netaddr.MAC
}

func (f *fakeNeighbors) Lookup(addr netip.Addr, zone string) Neighbor {
	key := addr.WithZone(zone).String()
	f.asked = append(f.asked, key)
	return Neighbor{MAC: f.macs[key]}
}

func (f *fakeNeighbors) Refresh(addr netip.Addr, zone string) Neighbor { return f.Lookup(addr, zone) }

func (f *fakeNeighbors) AddressesOf(netaddr.MAC) []netip.Addr { return nil }
func (f *fakeNeighbors) Close() error                         { return nil }

func TestCaller(t *testing.T) {
	proxies := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fd00::/64"),
	}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		addr       string // "" is the zero Addr
		mac        bool
		proxied    bool
		forged     bool
	}{
		{name: "plain", peer: "192.168.10.10:5", addr: "192.168.10.10", mac: true},
		{name: "mapped", peer: "[::ffff:192.168.10.10]:5", addr: "192.168.10.10", mac: true},
		{name: "link-local", peer: "[fe80::1%eth0]:5", addr: "fe80::1", mac: true},
		{name: "loopback", peer: "127.0.0.2:5", addr: "127.0.0.2"},
		{name: "loopback 6", peer: "[::1]:5", addr: "::1"},
		{name: "no address", peer: "@", addr: ""},
		{name: "empty", peer: "", addr: ""},

		{name: "forged", peer: "192.168.10.10:5", forwarded: []string{"192.168.10.11"}, addr: "192.168.10.10", mac: true,
			forged: true},
		{name: "forged, many", peer: "192.168.10.10:5", forwarded: []string{"10.0.0.1, 127.0.0.1", "192.168.10.11"},
			addr: "192.168.10.10", mac: true, forged: true},
		{name: "forged from loopback", peer: "127.0.0.2:5", forwarded: []string{"192.168.10.11"}, addr: "127.0.0.2",
			forged: true},

		{name: "one proxy", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.10"}, addr: "192.168.10.10", proxied: true},
		{name: "mapped proxy", peer: "[::ffff:10.0.0.1]:5", forwarded: []string{"::ffff:192.168.10.10"},
			addr: "192.168.10.10", proxied: true},
		{name: "proxy on loopback", peer: "127.0.0.1:5", forwarded: []string{"192.168.10.10"}, addr: "192.168.10.10",
			proxied: true},
		{name: "proxy itself", peer: "10.0.0.1:5", addr: "10.0.0.1", proxied: true},
		{name: "spoofed left", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.99, 192.168.10.10"}, addr: "192.168.10.10",
			proxied: true},
		{name: "spoofed line", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.99", "192.168.10.10"},
			addr: "192.168.10.10", proxied: true},
		{name: "spoofed garbage", peer: "10.0.0.1:5", forwarded: []string{"\x00, ${ip}, <script>", "192.168.10.10"},
			addr: "192.168.10.10", proxied: true},
		{name: "two proxies", peer: "10.0.0.1:5", forwarded: []string{"6.6.6.6, 192.168.10.10, 10.0.0.2"},
			addr: "192.168.10.10", proxied: true},
		{name: "two proxies, two lines", peer: "10.0.0.1:5", forwarded: []string{"6.6.6.6, 192.168.10.10", "10.0.0.2"},
			addr: "192.168.10.10", proxied: true},
		{name: "all trusted", peer: "10.0.0.1:5", forwarded: []string{"10.0.0.3, 10.0.0.2"}, addr: "10.0.0.3", proxied: true},
		{name: "port", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.10:4711"}, addr: "192.168.10.10", proxied: true},
		{name: "brackets", peer: "[fd00::1]:5", forwarded: []string{"[2001:db8::1]"}, addr: "2001:db8::1", proxied: true},
		{name: "brackets and port", peer: "[fd00::1]:5", forwarded: []string{"[2001:db8::1]:4711"}, addr: "2001:db8::1",
			proxied: true},
		{name: "zone", peer: "[fd00::1]:5", forwarded: []string{"fe80::1%eth7"}, addr: "fe80::1", proxied: true},
		{name: "spaces, empty entries", peer: "10.0.0.1:5", forwarded: []string{" ,\t192.168.10.10 , ,", "", " "},
			addr: "192.168.10.10", proxied: true},
		{name: "garbage", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.10, unknown"}, proxied: true},
		{name: "garbage behind a proxy", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.10, _hidden, 10.0.0.2"},
			proxied: true},
		{name: "bracketed IPv4", peer: "10.0.0.1:5", forwarded: []string{"[192.168.10.10]"}, proxied: true},
		{name: "octal", peer: "10.0.0.1:5", forwarded: []string{"192.168.010.10"}, proxied: true},
		{name: "endless", peer: "10.0.0.1:5", forwarded: []string{"192.168.10.10," + strings.Repeat("10.0.0.2,", 5000)},
			proxied: true},
		{name: "commas", peer: "10.0.0.1:5", forwarded: []string{strings.Repeat(",", 1<<19)}, addr: "10.0.0.1",
			proxied: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := &fakeNeighbors{macs: map[string]netaddr.MAC{"192.168.10.10": testMAC, "fe80::1%eth0": testMAC,
				"10.0.0.1": testMAC}}
			r := NewResolver(ResolverOptions{TrustedProxies: proxies, Table: table})
			got := r.Caller(&http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}})
			want := identity.Caller{Proxied: c.proxied, ForgedForward: c.forged}
			if c.addr != "" {
				want.Addr = netip.MustParseAddr(c.addr)
			}
			if c.mac {
				want.MAC = testMAC
			} else if len(table.asked) > 0 {
				t.Errorf("the neighbour table was asked for %v", table.asked)
			}
			if got != want {
				t.Errorf("got %+v; want %+v", got, want)
			}
		})
	}
}

func TestCallerWithoutProxies(t *testing.T) {
	r := NewResolver(ResolverOptions{Neighbors: identity.NeighborsOff, Table: &fakeNeighbors{}})
	req := &http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"192.168.10.10"}}}
	if got := r.Caller(req); got != (identity.Caller{Addr: netip.MustParseAddr("127.0.0.1"), ForgedForward: true}) {
		t.Errorf("got %+v", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	req = &http.Request{RemoteAddr: "192.168.10.10:40000", Header: http.Header{}}
	if n := testing.AllocsPerRun(100, func() { r.Caller(req) }); n > 0 {
		t.Errorf("Caller: %v allocations", n)
	}
}

// peerConn is a connection of which only the peer is asked.
type peerConn struct {
	net.Conn
	peer net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

// TestConnection has the neighbour entry of a connection's peer change under it.
func TestConnection(t *testing.T) {
	other := netaddr.MAC{2, 0, 0, 0, 0, 1}
	table := &fakeNeighbors{macs: map[string]netaddr.MAC{}}
	r := NewResolver(ResolverOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, Table: table})
	accept := func(peer string, mac netaddr.MAC) *http.Request {
		remote := netip.MustParseAddrPort(peer)
		table.macs[remote.Addr().String()] = mac
		ctx := r.ConnContext(t.Context(), peerConn{peer: net.TCPAddrFromAddrPort(remote)})
		return (&http.Request{RemoteAddr: peer}).WithContext(ctx)
	}
	want := func(what string, req *http.Request, now, mac, former netaddr.MAC) {
		t.Helper()
		remote := netip.MustParseAddrPort(req.RemoteAddr).Addr()
		table.macs[remote.String()] = now
		if got := r.Caller(req); got.MAC != mac || got.Former != former {
			t.Errorf("%s: %v, formerly %v; want %v, formerly %v", what, got.MAC, got.Former, mac, former)
		}
	}
	var none netaddr.MAC
	for _, peer := range []string{"192.168.10.10:5", "[fe80::1%eth0]:5"} {
		req := accept(peer, testMAC)
		want("as accepted", req, testMAC, testMAC, none)
		want("another", req, other, other, testMAC)
		want("the entry has gone", req, none, testMAC, none)
		want("as accepted again", req, testMAC, testMAC, none)
		req = accept(peer, none)
		want("no entry", req, none, none, none)
		want("the first one counts as accepted", req, testMAC, testMAC, none)
		want("another after that", req, other, other, testMAC)
	}
	for _, peer := range []string{"127.0.0.1:5", "10.0.0.1:5"} {
		req := accept(peer, testMAC)
		want("this machine, or a proxy", req, other, none, none)
	}
	if ctx := r.ConnContext(t.Context(), peerConn{peer: &net.UnixAddr{}}); ctx != t.Context() {
		t.Error("a connection that has no network address is noted")
	}
}

func BenchmarkCaller(b *testing.B) {
	table := testTable(func(neighborKey) (netaddr.MAC, bool) { return netaddr.MAC{}, false })
	peer := netip.MustParseAddrPort("192.168.10.10:40000")
	table.put(neighborKey{2, peer.Addr()}, testMAC)
	r := &Resolver{neighbors: closed{table}}
	req := (&http.Request{RemoteAddr: peer.String()}).WithContext(
		r.ConnContext(b.Context(), peerConn{peer: net.TCPAddrFromAddrPort(peer)}))
	b.ReportAllocs()
	for b.Loop() {
		if r.Caller(req).MAC != testMAC {
			b.Fatal("not found")
		}
	}
}

// closed is a table that follows nothing.
type closed struct{ *neighborTable }

func (closed) Close() error { return nil }

func FuzzForwardedFor(f *testing.F) {
	f.Add("192.168.10.10", "10.0.0.2")
	f.Add("6.6.6.6, [2001:db8::1]:80", "")
	f.Add(",,,", "unknown")
	trusted := func(a netip.Addr) bool { return netip.MustParsePrefix("10.0.0.0/24").Contains(a) }
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, first, second string) {
		got := forwardedClient(peer, []string{first, second}, trusted)
		if got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%q, %q: %v", first, second, got)
		}
		// Whatever an untrusted client sends, its proxy appends its address.
		real := netip.MustParseAddr("192.168.10.10")
		if got := forwardedClient(peer, []string{first, second + ", 192.168.10.10"}, trusted); got != real {
			t.Fatalf("%q, %q: forged %v", first, second, got)
		}
		if got := forwardedClient(peer, []string{first, second, "192.168.10.10", "10.0.0.2"}, trusted); got != real {
			t.Fatalf("%q, %q: forged %v", first, second, got)
		}
	})
}
