package peer

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"

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
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
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
	caller := r.Peer(remote)
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
	caller := identity.Caller{Addr: remote.Addr().WithZone("").Unmap()}
	n := r.neighbor(caller.Addr, remote.Addr().Zone())
	caller.MAC, caller.Former = n.MAC, n.Former
	return caller
}

// neighbor returns the entry of a peer that is not on this machine.
func (r *Resolver) neighbor(peer netip.Addr, zone string) Neighbor {
	if r.neighbors == nil || peer.IsLoopback() {
		return Neighbor{}
	}
	return r.neighbors.Lookup(peer, zone)
}

func (r *Resolver) trusts(addr netip.Addr) bool { return Contains(r.proxies, addr) }

// Contains reports whether an address, which has no zone, is in one of the prefixes.
func Contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
