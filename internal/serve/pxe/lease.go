package pxe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sync/errgroup"

	"glowplug/internal/domain/lease"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
	"glowplug/internal/store/leases"
)

// maxAsking bounds the known hosts, and the other machines, that are answered at once with a lease: each waits for the
// store, or for a probe.
const maxAsking = 256

// rateWrites bounds the leases of machines that are no known hosts.
var rateWrites = limit.PerSecond(100, 500)

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

// asking is a machine that asks for an address.
type asking struct {
	packet *dhcpv4.DHCPv4
	client Client
	host   *model.Host // nil: it is no known host
}

// leaseAll answers the packets of a socket, each in its own time: a lease waits for the store, or for a probe. Known
// hosts wait for no stranger.
func (s *Server) leaseAll(ctx context.Context, conn *net.UDPConn) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var hosts, strangers errgroup.Group
	hosts.SetLimit(maxAsking)
	strangers.SetLimit(maxAsking)
	defer func() { _, _ = hosts.Wait(), strangers.Wait() }()
	packet := make([]byte, maxPacket)
	for {
		n, _, err := conn.ReadFromUDPAddrPort(packet)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serving UDP port %d on %s: %w", portDHCP, s.opts.Interface, err)
		}
		p, err := dhcpv4.FromBytes(packet[:n])
		switch {
		case err != nil:
			s.opts.Metrics.count(outcomeMalformed)
			continue
		case isRelayed(p): // its network is another one
			if reply := s.answer(p, portDHCP); reply != nil {
				s.send(conn, reply, destination(p, reply))
			}
			continue
		}
		a := s.admit(p)
		if a == nil {
			continue
		}
		group := &strangers
		if a.host != nil {
			group = &hosts
		}
		isTaken := group.TryGo(func() error {
			defer s.answered(a.client.MAC)
			if reply := s.lease(ctx, a); reply != nil {
				s.send(conn, reply, destination(p, reply))
			}
			return nil
		})
		if !isTaken {
			s.answered(a.client.MAC)
			s.opts.Metrics.count(outcomeLimited)
		}
	}
}

// admit returns the machine that has sent a packet; nil: it is not answered, since it is none, asks too often, or has
// not been answered yet.
func (s *Server) admit(p *dhcpv4.DHCPv4) *asking {
	c, ok := ReadMachine(p)
	if !ok || !s.opts.Ready() {
		s.opts.Metrics.count(outcomeOther)
		return nil
	}
	hosts := s.opts.Hosts()
	host := hostOf(hosts, &c)
	if host == nil { // the system of a machine does not say the UUID that its firmware has said
		if namespace, name, ok := strings.Cut(s.opts.Leasing.Book.HostOf(c.MAC), "/"); ok {
			host = hosts.Host(model.Ref{Namespace: namespace, Name: name})
		}
	}
	if !s.allow(c.MAC, host) || !s.begin(c.MAC) {
		s.opts.Metrics.count(outcomeLimited)
		return nil
	}
	return &asking{p, c, host}
}

// begin notes that a machine is being answered; false: it is already.
func (s *Server) begin(mac netaddr.MAC) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking[mac] {
		return false
	}
	s.asking[mac] = true
	return true
}

func (s *Server) answered(mac netaddr.MAC) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, mac)
}

// lease returns the reply with an address to a machine; nil: there is none.
func (s *Server) lease(ctx context.Context, ask *asking) *dhcpv4.DHCPv4 {
	hosts := s.opts.Hosts()
	l := s.leased(ctx, ask, func(a netip.Addr) bool {
		other := hosts.HostByIP(a)
		return other != nil && (ask.host == nil || other.Ref != ask.host.Ref)
	})
	if l.kind == dhcpv4.MessageTypeNone {
		s.opts.Metrics.count(outcomeSilent)
		return nil
	}
	a := Answer{}
	if ask.client.isBooting && (l.kind == dhcpv4.MessageTypeOffer || l.kind == dhcpv4.MessageTypeAck) {
		a = s.opts.Decide(&ask.client, ask.host)
		s.notes.note(&ask.client, ask.host, &a)
	}
	reply, err := s.opts.Reply(ask.packet, l.kind, a)
	if err != nil {
		s.opts.Metrics.count(outcomeMalformed)
		return nil
	}
	s.addLease(reply, &l, ask)
	s.opts.Metrics.count(outcomeAnswered)
	return reply
}

// machine returns what asks for an address.
func (s *Server) machine(ask *asking) *leases.Machine {
	m := &leases.Machine{MAC: ask.client.MAC, Interface: s.opts.Interface}
	m.Hostname, _ = netaddr.ParseHostname(ask.packet.HostName())
	if ask.host != nil {
		m.Host = ask.host.Ref.String()
		if own := ask.host.CardOf(m.MAC).IP; s.opts.Leasing.IsUsable(own) {
			m.Own = own
		}
	}
	return m
}

