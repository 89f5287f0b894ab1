// Package listener bounds what a client of HTTP can do with a connection before
// and around its requests: how many connections one source opens, how fast it sends
// requests, how long a body or an answer takes, and how a head may give the body's
// length. It also finds the user of a connection on this machine.
package listener

import (
	"io"
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

// Bounds are those of the connections of a listener.
type Bounds struct {
	// Open is how many connections are open at most: the next one is accepted when one is closed.
	Open int
	// PerSource is how many of one source are open at most, 0 for any number, and Rates, which may be nil, has the rate
	// at which they are accepted. Others are closed at once, and Refused is called.
	PerSource int
	Rates     *Rates
	Refused   func(source string)
	// Source returns the source of a connection by its remote address; "" is not bounded.
	Source func(net.Addr) string
}

// Bounded makes a listener whose connections are bounded.
func Bounded(l net.Listener, b Bounds) net.Listener {
	return &boundedListener{
		Listener: l, Bounds: b, room: make(chan struct{}, b.Open), closed: make(chan struct{}), open: limit.Counts[string]{},
	}
}

type boundedListener struct {
	net.Listener
	Bounds
	room   chan struct{} // has an element for each connection
	closed chan struct{}
	close  sync.Once

	mu   sync.Mutex
	open limit.Counts[string] // connections by source
}

// Close ends Accept.
func (l *boundedListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Accept waits for room, and for a connection of a source that is within its bounds.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.room
			return nil, err
		}
		source := l.Source(conn.RemoteAddr())
		if source == "" || l.Rates.connects(source) && l.acquire(source) {
			return &boundedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(source) })}, nil
		}
		conn.Close()
		l.Refused(source)
	}
}

func (l *boundedListener) acquire(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.PerSource > 0 && l.open[source] >= l.PerSource {
		return false
	}
	l.open.Add(source, 1)
	return true
}

func (l *boundedListener) release(source string) {
	<-l.room
	if source == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Add(source, -1)
}

// boundedConn is counted until it is closed.
type boundedConn struct {
	net.Conn
	release func()
}

// ReadFrom writes what r has. Each connection of this package has it but that of a user at the admin listener, so that
// a file reaches that of the kernel, which sends it.
func (c *boundedConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// Close closes the connection.
func (c *boundedConn) Close() error {
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

// maxPart is how much of a file a client has to take within the timeout, as of the largest config.
const maxPart = 2 << 20

// ReadFrom is Write for what r has, in parts.
func (c stallConn) ReadFrom(r io.Reader) (n int64, err error) {
	whole, ok := r.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	for whole.N > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return n, err
		}
		part := io.LimitReader(whole.R, min(whole.N, maxPart))
		sent, err := io.Copy(c.Conn, part)
		n += sent
		whole.N -= sent
		if err != nil || sent == 0 {
			return n, err
		}
	}
	return n, nil
}
