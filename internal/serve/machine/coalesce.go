package machine

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// net/http sends an answer of more than 4 KB in two packets and two system
// calls: once when its buffer is full, and once for what is left. For the few
// kilobytes of a config the second one is a good part of the cost of a request.
// A coalescing connection holds the first part back until the second comes. Only a
// handler that writes its whole body at once asks for that, so that no other
// answer waits; and only a first part is held, after which something always
// comes: a buffer is sent on its own where it is full and there is more.

// Coalesce makes a listener whose connections can hold back the first part of an
// answer. Its server needs ConnContext, too; without it nothing is held back.
func Coalesce(l net.Listener) net.Listener { return coalescingListener{l} }

type coalescingListener struct{ net.Listener }

// Accept waits for a connection.
func (l coalescingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &coalescingConn{Conn: conn}, nil
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if g, ok := conn.(*coalescingConn); ok {
		return context.WithValue(ctx, connKey{}, g)
	}
	return ctx
}

// coalescingConn is a connection that can hold back what is written. Writes come
// from one goroutine at a time; reads may come from another.
type coalescingConn struct {
	net.Conn
	holding bool
	held    *[]byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// hold makes the next write wait for the one after it.
func (c *coalescingConn) hold() {
	if c != nil {
		c.holding = true
	}
}

// release makes no further write wait.
func (c *coalescingConn) release() {
	if c != nil {
		c.holding = false
	}
}

// Write writes p behind what is held, or holds it.
func (c *coalescingConn) Write(p []byte) (int, error) {
	if c.held == nil {
		if !c.holding || len(p) > maxPiece {
			return c.Conn.Write(p)
		}
		c.held = buffers.Get().(*[]byte)
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	if len(*c.held)+len(p) <= maxPiece {
		*c.held = append(*c.held, p...)
		return len(p), c.flush()
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// flush writes what is held.
func (c *coalescingConn) flush() error {
	held := c.held
	c.held = nil
	_, err := c.Conn.Write(*held)
	*held = (*held)[:0]
	buffers.Put(held)
	return err
}

// connOf returns the connection of a request, nil where it cannot hold back what is
// written: over HTTP/2 that is not of one request.
func connOf(r *http.Request) *coalescingConn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(*coalescingConn)
	return c
}
