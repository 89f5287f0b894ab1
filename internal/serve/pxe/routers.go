package pxe

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/net/ipv6"

	"glowplug/internal/domain/netaddr"
)

// allRouters is the group of IPv6 routers, to which a machine sends its solicitations (RFC 4861, section 6.3.7).
var allRouters = net.ParseIP("ff02::2")

const (
	// optionSource is the hardware address of the sender, in an option of neighbour discovery (RFC 4861, section 4.6.1).
	optionSource = 1
	// hops is the only hop limit of neighbour discovery.
	hops = 255
	// headerRS and headerRA are the sizes of a solicitation and of an advertisement without options, in bytes.
	headerRS = 8
	headerRA = 16
)

// routers answers the solicitations of machines that have just been given a boot file, as a router that is none: iPXE
// waits 16 seconds for an advertisement before it goes on with IPv4 alone. Other machines get nothing.
type routers struct {
	conn    net.PacketConn
	packets *ipv6.PacketConn
	link    *net.Interface
	// offered reports whether a machine has just been given a boot file.
	offered func(netaddr.MAC) bool
}

// newRouters opens the socket for an interface.
func newRouters(name string, offered func(netaddr.MAC) bool) (*routers, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	conn, err := listenICMP(name)
	if err != nil {
		return nil, err
	}
	r := &routers{conn: conn, packets: ipv6.NewPacketConn(conn), link: link, offered: offered}
	filter := &ipv6.ICMPFilter{}
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterSolicitation)
	err = errors.Join(r.packets.SetICMPFilter(filter), r.packets.SetControlMessage(ipv6.FlagHopLimit, true),
		r.packets.JoinGroup(link, &net.IPAddr{IP: allRouters}))
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return r, nil
}

// serve answers until ctx ends.
func (r *routers) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = r.conn.Close() })()
	packet := make([]byte, maxPacket)
	for {
		n, control, from, err := r.packets.ReadFrom(packet)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading router solicitations on %s: %w", r.link.Name, err)
		}
		mac, ok := solicitor(packet[:n])
		// A packet from behind a router has another hop limit.
		if !ok || control == nil || control.HopLimit != hops || !r.offered(mac) {
			continue
		}
		to, ok := from.(*net.IPAddr)
		if !ok || !to.IP.IsLinkLocalUnicast() {
			continue
		}
		// Without an answer the machine waits, as it would without this server.
		_, _ = r.packets.WriteTo(advertisement(r.link.HardwareAddr), &ipv6.ControlMessage{
			IfIndex: r.link.Index, HopLimit: hops,
		}, to)
	}
}

// solicitor returns the hardware address in a router solicitation.
func solicitor(packet []byte) (mac netaddr.MAC, ok bool) {
	if len(packet) < headerRS {
		return mac, false
	}
	for rest := packet[headerRS:]; len(rest) >= 8; {
		length := 8 * int(rest[1]) // in units of 8 bytes
		if length == 0 || length > len(rest) {
			return mac, false
		}
		if rest[0] == optionSource && length == 8 {
			copy(mac[:], rest[2:])
			return mac, true
		}
		rest = rest[length:]
	}
	return mac, false
}

// advertisement returns that of a router that is none: its lifetime is 0, and it has no prefix (RFC 4861, section
// 4.2). The kernel fills in the checksum.
func advertisement(link net.HardwareAddr) []byte {
	packet := make([]byte, headerRA)
	packet[0] = byte(ipv6.ICMPTypeRouterAdvertisement)
	if len(link) == len(netaddr.MAC{}) {
		packet = append(append(packet, optionSource, 1), link...)
	}
	return packet
}
