package peer

import (
	"context"
	"net"
	"sync/atomic"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

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
	if mac := r.neighbor(peer, remote.Zone()).MAC; mac != (netaddr.MAC{}) {
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
