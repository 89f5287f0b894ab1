package iscsi

import (
	"net"
	"net/netip"
	"testing"
)

// placed is a connection from an address that the test names.
type placed struct {
	net.Conn
	from string
}

func (p placed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(p.from), 9))
}

// connect returns a client at an address. There is no network between it and the
// server, so that it may be any, and time that of the test.
func connect(t testing.TB, s *Server, from string) *client {
	t.Helper()
	here, there := net.Pipe()
	s.admit(placed{there, from})
	return talk(t, here)
}

// dialFrom returns a client on the loopback that has an address of its own.
func dialFrom(t testing.TB, from, address string) *client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return talk(t, conn)
}
