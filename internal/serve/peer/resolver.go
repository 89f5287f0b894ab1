package peer

import (
	"log/slog"
	"net/http"
	"net/netip"

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

// Neighbors tells which hardware address is behind an address on a network that
// this machine is on.
type Neighbors interface {
	// Lookup returns the entry of addr, which has no zone; zone is the interface
	// of a link-local address. It never blocks for long.
	Lookup(addr netip.Addr, zone string) Neighbor
	Close() error
}

// ResolverOptions says how a caller is found out.
type ResolverOptions struct {
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Neighbors says whether there is a neighbour table: NeighborsOff leaves it alone.
	Neighbors identity.NeighborMode
	// Table is the neighbour table; nil: the kernel's.
	Table Neighbors
	// Logger is told where the kernel's table cannot be read; nil: nobody.
	Logger *slog.Logger
}

// Resolver finds out who sent a request. It is safe for concurrent use.
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

// Caller is who sent req, as far as the network tells. Believed is for others
// to set. The neighbour table is asked for a peer that is the client itself and
// is not on this machine.
func (r *Resolver) Caller(req *http.Request) identity.Caller {
	remote, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return identity.Caller{}
	}
	peer, zone := remote.Addr(), remote.Addr().Zone()
	peer = peer.WithZone("").Unmap()
	forwarded := req.Header["X-Forwarded-For"]
	if r.trusts(peer) {
		return identity.Caller{Addr: forwardedClient(peer, forwarded, r.trusts), Proxied: true}
	}
	caller := identity.Caller{Addr: peer, ForgedForward: len(forwarded) > 0}
	setNeighbor(&caller, r.neighbor(peer, zone))
	if c, ok := req.Context().Value(connectionKey{}).(*connection); ok {
		c.compare(&caller)
	}
	return caller
}

// Peer is who has opened a connection that is not HTTP: nobody speaks for another
// there. What it is told must follow within ChangeWindow of the connection, so that
// an entry which has changed since that was accepted is seen to have.
func (r *Resolver) Peer(remote netip.AddrPort) identity.Caller {
	caller := identity.Caller{Addr: remote.Addr().WithZone("").Unmap()}
	setNeighbor(&caller, r.neighbor(caller.Addr, remote.Addr().Zone()))
	return caller
}

// neighbor is the entry of a peer that is not on this machine.
func (r *Resolver) neighbor(peer netip.Addr, zone string) Neighbor {
	if r.neighbors == nil || peer.IsLoopback() {
		return Neighbor{}
	}
	return r.neighbors.Lookup(peer, zone)
}

func setNeighbor(c *identity.Caller, n Neighbor) { c.MAC, c.Former = n.MAC, n.Former }

func (r *Resolver) trusts(addr netip.Addr) bool { return Contains(r.proxies, addr) }

// Contains reports whether an address, which has no zone, is in one of the prefixes.
func Contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
