package pxe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv6"
)

const (
	// probeTime is how long answers are waited for: dnsmasq pings an address for 3 seconds before it offers it.
	probeTime = 4 * time.Second
	// maxOffers bounds the DHCP servers that are told of.
	maxOffers = 16
)

// Network is what is there on the network of an interface.
type Network struct {
	// Interface is the interface, and Address its IPv4 address.
	Interface string     `json:"interface"`
	Address   netip.Addr `json:"address"`
	// Ports are those that cannot be opened, with the reason.
	Ports map[uint16]string `json:"ports,omitempty"`
	// Servers are the DHCP servers that have answered.
	Servers []DHCPServer `json:"servers,omitempty"`
	// Firewall says whether the firewall of this machine drops incoming packets, as far as the caller knows.
	Firewall string `json:"firewall,omitempty"`
	// Router is true where a router advertises itself by IPv6.
	Router bool `json:"router"`
}

// DHCPServer is a DHCP server that offers addresses.
type DHCPServer struct {
	Address netip.Addr `json:"address"`
	// Next is the server that machines read their boot file from (siaddr), and File the file.
	Next netip.Addr `json:"next"`
	File string     `json:"file,omitempty"`
}

// Probe looks at the network of an interface with an address: which ports are free, which DHCP servers answer a
// machine that asks for an address and takes none, and whether a router advertises itself.
func Probe(ctx context.Context, name string, address netip.Addr) (*Network, error) {
	n := &Network{Interface: name, Address: address, Ports: map[uint16]string{}}
	for _, at := range []netip.AddrPort{
		netip.AddrPortFrom(broadcast, portDHCP), netip.AddrPortFrom(address, portTFTP), netip.AddrPortFrom(address, portPXE),
	} {
		conn, err := listen(name, at, at.Port() == portDHCP)
		if err != nil {
			n.Ports[at.Port()] = cause(err).Error()
			continue
		}
		_ = conn.Close()
	}
	router := make(chan bool, 1)
	go func() { router <- hasRouter(ctx, name) }()
	var err error
	n.Servers, err = Servers(ctx, name)
	if err == nil && len(n.Servers) == 0 { // it may have been busy with the ping for another machine
		n.Servers, err = Servers(ctx, name)
	}
	n.Router = <-router
	return n, err
}

// cause returns the error of the system in an error of a socket.
func cause(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}

// Servers returns the DHCP servers that answer on the network of an interface. It takes probeTime.
func Servers(ctx context.Context, name string) ([]DHCPServer, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found, err := servers(ctx, name)
	return found, withRemedy(err)
}

// withRemedy adds to an error of missing rights how to give them.
func withRemedy(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w; it needs root, or once: sudo setcap cap_net_bind_service,cap_net_raw+ep glowplug", err)
	}
	return err
}

// servers returns the DHCP servers that answer a DISCOVER until ctx ends.
func servers(ctx context.Context, name string) (found []DHCPServer, err error) {
	conn, err := listen(name, netip.AddrPortFrom(netip.IPv4Unspecified(), portClient), true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0} // of nobody: locally administered
	_, _ = rand.Read(mac[1:])
	ask, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover),
		dhcpv4.WithBroadcast(true))
	if err != nil {
		return nil, err
	}
	send := func() error {
		_, err := conn.WriteToUDPAddrPort(ask.ToBytes(), netip.AddrPortFrom(broadcast, portDHCP))
		return err
	}
	if err := send(); err != nil {
		return nil, err
	}
	defer time.AfterFunc(time.Second, func() { _ = send() }).Stop() // a packet may be lost
	packet := make([]byte, maxPacket)
	for len(found) < maxOffers {
		size, _, err := conn.ReadFromUDPAddrPort(packet)
		if err != nil {
			return found, nil
		}
		offer, err := dhcpv4.FromBytes(packet[:size])
		if err != nil || offer.TransactionID != ask.TransactionID || offer.MessageType() != dhcpv4.MessageTypeOffer {
			continue
		}
		server := DHCPServer{File: offer.BootFileName}
		server.Address, _ = netip.AddrFromSlice(offer.ServerIdentifier().To4())
		server.Next, _ = netip.AddrFromSlice(offer.ServerIPAddr.To4())
		if !slices.Contains(found, server) {
			found = append(found, server)
		}
	}
	return found, nil
}

// hasRouter reports whether a router answers a solicitation. It takes probeTime at most.
func hasRouter(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	link, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	conn, err := listenICMP(name)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	packets, filter := ipv6.NewPacketConn(conn), &ipv6.ICMPFilter{}
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterAdvertisement)
	if packets.SetICMPFilter(filter) != nil {
		return false
	}
	solicitation := make([]byte, headerRS)
	solicitation[0] = byte(ipv6.ICMPTypeRouterSolicitation)
	_, err = packets.WriteTo(solicitation, &ipv6.ControlMessage{IfIndex: link.Index, HopLimit: hops},
		&net.IPAddr{IP: allRouters, Zone: name})
	if err != nil {
		return false
	}
	packet := make([]byte, maxPacket)
	_, _, _, err = packets.ReadFrom(packet)
	return err == nil
}
