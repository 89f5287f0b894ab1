// Package pxe answers the firmware of machines that boot from the network, beside any DHCP server that gives them
// addresses (PXE specification 2.1, "proxyDHCP"), and gives them their boot loader over TFTP.
package pxe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"glowplug/internal/domain/grub"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
	"glowplug/internal/loader"
	"glowplug/internal/logs"
	"glowplug/internal/serve/tftp"
)

// Ports of DHCP servers, of PXE boot servers, of DHCP clients, and of TFTP.
const (
	portDHCP   = 67
	portPXE    = 4011
	portClient = 68
	portTFTP   = 69
)

const (
	// maxPacket is the size of the largest packet that is read, in bytes.
	maxPacket = 2048
	// maxMachines bounds the machines whose rate and last answer are known.
	maxMachines = 4096
)

// The answers of one machine, and of all, are bounded: a DISCOVER is a broadcast, which anybody can send in any name.
var (
	ratePerMachine = limit.PerSecond(2, 8)
	rateInAll      = limit.PerSecond(2000, 2000)
)

// Options are the parts of a Server.
type Options struct {
	// Interface is the network interface that is served. No packet leaves by another one.
	Interface string
	// Advertise answers the router solicitations of machines that are given a boot file.
	Advertise bool
	Rules
	// Hosts returns the hosts as they are now, and Ready whether they have been read: until then nothing is answered.
	Hosts func() Hosts
	Ready func() bool
	// Boots answers the requests of machines over HTTP, which GRUB sends over TFTP; nil: there is no GRUB.
	Boots func(w http.ResponseWriter, r *http.Request)
	// Relays answers DHCP relays as well, which send from other networks.
	Relays bool
	// Leasing gives machines their addresses; nil: another DHCP server does.
	Leasing *Leasing
	// Events takes an event for each boot of a known host; nil discards them.
	Events Recorder
	Logger *slog.Logger
	// Limiter bounds the lines about machines; nil: each one has its line.
	Limiter *logs.Limiter
	// Metrics counts what comes, and TFTP the transfers; nil: they are not counted.
	Metrics *Metrics
	TFTP    *tftp.Metrics
}

// Hosts finds the host of a machine; nil: it is none.
type Hosts interface {
	HostByMAC(mac netaddr.MAC) *model.Host
	HostByUUID(uuid string) *model.Host
	HostByIP(a netip.Addr) *model.Host
	Host(ref model.Ref) *model.Host
}

// Server answers machines on one interface. Its sockets are open.
type Server struct {
	opts  Options
	notes *notes

	dhcp, pxe, files *net.UDPConn
	relayed          *net.UDPConn // nil: relays are not answered, or by dhcp
	routers          *routers     // nil: none is answered
	probe            *prober      // nil without Leasing
	// index is that of the interface to which the sockets are bound.
	index int

	mu       sync.Mutex
	machines limit.Table[netaddr.MAC, *rate.Limiter]
	// hosts and strangers bound the answers to all known hosts, and to all others, and writes the leases of these.
	hosts, strangers, writes *rate.Limiter
	// asking are the machines that are being answered with a lease.
	asking map[netaddr.MAC]bool
}

// New opens the sockets of an interface.
func New(opts Options) (*Server, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	s := newServer(opts)
	if err := s.openSockets(); err != nil {
		s.Close()
		return nil, withRemedy(err)
	}
	return s, nil
}

// openSockets opens the sockets. After an error some may be open.
func (s *Server) openSockets() (err error) {
	opts := &s.opts
	// At this address another DHCP server of this machine goes on to receive its renewals, which are sent to its own.
	dhcp := broadcast
	if opts.Leasing != nil {
		dhcp = netip.IPv4Unspecified()
		if s.probe, err = newProber(opts.Interface); err != nil {
			return fmt.Errorf("ARP on %s: %w", opts.Interface, err)
		}
	}
	type socket struct {
		to      **net.UDPConn
		address netip.AddrPort
	}
	sockets := []socket{
		{&s.dhcp, netip.AddrPortFrom(dhcp, portDHCP)},
		{&s.pxe, netip.AddrPortFrom(opts.Address, portPXE)},
		{&s.files, netip.AddrPortFrom(opts.Address, portTFTP)},
	}
	if opts.Relays && opts.Leasing == nil {
		sockets = append(sockets, socket{&s.relayed, netip.AddrPortFrom(opts.Address, portDHCP)})
	}
	for _, socket := range sockets {
		conn, err := listen(opts.Interface, socket.address, socket.address.Port() == portDHCP)
		if err != nil {
			return fmt.Errorf("UDP %s on %s: %w", socket.address, opts.Interface, err)
		}
		*socket.to = conn
	}
	if opts.Advertise {
		if s.routers, err = newRouters(opts.Interface, s.notes.isOffered); err != nil {
			return fmt.Errorf("ICMPv6 on %s: %w", opts.Interface, err)
		}
	}
	if s.index, err = indexOf(opts.Interface, opts.Address); err != nil {
		return err
	}
	return nil
}

