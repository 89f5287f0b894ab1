package pxe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// NetworkOf returns the first IPv4 address of a network interface, with its network.
func NetworkOf(name string) (netip.Prefix, error) {
	_, networks, err := link(name)
	if err != nil {
		return netip.Prefix{}, err
	}
	if i := slices.IndexFunc(networks, func(n netip.Prefix) bool { return n.Addr().Is4() }); i >= 0 {
		return networks[i], nil
	}
	return netip.Prefix{}, fmt.Errorf("the network interface %s has no IPv4 address", name)
}

// IsRouter reports whether this machine is an IPv6 router at an interface. Its advertisements are its own matter.
func IsRouter(name string) bool {
	value, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + name + "/forwarding")
	return err == nil && strings.TrimSpace(string(value)) != "0"
}

// indexOf returns the index of a network interface that has an address.
func indexOf(name string, address netip.Addr) (int, error) {
	index, networks, err := link(name)
	if err == nil && !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Addr() == address }) {
		err = fmt.Errorf("the network interface %s does not have the address %s", name, address)
	}
	return index, err
}

// link returns the index and the addresses of a network interface.
func link(name string) (index int, networks []netip.Prefix, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, nil, fmt.Errorf("there is no network interface %q; there are %s", name, strings.Join(names(), ", "))
	}
	all, err := i.Addrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			networks = append(networks, prefix)
		}
	}
	return i.Index, networks, err
}

// names returns the names of the network interfaces.
func names() (all []string) {
	links, _ := net.Interfaces()
	for _, link := range links {
		all = append(all, link.Name)
	}
	return all
}
