package listener

import (
	"net"
	"time"
)

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