func newServer(opts Options) *Server {
	return &Server{
		opts: opts, notes: newNotes(&opts), machines: limit.Buckets[netaddr.MAC](maxMachines, ratePerMachine),
		hosts: rateInAll.Bucket(), strangers: rateInAll.Bucket(), writes: rateWrites.Bucket(), asking: map[netaddr.MAC]bool{},
	}
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Close closes the sockets.
func (s *Server) Close() {
	for _, conn := range []*net.UDPConn{s.dhcp, s.pxe, s.files, s.relayed} {
		if conn != nil {
			_ = conn.Close()
		}
	}
	if s.routers != nil {
		_ = s.routers.conn.Close()
	}
	if s.probe != nil && s.probe.file != nil {
		_ = s.probe.file.Close()
	}
	s.dhcp, s.pxe, s.files, s.relayed, s.routers, s.probe = nil, nil, nil, nil, nil, nil
}

// Serve answers until ctx ends. After the interface is gone, or its address, it waits for both to come back.
func (s *Server) Serve(ctx context.Context) error {
	defer s.Close()
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.opts.Logger.Error("machines that boot from the network are not answered any more; waiting for the interface",
			"interface", s.opts.Interface, "address", s.opts.Address, "error", err)
		for err != nil {
			s.Close()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(checkInterval):
			}
			err = s.openSockets()
		}
		s.opts.Logger.Info("machines that boot from the network are answered again", "interface", s.opts.Interface)
	}
}

// announce logs which DHCP servers give the machines their addresses.
func (s *Server) announce(ctx context.Context) {
	found, err := Servers(ctx, s.opts.Interface)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
	case err != nil:
		s.opts.Logger.Warn("no DHCP server could be asked for", "interface", s.opts.Interface, "error", err)
	case len(found) == 0:
		s.opts.Logger.Warn("no DHCP server answers, so machines get no address there", "interface", s.opts.Interface,
			"remedy", "start one, or give the addresses here: --dhcp-range FIRST-LAST")
	}
	for _, server := range found {
		s.opts.Logger.Info("a DHCP server gives machines their addresses", "interface", s.opts.Interface, "server",
			server.Address, "next_server", server.Next, "file", server.File)
	}
}

// checkInterval is how often the interface is looked at.
const checkInterval = 2 * time.Second

// watch returns an error once the interface or its address is gone, or is another one of the same name.
func (s *Server) watch(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if index, err := indexOf(s.opts.Interface, s.opts.Address); err != nil || index != s.index {
			return cmp.Or(err, errReplaced)
		}
	}
}

var errReplaced = errors.New("there is another interface of this name")

// serve answers until ctx ends or a part fails.
func (s *Server) serve(ctx context.Context) error {
	serving, ctx := errgroup.WithContext(ctx)
	if s.opts.Leasing == nil {
		serving.Go(func() error { return s.answerAll(ctx, s.dhcp, portDHCP) })
		serving.Go(func() error { s.announce(ctx); return nil })
	} else {
		serving.Go(func() error { return s.leaseAll(ctx, s.dhcp) })
		serving.Go(func() error { return s.probe.serve(ctx) })
	}
	serving.Go(func() error { return s.answerAll(ctx, s.pxe, portPXE) })
	if s.relayed != nil {
		serving.Go(func() error { return s.answerAll(ctx, s.relayed, portDHCP) })
	}
	serving.Go(func() error { return s.watch(ctx) })
	if s.routers != nil {
		serving.Go(func() error { return s.routers.serve(ctx) })
	}
	serving.Go(func() error {
		return tftp.New(tftp.Options{
			Open: s.open, Dial: s.dial, Logger: s.opts.Logger.With("interface", s.opts.Interface), Metrics: s.opts.TFTP,
			Limiter: s.opts.Limiter,
		}).Serve(ctx, s.files)
	})
	return serving.Wait()
}

