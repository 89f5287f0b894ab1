// Package pipetest has a listener in memory: connections to it use no network, so that a test can run servers and
// clients in a bubble of its own time.
package pipetest

import (
	"context"
	"net"
)

// Listener accepts the connections that Dial makes.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Listen returns a Listener. It is closed once.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener, whatever the network and the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the other end of a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *Listener) Close() error {
	close(l.closed)
	return nil
}

// Addr returns no address.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }
