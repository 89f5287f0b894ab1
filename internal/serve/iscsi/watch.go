package iscsi

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"glowplug/internal/domain/netaddr"
)

var (
	errFull   = errors.New("too many connections")
	errSource = errors.New("too many connections from this address")
)

// enlist counts a new connection, if there is room for it.
func (s *Server) enlist(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := netaddr.Network(c.remote.Addr())
	switch {
	case s.closed:
		return ErrServerClosed
	case len(s.conns) >= s.options.MaxConnections:
		return errFull
	case s.sources[from] >= s.options.MaxPerSource:
		return errSource
	}
	s.conns[c] = struct{}{}
	s.sources.Add(from, 1)
	s.connections.Add(1)
	return nil
}

func (s *Server) delist(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.sources.Add(netaddr.Network(c.remote.Addr()), -1)
}

// watch pings and ends silent or stuck connections, until the server is closed.
func (s *Server) watch() {
	every := max(time.Millisecond, min(time.Second, s.options.PingAfter/4, s.options.IdleTimeout/4,
		s.options.SendTimeout/4))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case now := <-tick.C:
			s.mu.Lock()
			for c := range s.conns {
				s.inspect(c, now)
			}
			s.mu.Unlock()
		}
	}
}

func (s *Server) inspect(c *conn, now time.Time) {
	heard := c.active.Load()
	silent := now.Sub(time.Unix(0, heard))
	switch {
	case c.busy.Load():
		if silent > s.options.SendTimeout {
			c.end(ErrStuck)
		}
	case silent > s.options.IdleTimeout:
		c.end(ErrIdle)
	case silent > s.options.PingAfter && c.pinged != heard && c.public.Load() != nil:
		c.pinged = heard // once a silence
		c.nudge(nudgePing)
	}
}

// addrPort returns an address, an IPv4 address always as one of four bytes.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