// answerAll answers the packets of a socket, one after the other: a decision waits for nothing.
func (s *Server) answerAll(ctx context.Context, conn *net.UDPConn, port uint16) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	packet := make([]byte, maxPacket)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(packet)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serving UDP port %d on %s: %w", port, s.opts.Interface, err)
		}
		p, err := dhcpv4.FromBytes(packet[:n])
		if err != nil {
			s.opts.Metrics.count(outcomeMalformed)
			continue
		}
		if reply := s.answer(p, port); reply != nil {
			if port == portDHCP {
				from = destination(p, reply)
			}
			s.send(conn, reply, from)
		}
	}
}

// send sends a reply.
func (s *Server) send(conn *net.UDPConn, reply *dhcpv4.DHCPv4, to netip.AddrPort) {
	if _, err := conn.WriteToUDPAddrPort(reply.ToBytes(), to); err != nil && s.notes.warnings.Allow() {
		s.opts.Logger.Warn("an answer to a machine could not be sent", "interface", s.opts.Interface, "to", to, "error", err)
	}
}

// answer returns the reply to a packet that came to a port; nil: there is none.
func (s *Server) answer(p *dhcpv4.DHCPv4, port uint16) *dhcpv4.DHCPv4 {
	wanted := dhcpv4.MessageTypeDiscover
	if port == portPXE {
		wanted = dhcpv4.MessageTypeRequest
	}
	c, ok := Read(p)
	if !ok || p.MessageType() != wanted || isRelayed(p) && !s.opts.Relays || !s.opts.Ready() {
		s.opts.Metrics.count(outcomeOther)
		return nil
	}
	host := hostOf(s.opts.Hosts(), &c)
	if !s.allow(c.MAC, host) {
		s.opts.Metrics.count(outcomeLimited)
		return nil
	}
	a := s.opts.Decide(&c, host)
	s.notes.note(&c, host, &a)
	if a.File == "" {
		s.opts.Metrics.count(outcomeSilent)
		return nil
	}
	reply, err := s.opts.Proxy(p, a)
	if err != nil {
		s.opts.Metrics.count(outcomeMalformed)
		return nil
	}
	s.opts.Metrics.count(outcomeAnswered)
	return reply
}

// isRelayed reports whether a packet comes from another network, by a relay.
func isRelayed(p *dhcpv4.DHCPv4) bool { return !p.GatewayIPAddr.IsUnspecified() }

// allow reports whether a machine is answered now.
func (s *Server) allow(mac netaddr.MAC, host *model.Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.strangers
	if host != nil {
		all = s.hosts
	}
	return s.machines.Of(mac).Allow() && all.Allow()
}

// hostOf returns the known host that a client is; nil: it is none.
func hostOf(hosts Hosts, c *Client) *model.Host {
	host := hosts.HostByMAC(c.MAC)
	if host == nil && c.UUID != "" {
		host = hosts.HostByUUID(c.UUID)
	}
	return host
}

// grubConfig is what GRUB reads first, in a folder that its build names: /grub, /debian-installer/amd64/grub,
// /EFI/debian and others.
const grubConfig = "grub.cfg"

// text is a file in memory.
type text struct{ *bytes.Reader }

func (text) Close() error { return nil }

// open opens a file for a client of TFTP.
func (s *Server) open(ctx context.Context, name string, client netip.Addr) (tftp.File, int64, error) {
	name = strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	switch base := path.Base(name); {
	case base == loader.Autoexec:
		script, err := ipxe.Boot(s.opts.URL)
		return text{bytes.NewReader([]byte(script))}, int64(len(script)), err
	case base == grubConfig:
		script := grub.Boot(grub.TFTP(s.opts.Address), s.opts.GRUBPath)
		return text{bytes.NewReader([]byte(script))}, int64(len(script)), nil
	case s.opts.Boots != nil && s.isRequest("/"+name):
		return s.request(ctx, "/"+name, client)
	}
	return openLoader(s.opts.Loaders, name)
}

// isRequest reports whether a name is the path of a request for GRUB: its configuration, or a file of an image.
func (s *Server) isRequest(name string) bool {
	return strings.HasPrefix(name, s.opts.GRUBPath+"?") || strings.HasPrefix(name, s.opts.ImagePath)
}

var errNoLoader = errors.New("no boot loader has this name")

// openLoader opens a boot loader by the name that a client asks for.
func openLoader(loaders *loader.Set, name string) (tftp.File, int64, error) {
	l := loaders.Named(name)
	if l == nil {
		return nil, 0, errNoLoader
	}
	file, info, err := l.Open()
	if err != nil {
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// dial opens the socket of a transfer.
func (s *Server) dial(ctx context.Context, client netip.AddrPort) (net.Conn, error) {
	return dial(ctx, s.opts.Interface, s.opts.Address, client)
}
