package listener

import "net"

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
