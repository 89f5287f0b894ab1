package listener

import (
	"net"

	"glowplug/internal/serve/peer"
)

// Users makes a listener whose connections know the user at their other end: the
// remote address of each is a UserAddr. It is for listeners that only programs of
// this machine reach.
func Users(l net.Listener) net.Listener { return userListener{l} }

// UserAddr is a remote address on this machine with the user that it is of.
type UserAddr struct {
	net.Addr
	// User is the user's ID; it counts only where Err is nil.
	User uint32
	// Err says why it cannot be told: the client has closed the connection, say.
	Err error
}

type userListener struct{ net.Listener }

// Accept waits for a connection.
func (l userListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	addr := UserAddr{Addr: conn.RemoteAddr()}
	addr.User, addr.Err = peer.UserOf(conn)
	return userConn{Conn: conn, remote: addr}, nil
}

type userConn struct {
	net.Conn
	remote UserAddr
}

// RemoteAddr returns a UserAddr.
func (c userConn) RemoteAddr() net.Addr { return c.remote }
