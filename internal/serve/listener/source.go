package listener

import (
	"net"
	"sync"
)

// PerSource makes a listener that has at most limit connections of one source open;
// further ones are closed at once, and refused is called. Source returns the source of a
// connection by its remote address; "" is not bounded.
func PerSource(l net.Listener, limit int, source func(net.Addr) string, refused func(source string)) net.Listener {
	return &sourceListener{Listener: l, limit: limit, source: source, refused: refused, open: map[string]int{}}
}

type sourceListener struct {
	net.Listener
	limit   int
	source  func(net.Addr) string
	refused func(string)

	mu   sync.Mutex
	open map[string]int // connections by source; those that have any
}

// Accept waits for a connection of a source that has fewer than the limit.
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
		if l.acquire(source) {
			return &sourceConn{Conn: conn, release: sync.OnceFunc(func() { l.release(source) })}, nil
		}
		conn.Close()
		l.refused(source)
	}
}

func (l *sourceListener) acquire(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[source] >= l.limit {
		return false
	}
	l.open[source]++
	return true
}

func (l *sourceListener) release(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[source]--; l.open[source] <= 0 {
		delete(l.open, source)
	}
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
