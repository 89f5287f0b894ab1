package pxe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"glowplug/internal/domain/lease"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/leases"
)

// maxAsking bounds the machines that are answered at once with a lease: each waits for the store, or for a probe.
const maxAsking = 256

// Leasing is what a Server gives addresses from (RFC 2131).
type Leasing struct {
	lease.Pool
	// Routers and DNS are given with an address.
	Routers, DNS []net.IP
	// Book has the leases.
	Book *leases.Book
	// Beside leaves the machines that ask for the address of another server to that one: otherwise they are refused,
	// and ask anew.
	Beside bool
}

// leased is the outcome of a packet: what is sent, if anything.
type leased struct {
	kind    dhcpv4.MessageType // MessageTypeNone: nothing
	address netip.Addr
	lasts   time.Duration
}

var nothing = leased{kind: dhcpv4.MessageTypeNone}

// lease returns the reply with an address to a packet; nil: there is none.
func (s *Server) lease(ctx context.Context, p *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	c, ok := ReadMachine(p)
	if !ok || !s.opts.Ready() {
		s.opts.Metrics.count(outcomeOther)
		return nil
	}
	hosts := s.opts.Hosts()
	host := hostOf(hosts, &c)
	if !s.allow(c.MAC, host) {
		s.opts.Metrics.count(outcomeLimited)
		return nil
	}
	l := s.leased(ctx, p, s.machineOf(p, &c, host), func(a netip.Addr) bool {
		other := hosts.HostByIP(a)
		return other != nil && other != host
	})
	if l.kind == dhcpv4.MessageTypeNone {
		s.opts.Metrics.count(outcomeSilent)
		return nil
	}
	a := Answer{}
	if c.isBooting && (l.kind == dhcpv4.MessageTypeOffer || l.kind == dhcpv4.MessageTypeAck) {
		a = s.opts.Decide(&c, host)
		s.notes.note(&c, host, &a)
	}
	reply, err := s.opts.Reply(p, l.kind, a)
	if err != nil {
		s.opts.Metrics.count(outcomeMalformed)
		return nil
	}
	s.addLease(reply, &l, host)
	s.opts.Metrics.count(outcomeAnswered)
	return reply
}

// machineOf returns what asks for an address.
func (s *Server) machineOf(p *dhcpv4.DHCPv4, c *Client, host *model.Host) *leases.Machine {
	m := &leases.Machine{MAC: c.MAC, Interface: s.opts.Interface}
	m.Hostname, _ = netaddr.ParseHostname(p.HostName())
	if host != nil {
		m.Host = host.Ref.String()
		m.Own, _ = s.opts.Leasing.Own(host.IPs)
	}
	return m
}

// leased decides a packet, and stores what a machine is given. isReserved is that of Book.Offer.
func (s *Server) leased(
	ctx context.Context, p *dhcpv4.DHCPv4, m *leases.Machine, isReserved func(netip.Addr) bool) leased {
	asked, known := netip.AddrFromSlice(p.RequestedIPAddress().To4())
	if !known {
		asked, _ = netip.AddrFromSlice(p.ClientIPAddr.To4())
	}
	book := s.opts.Leasing.Book
	switch p.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return s.offer(ctx, m, isReserved)
	case dhcpv4.MessageTypeRequest:
		return s.bind(ctx, p, m, asked, isReserved)
	case dhcpv4.MessageTypeDecline:
		if may, _ := book.May(m, asked); may && s.isOurs(p) {
			s.warn("a machine refuses its address, since another one uses it", m, asked, book.Conflict(ctx, asked,
				netaddr.MAC{}, m.Interface))
		}
	case dhcpv4.MessageTypeRelease:
		if s.isOurs(p) {
			if err := book.Release(ctx, m, asked); err != nil && !errors.Is(err, leases.ErrTaken) {
				s.warn("the lease of a machine is not released", m, asked, err)
			}
		}
	case dhcpv4.MessageTypeInform:
		return leased{kind: dhcpv4.MessageTypeAck}
	}
	return nothing
}

// isOurs reports whether a packet is for this server.
func (s *Server) isOurs(p *dhcpv4.DHCPv4) bool {
	server, _ := netip.AddrFromSlice(p.ServerIdentifier().To4())
	return server == s.opts.Address
}

