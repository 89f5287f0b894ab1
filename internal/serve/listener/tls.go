package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// TLS makes a listener whose connections have finished the TLS handshake within the
// timeout. A connection of HTTP/2 is a *tls.Conn, which net/http knows by its type; the
// heads of others are checked as by Heads.
func TLS(l net.Listener, config *tls.Config, timeout time.Duration) net.Listener {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	ctx, cancel := context.WithCancel(context.Background())
	t := &tlsListener{Listener: l, config: config, timeout: timeout, ctx: ctx, cancel: cancel, ready: make(chan accepted)}
	t.working.Go(t.accept)
	return t
}

type tlsListener struct {
	net.Listener
	config  *tls.Config
	timeout time.Duration
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	ready   chan accepted
	working sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

// Accept waits for a connection whose handshake is over.
func (t *tlsListener) Accept() (net.Conn, error) {
	select {
	case a := <-t.ready:
		return a.conn, a.err
	case <-t.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener, ends the handshakes and waits for them.
func (t *tlsListener) Close() error {
	err := t.Listener.Close()
	t.cancel()
	t.working.Wait()
	return err
}

// accept starts a handshake for each connection. The listener below bounds their number.
func (t *tlsListener) accept() {
	for {
		conn, err := t.Listener.Accept()
		if err != nil {
			t.pass(accepted{err: err})
			if errors.Is(err, net.ErrClosed) || t.ctx.Err() != nil {
				return
			}
			continue
		}
		t.working.Go(func() { t.handshake(conn) })
	}
}

// handshake passes a connection on. One whose handshake failed is passed on unchanged:
// net/http logs that, and answers a client that speaks plain HTTP.
func (t *tlsListener) handshake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout)
	defer cancel()
	secure := tls.Server(raw, t.config)
	var conn net.Conn = secure
	if secure.HandshakeContext(ctx) == nil && secure.ConnectionState().NegotiatedProtocol != "h2" {
		conn = &secureConn{headConn: headConn{Conn: secure}, secure: secure}
	}
	if !t.pass(accepted{conn: conn}) {
		conn.Close()
	}
}

// pass hands a to Accept; it reports false after Close.
func (t *tlsListener) pass(a accepted) bool {
	select {
	case t.ready <- a:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// secureConn is HTTP/1 over TLS.
type secureConn struct {
	headConn
	secure *tls.Conn
}

// ConnectionState is what net/http sets Request.TLS by.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }
