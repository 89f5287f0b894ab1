//go:build !linux

package pxe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
)

var errLinux = errors.New("network boot is served on Linux alone")

func listen(string, netip.AddrPort, bool) (*net.UDPConn, error) { return nil, errLinux }

func dial(context.Context, string, netip.Addr, netip.AddrPort) (net.Conn, error) {
	return nil, errLinux
}

func openARP(*net.Interface) (*os.File, error) { return nil, errLinux }

func listenICMP(string) (net.PacketConn, error) { return nil, errLinux }
