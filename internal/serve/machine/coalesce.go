package machine

import (
	"context"
	"net"
	"net/http"
	"sync"

	"glowplug/internal/serve/listener"
)

// Coalesce makes a listener whose connections can hold back the first part of an answer.
// Its server needs ConnContext, too.
//
// net/http sends an answer of more than 4 KB in two system calls: when its buffer is
// full, and at the end. For a config of a few kilobytes the second one is a good part of
// the cost of a request. A coalescing connection holds the first part until the second
// comes. Only a handler that writes its whole body at once uses that, so a second part
// always comes, and no other answer waits.
func Coalesce(l net.Listener) net.Listener {
	return listener.Wrap(l, func(conn net.Conn) net.Conn { return &coalescingConn{Conn: conn} })
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// coalescingConn is a connection that can hold back what is written. One goroutine at a
// time writes; another may read.
type coalescingConn struct {
	net.Conn
	holding bool
	held    *[]byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// hold sets whether a write waits for the one after it.
func (c *coalescingConn) hold(holding bool) {
	if c != nil {
		c.holding = holding
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

// connOf returns the connection of a request; nil where it cannot hold back a part, as in
// HTTP/2, where it has several answers at once.
func connOf(r *http.Request) *coalescingConn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(*coalescingConn)
	return c
}
