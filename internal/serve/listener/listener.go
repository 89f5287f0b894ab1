// Package listener bounds what a client of HTTP can do with a connection before
// and around its requests: how many connections one source opens, how fast it sends
// requests, how long a body or an answer takes, and how a head may give the body's
// length. It also finds the user of a connection on this machine.
package listener

import (
	"net"
	"sync"
	"time"

	"glowplug/internal/limit"
	"glowplug/internal/serve/peer"
)

// Wrap makes a listener whose connections are wrapped.
func Wrap(l net.Listener, wrap func(net.Conn) net.Conn) net.Listener { return wrapper{l, wrap} }

type wrapper struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

// Accept waits for a connection.
func (l wrapper) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

// PerSource makes a listener that has so many connections of one source open, 0 for any number, and
// accepts them at the rate of rates at most, which may be nil. Others are closed at once, and refused is
// called. Source returns the source of a connection by its remote address; "" is not bounded.
func PerSource(
	l net.Listener, most int, rates *Rates, source func(net.Addr) string, refused func(source string),
) net.Listener {
	return &sourceListener{
		Listener: l, most: most, rates: rates, source: source, refused: refused, open: limit.Counts[string]{},
	}
}

type sourceListener struct {
	net.Listener
	most    int
	rates   *Rates
	source  func(net.Addr) string
	refused func(string)

	mu   sync.Mutex
	open limit.Counts[string] // connections by source
}

// Accept waits for a connection of a source that is within its bounds.
func (l *sourceListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := l.source(conn.RemoteAddr())
		if source == "" {
			return conn, nil
		}
		if l.rates.connects(source) && l.acquire(source) {
			return &sourceConn{Conn: conn, release: sync.OnceFunc(func() { l.release(source) })}, nil
		}
		conn.Close()
		l.refused(source)
	}
}

func (l *sourceListener) acquire(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open[source] >= l.most {
		return false
	}
	l.open.Add(source, 1)
	return true
}

func (l *sourceListener) release(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Add(source, -1)
}

// sourceConn is counted until it is closed.
type sourceConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *sourceConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

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

// writeTimeout is enough for the largest config, 2 MiB, at 7 KB/s. There is no limit on
// the whole of an answer: a watch lasts for hours.
const writeTimeout = 5 * time.Minute

// Unstalled makes a listener whose connections end when a client does not take a write
// for 5 minutes. Otherwise a client that requests a config and reads nothing of it would
// hold its connection for ever: its machine acknowledges the kernel's probes of the full
// window.
func Unstalled(l net.Listener) net.Listener {
	return Wrap(l, func(conn net.Conn) net.Conn { return stallConn{conn, writeTimeout} })
}

// stallConn is a connection whose writes have a deadline.
type stallConn struct {
	net.Conn
	timeout time.Duration
}

// Write writes p, or fails once the client has not taken it for the timeout.
func (c stallConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
