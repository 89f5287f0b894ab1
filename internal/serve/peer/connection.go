package peer

import (
	"context"
	"net"
	"sync/atomic"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// connection is what the neighbour table said of a peer when its connection was
// accepted, or at the first request where it had no entry then. An entry can be
// changed for the length of one answer, and a connection outlasts ChangeWindow.
type connection struct {
	// mac holds a hardware address in its lower 48 bits; 0: none is known yet.
	mac atomic.Uint64
}

type connectionKey struct{}

// ConnContext is for http.Server.ConnContext: it notes the neighbour entry of a
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
	c.mac.Store(packed(r.neighbor(peer, remote.Zone()).MAC))
	return context.WithValue(ctx, connectionKey{}, c)
}

// compare notes in the caller of a request what the connection says otherwise than
// the neighbour table. While that has no entry, what the connection says holds.
func (c *connection) compare(caller *identity.Caller) {
	accepted := c.mac.Load()
	switch {
	case accepted == 0:
		c.mac.CompareAndSwap(0, packed(caller.MAC))
	case caller.MAC == netaddr.MAC{}:
		caller.MAC = unpacked(accepted)
	case caller.Former == netaddr.MAC{} && accepted != packed(caller.MAC):
		caller.Former = unpacked(accepted)
	}
}

func packed(m netaddr.MAC) (n uint64) {
	for _, b := range m {
		n = n<<8 | uint64(b)
	}
	return n
}

func unpacked(n uint64) (m netaddr.MAC) {
	for i := range m {
		m[len(m)-1-i] = byte(n >> (8 * i))
	}
	return m
}
