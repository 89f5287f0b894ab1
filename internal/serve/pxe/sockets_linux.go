package pxe

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// BindTo returns the Control of a socket that is bound to an interface. A shared socket may send broadcasts, and its
// port may be that of another program as well, such as a DHCP server.
func BindTo(name string, isShared bool) func(_, _ string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var failure error
		err := raw.Control(func(fd uintptr) {
			failure = unix.BindToDevice(int(fd), name)
			for _, option := range []int{unix.SO_REUSEADDR, unix.SO_BROADCAST} {
				if isShared && failure == nil {
					failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1)
				}
			}
		})
		if err != nil {
			return err
		}
		return failure
	}
}

// listen opens a UDP socket at an address of an interface. isShared is that of BindTo.
func listen(name string, address netip.AddrPort, isShared bool) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: BindTo(name, isShared)}
	conn, err := config.ListenPacket(context.Background(), "udp4", address.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// dial opens a UDP socket from an address of an interface to a client.
func dial(ctx context.Context, name string, from netip.Addr, client netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Control: BindTo(name, false)}
	return dialer.DialContext(ctx, "udp4", client.String())
}

// listenICMP opens a raw socket for the ICMPv6 packets of an interface.
func listenICMP(name string) (net.PacketConn, error) {
	config := net.ListenConfig{Control: BindTo(name, false)}
	return config.ListenPacket(context.Background(), "ip6:ipv6-icmp", "::")
}