// leased decides a packet, and stores what a machine is given. isReserved is that of Book.Offer.
func (s *Server) leased(ctx context.Context, ask *asking, isReserved func(netip.Addr) bool) leased {
	p, m, book := ask.packet, s.machine(ask), s.opts.Leasing.Book
	asked, known := netip.AddrFromSlice(p.RequestedIPAddress().To4())
	if !known {
		asked, _ = netip.AddrFromSlice(p.ClientIPAddr.To4())
	}
	switch p.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return s.offer(ctx, ask, m, isReserved)
	case dhcpv4.MessageTypeRequest:
		return s.bind(ctx, p, m, asked, isReserved)
	case dhcpv4.MessageTypeDecline:
		if s.isOurs(p) && book.Has(m, asked) {
			s.warn("a machine refuses its address, since another one uses it", m, asked,
				book.Conflict(ctx, m, asked, netaddr.MAC{}))
		}
	case dhcpv4.MessageTypeRelease:
		if s.isOurs(p) && book.Has(m, asked) {
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

// maxUsed bounds the addresses in use that are found for one machine: a card may answer for all of them.
const maxUsed = 4

// offer offers an address that no other machine uses.
func (s *Server) offer(ctx context.Context, ask *asking, m *leases.Machine, isReserved func(netip.Addr) bool) leased {
	book := s.opts.Leasing.Book
	for range maxUsed {
		a, isSure, err := book.Offer(&s.opts.Leasing.Pool, m, isReserved)
		if err != nil {
			s.warn("a machine is given no address", m, a, err)
			return nothing
		}
		if isSure || !s.isUsed(ctx, m, a) {
			s.tell(ask, m, a)
			return leased{dhcpv4.MessageTypeOffer, a, leases.Duration}
		}
	}
	return nothing
}

// tell says that a host is offered another address than the one in its spec, and why.
func (s *Server) tell(ask *asking, m *leases.Machine, a netip.Addr) {
	if ask.host == nil {
		return
	}
	own := ask.host.CardOf(m.MAC).IP
	reason := ""
	switch l := s.opts.Leasing; {
	case a == own || !own.Is4():
		return
	case !m.Own.IsValid():
		reason = fmt.Sprintf("which no machine in %s can have", l.Network.Masked())
	default:
		reason = "which another machine has: see Lease " + leases.Name(own)
	}
	s.notes.warn(ask.host, ReasonAddress, fmt.Sprintf("it is given %s, and not %s of its spec, %s", a, own, reason))
}

// isUsed reports whether another machine uses an address, which is given to nobody then.
func (s *Server) isUsed(ctx context.Context, m *leases.Machine, a netip.Addr) bool {
	user, isUsed := s.probe.uses(ctx, a)
	if !isUsed || user == m.MAC {
		return false
	}
	s.warn("another machine already uses this address: "+user.String(), m, a, nil)
	if err := s.opts.Leasing.Book.Conflict(ctx, m, a, user); err != nil && !errors.Is(err, leases.ErrTaken) {
		s.warn("the conflict about an address is not stored", m, a, err)
	}
	return true
}

// bind gives a machine the address that it asks for, or refuses it.
func (s *Server) bind(
	ctx context.Context, p *dhcpv4.DHCPv4, m *leases.Machine, asked netip.Addr, isReserved func(netip.Addr) bool) leased {
	l, refusal := s.opts.Leasing, leased{kind: dhcpv4.MessageTypeNak}
	isChoice := len(p.ServerIdentifier()) > 0 // of an offer; other machines have an address, or had it
	if isChoice && !s.isOurs(p) {
		l.Book.Withdraw(m.MAC)
		return nothing
	}
	may, known := l.Book.May(m, asked)
	isLost := !known && !isChoice // its lease was lost, or deleted
	if isLost && l.Beside {
		return nothing // it may have it from the other server
	}
	isFit := l.IsUsable(asked) && (asked == m.Own || l.Range.Contains(asked) && !isReserved(asked))
	if !isFit || !may && (!isLost || s.isUsed(ctx, m, asked)) {
		return refusal
	}
	if m.Host == "" && !l.Book.IsBound(m, asked) && !s.writes.Allow() {
		s.opts.Metrics.count(outcomeLimited)
		return nothing // it asks again
	}
	lasts, err := l.Book.Bind(ctx, m, asked)
	switch {
	case errors.Is(err, leases.ErrTaken):
		return refusal
	case err != nil:
		s.warn("a machine is given no address", m, asked, err)
		return nothing
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
func (s *Server) addLease(reply *dhcpv4.DHCPv4, l *leased, ask *asking) {
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
	if ask.host != nil {
		if name := ask.host.CardOf(ask.client.MAC).Hostname; name != "" {
			reply.UpdateOption(dhcpv4.OptHostName(name))
		}
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
