package listener

import (
	"net"
	"time"
)

// A client that asks for a config and reads nothing of it would hold its
// connection for ever: its machine acknowledges the kernel's probes of the full
// window. So a write that a client does not take in time ends the connection.
// There is no limit on the whole of an answer: a watch lasts for hours.
const (
	// writeTimeout is enough for the largest config, 2 MiB, at 7 KB/s.
	writeTimeout = 5 * time.Minute
	// writeRearm is how old a deadline gets before it is set anew, which keeps
	// the timer out of the way of most writes.
	writeRearm = 15 * time.Second
	// firstWrite is what the empty send buffer of a new connection takes at once,
	// in bytes: the answer that most connections are made for needs no timer.
	firstWrite = 8 << 10
)

// Unstalled makes a listener whose connections end when a client does not take
// what is written to it for 5 minutes.
func Unstalled(l net.Listener) net.Listener {
	return stallListener{Listener: l, timeout: writeTimeout, rearm: writeRearm}
}

type stallListener struct {
	net.Listener
	timeout, rearm time.Duration
}

// Accept waits for a connection.
func (l stallListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stallConn{Conn: conn, timeout: l.timeout, rearm: l.rearm}, nil
}

// stallConn is a connection whose writes have a deadline. Writes come from one
// goroutine at a time.
type stallConn struct {
	net.Conn
	timeout, rearm time.Duration
	armed          time.Time
	written        bool
}

// Write writes p, or fails once the client has not taken it for the timeout.
func (c *stallConn) Write(p []byte) (int, error) {
	first := !c.written
	c.written = true
	if first && len(p) <= firstWrite {
		return c.Conn.Write(p)
	}
	if now := time.Now(); now.Sub(c.armed) >= c.rearm {
		if err := c.SetWriteDeadline(now.Add(c.timeout)); err != nil {
			return 0, err
		}
		c.armed = now
	}
	return c.Conn.Write(p)
}
