// Package peer finds out who sent a request: the client behind trusted proxies, its
// hardware address from the kernel's neighbour table, and the user of a local client.
package peer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// Neighbor is an entry of the neighbour table.
type Neighbor struct {
	// MAC is the hardware address; zero: there is no entry.
	MAC netaddr.MAC
	// Former is the hardware address before, where that changed within ChangeWindow;
	// zero where it did not.
	Former netaddr.MAC
}

// Neighbors is the neighbour table: the hardware addresses on the networks that this
// machine is on.
type Neighbors interface {
	// Lookup returns the entry of addr, which has no zone; zone is the interface
	// of a link-local address. It never blocks for long.
	Lookup(addr netip.Addr, zone string) Neighbor
	// Refresh is Lookup for a client that has just connected: a change of its entry is seen
	// although the notification of it is still under way.
	Refresh(addr netip.Addr, zone string) Neighbor
	// AddressesOf returns the addresses whose entry has a hardware address, lowest first.
	AddressesOf(mac netaddr.MAC) []netip.Addr
	Close() error
}

// ResolverOptions configure a Resolver.
type ResolverOptions struct {
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Neighbors is NeighborsOff where the neighbour table is not used.
	Neighbors identity.NeighborMode
	// Table is the neighbour table; nil: the kernel's.
	Table Neighbors
	// Logger may be nil.
	Logger *slog.Logger
}

// Resolver identifies the senders of requests. It is safe for concurrent use.
type Resolver struct {
	proxies   []netip.Prefix
	neighbors Neighbors
}

// NewResolver begins to follow the neighbour table. It needs no privileges and
// does not fail: where there is no table, callers have no MAC. Close ends it.
func NewResolver(opts ResolverOptions) *Resolver {
	r := &Resolver{proxies: opts.TrustedProxies}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Neighbors != identity.NeighborsOff {
		if r.neighbors = opts.Table; r.neighbors == nil {
			r.neighbors = openNeighbors(opts.Logger)
		}
	}
	return r
}

// Close stops following the neighbour table.
func (r *Resolver) Close() error {
	if r.neighbors == nil {
		return nil
	}
	return r.neighbors.Close()
}

// Caller returns the sender of a request, as far as the network shows. The caller of
// this method sets Believed. The neighbour table is used for a peer that is the client
// itself and is not on this machine.
func (r *Resolver) Caller(req *http.Request) identity.Caller {
	remote, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return identity.Caller{}
	}
	peer := remote.Addr().WithZone("").Unmap()
	forwarded := req.Header["X-Forwarded-For"]
	if r.trusts(peer) {
		return identity.Caller{Addr: forwardedClient(peer, forwarded, r.trusts), Proxied: true}
	}
	caller := r.caller(remote, Neighbors.Lookup)
	caller.ForgedForward = len(forwarded) > 0
	if c, ok := req.Context().Value(connectionKey{}).(*connection); ok {
		c.compare(&caller)
	}
	return caller
}

// Peer returns the client of a connection that is not HTTP, and has no proxies. Call it
// within ChangeWindow of the connection, so that a change of the neighbour entry since
// that was accepted is seen.
func (r *Resolver) Peer(remote netip.AddrPort) identity.Caller {
	return r.caller(remote, Neighbors.Refresh)
}

func (r *Resolver) caller(remote netip.AddrPort, find finder) identity.Caller {
	caller := identity.Caller{Addr: remote.Addr().WithZone("").Unmap()}
	n := r.neighbor(caller.Addr, remote.Addr().Zone(), find)
	caller.MAC, caller.Former = n.MAC, n.Former
	return caller
}

// AddressesOf returns the addresses whose neighbour entry has a hardware address, lowest first.
func (r *Resolver) AddressesOf(mac netaddr.MAC) []netip.Addr {
	if r.neighbors == nil {
		return nil
	}
	return r.neighbors.AddressesOf(mac)
}

// finder is Neighbors.Lookup or Neighbors.Refresh.
type finder func(table Neighbors, addr netip.Addr, zone string) Neighbor

// neighbor returns the entry of a peer that is not on this machine.
func (r *Resolver) neighbor(peer netip.Addr, zone string, find finder) Neighbor {
	if r.neighbors == nil || peer.IsLoopback() {
		return Neighbor{}
	}
	return find(r.neighbors, peer, zone)
}

func (r *Resolver) trusts(addr netip.Addr) bool { return Contains(r.proxies, addr) }

// Contains reports whether an address, which has no zone, is in one of the prefixes.
func Contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ErrNoUser is the error of a connection whose user is unknown.
var ErrNoUser = errors.New("the kernel does not tell which user the connection is of")

// connection is the neighbour entry of a peer when its connection was accepted, or at the
// first request where it had no entry then. An entry can be changed for the length of
// one answer, and a connection outlasts ChangeWindow.
type connection struct {
	mac atomic.Pointer[netaddr.MAC] // nil: none is known yet
}

type connectionKey struct{}

// ConnContext is for http.Server.ConnContext: it stores the neighbour entry of a
// connection that was just accepted.
func (r *Resolver) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || r.neighbors == nil {
		return ctx
	}
	remote := tcp.AddrPort().Addr()
	peer := remote.WithZone("").Unmap()
	if peer.IsLoopback() || r.trusts(peer) {
		return ctx
	}
	c := &connection{}
	if mac := r.neighbor(peer, remote.Zone(), Neighbors.Refresh).MAC; mac != (netaddr.MAC{}) {
		c.mac.Store(&mac)
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// compare sets in the caller of a request where the connection differs from the
// neighbour table. While that has no entry, the connection's counts.
func (c *connection) compare(caller *identity.Caller) {
	accepted := c.mac.Load()
	switch {
	case accepted == nil && caller.MAC != netaddr.MAC{}:
		mac := caller.MAC
		c.mac.CompareAndSwap(nil, &mac)
	case accepted == nil:
	case caller.MAC == netaddr.MAC{}:
		caller.MAC = *accepted
	case caller.Former == netaddr.MAC{} && *accepted != caller.MAC:
		caller.Former = *accepted
	}
}

// maxHops bounds the chain of proxies that is followed.
const maxHops = 32

// forwardedClient walks X-Forwarded-For from the right, through every hop that is
// trusted, and returns the first that is not: the client. Each hop vouches for the one to
// its left alone, so what an untrusted client wrote itself is never reached. lines are
// the header's lines in their order; peer is a trusted proxy.
//
// Where all hops are trusted the left-most is the client. Where a trusted hop wrote
// something that is no address, or the chain is longer than maxHops, the client is
// unknown: the address is the zero one, which belongs to no host.
func forwardedClient(peer netip.Addr, lines []string, trusted func(netip.Addr) bool) netip.Addr {
	client, hops := peer, 0
	for _, entry := range slices.Backward(strings.Split(strings.Join(lines, ","), ",")) {
		if entry = strings.Trim(entry, " \t"); entry == "" {
			continue
		}
		hop, err := parseHop(entry)
		if hops++; err != nil || hops > maxHops {
			return netip.Addr{}
		}
		if client = hop; !trusted(client) {
			return client
		}
	}
	return client
}

// parseHop parses an entry: an address with or without a port, and an IPv6 one with or
// without brackets. A zone belongs to the proxy's machine and is dropped.
func parseHop(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if strings.HasSuffix(s, "]") {
			s += ":0"
		}
		var hop netip.AddrPort
		hop, err = netip.ParseAddrPort(s)
		addr = hop.Addr()
	}
	return addr.WithZone("").Unmap(), err
}