// offer offers an address that no machine uses.
func (s *Server) offer(ctx context.Context, m *leases.Machine, isReserved func(netip.Addr) bool) leased {
	book := s.opts.Leasing.Book
	for ctx.Err() == nil {
		a, isSure, err := book.Offer(&s.opts.Leasing.Pool, m, isReserved)
		if err != nil {
			s.warn("a machine is given no address", m, a, err)
			return nothing
		}
		if m.Own.IsValid() && a != m.Own {
			s.warn("another machine has the address of a host, which is given another one", m, m.Own, nil)
		}
		user, isUsed := netaddr.MAC{}, false
		if !isSure {
			user, isUsed = s.probe.uses(ctx, a)
		}
		if !isUsed || user == m.MAC {
			return leased{dhcpv4.MessageTypeOffer, a, leases.Duration}
		}
		s.warn("an address of --dhcp-range is used without a lease, by "+user.String(), m, a, nil)
		if err := book.Conflict(ctx, a, user, m.Interface); err != nil {
			s.warn("the conflict about an address is not stored", m, a, err)
			return nothing
		}
	}
	return nothing
}

// bind gives a machine the address that it asks for, or refuses it.
func (s *Server) bind(
	ctx context.Context, p *dhcpv4.DHCPv4, m *leases.Machine, asked netip.Addr, isReserved func(netip.Addr) bool) leased {
	book, refusal := s.opts.Leasing.Book, leased{kind: dhcpv4.MessageTypeNak}
	isChoice := len(p.ServerIdentifier()) > 0 // of an offer; other machines have an address, or had it
	if isChoice && !s.isOurs(p) {
		book.Withdraw(m.MAC)
		return nothing
	}
	may, known := book.May(m, asked)
	if !known && !isChoice {
		if s.opts.Leasing.Beside {
			return nothing // it may have it from the other server
		}
		may = s.opts.Leasing.Range.Contains(asked) // its lease was lost, or deleted
	}
	if !may || asked != m.Own && isReserved(asked) || !s.opts.Leasing.IsUsable(asked) || asked == s.opts.Address {
		return refusal
	}
	lasts, err := book.Bind(ctx, m, asked)
	switch {
	case errors.Is(err, leases.ErrTaken):
		return refusal
	case err != nil:
		s.warn("a machine is given no address", m, asked, err)
		return nothing // it asks again
	}
	return leased{dhcpv4.MessageTypeAck, asked, lasts}
}

// warn writes a line about an address; not too many.
func (s *Server) warn(text string, m *leases.Machine, a netip.Addr, err error) {
	if !s.notes.warnings.Allow() {
		return
	}
	log := s.opts.Logger.With("interface", m.Interface, "mac", m.MAC, "host", m.Host)
	if a.IsValid() {
		log = log.With("address", a)
	}
	if err != nil {
		log = log.With("error", err)
	}
	log.Warn(text)
}

// addLease adds the address to a reply, and what belongs to it.
func (s *Server) addLease(reply *dhcpv4.DHCPv4, l *leased, host *model.Host) {
	if l.kind == dhcpv4.MessageTypeNak {
		return
	}
	opts := s.opts.Leasing
	reply.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(opts.Network.Bits(), 32)))
	if len(opts.Routers) > 0 {
		reply.UpdateOption(dhcpv4.OptRouter(opts.Routers...))
	}
	if len(opts.DNS) > 0 {
		reply.UpdateOption(dhcpv4.OptDNS(opts.DNS...))
	}
	if host != nil && len(host.Hostnames) > 0 {
		reply.UpdateOption(dhcpv4.OptHostName(host.Hostnames[0]))
	}
	if reply.ServerIPAddr.IsUnspecified() { // GRUB asks this server, whatever was booted
		reply.ServerIPAddr = s.opts.Address.AsSlice()
	}
	if l.address.IsValid() {
		reply.YourIPAddr = l.address.AsSlice()
		reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(l.lasts))
	}
}

// destination returns where the reply to a packet goes: to its relay, and to a machine that has an address, there.
func destination(to *dhcpv4.DHCPv4, reply *dhcpv4.DHCPv4) netip.AddrPort {
	address, _ := netip.AddrFromSlice(to.ClientIPAddr.To4())
	if relay, _ := netip.AddrFromSlice(to.GatewayIPAddr.To4()); isRelayed(to) {
		return netip.AddrPortFrom(relay, portDHCP)
	}
	if reply.MessageType() == dhcpv4.MessageTypeNak || !address.IsValid() || address.IsUnspecified() {
		address = broadcast
	}
	return netip.AddrPortFrom(address, portClient)
}
