package listener

import (
	"net"

	"glowplug/internal/serve/peer"
)

// Users makes a listener whose connections have a UserAddr as their remote address. It is
// for listeners that only programs of this machine reach.
func Users(l net.Listener) net.Listener {
	return Wrap(l, func(conn net.Conn) net.Conn {
		addr := UserAddr{Addr: conn.RemoteAddr()}
		addr.User, addr.Err = peer.UserOf(conn)
		return userConn{Conn: conn, remote: addr}
	})
}

// UserAddr is a remote address on this machine with the user that it is of.
type UserAddr struct {
	net.Addr
	// User is the user's ID, valid where Err is nil.
	User uint32
	// Err is why it is unknown: the client has closed the connection, say.
	Err error
}

type userConn struct {
	net.Conn
	remote UserAddr
}

// RemoteAddr returns a UserAddr.
func (c userConn) RemoteAddr() net.Addr { return c.remote }
