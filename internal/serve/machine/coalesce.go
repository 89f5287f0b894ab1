package machine

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"glowplug/internal/serve/listener"
)

// Coalesce makes a listener whose connections can send an answer in one system call.
// Its server needs ConnContext, too.
//
// net/http sends an answer of more than 4 KB in two: when its buffer is full, and at the
// end. For a config of a few kilobytes the second one is a tenth of the cost of a request.
func Coalesce(l net.Listener) net.Listener {
	return listener.Wrap(l, func(conn net.Conn) net.Conn { return &coalescingConn{Conn: conn} })
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// coalescingConn is a connection that keeps what is written while held is not nil. One
// goroutine at a time writes; another may read.
type coalescingConn struct {
	net.Conn
	held *[]byte
}

// Write implements net.Conn.
func (c *coalescingConn) Write(p []byte) (int, error) {
	if c.held == nil {
		return c.Conn.Write(p)
	}
	*c.held = append(*c.held, p...)
	return len(p), nil
}

// ReadFrom sends what r has, at once: writeAtOnce, which holds answers, does not call it.
func (c *coalescingConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// maxHeld bounds the body that is sent in one system call, in bytes.
const maxHeld = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// writeAtOnce writes a whole answer like write, in one system call where the connection can
// do that. HTTP/2 has several answers at once on a connection, and they are not held.
func (w *response) writeAtOnce(r *http.Request, status int, contentType string, body []byte) {
	c, ok := r.Context().Value(connKey{}).(*coalescingConn)
	if !ok || r.ProtoMajor != 1 || len(body) > maxHeld {
		w.write(status, contentType, body)
		return
	}
	held := buffers.Get().(*[]byte)
	c.held = held
	w.write(status, contentType, body)
	err := http.NewResponseController(w).Flush()
	c.held = nil
	if err == nil {
		_, err = c.Conn.Write(*held)
	}
	if err != nil {
		w.broken = err
	}
	*held = (*held)[:0]
	buffers.Put(held)
}
