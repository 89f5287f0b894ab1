package pxe

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// AddressOf returns the first IPv4 address of a network interface.
func AddressOf(name string) (netip.Addr, error) {
	_, addresses, err := link(name)
	if err != nil {
		return netip.Addr{}, err
	}
	if i := slices.IndexFunc(addresses, netip.Addr.Is4); i >= 0 {
		return addresses[i], nil
	}
	return netip.Addr{}, fmt.Errorf("the network interface %s has no IPv4 address", name)
}

// indexOf returns the index of a network interface that has an address.
func indexOf(name string, address netip.Addr) (int, error) {
	index, addresses, err := link(name)
	if err == nil && !slices.Contains(addresses, address) {
		err = fmt.Errorf("the network interface %s does not have the address %s", name, address)
	}
	return index, err
}

// link returns the index and the addresses of a network interface.
func link(name string) (index int, addresses []netip.Addr, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, nil, fmt.Errorf("there is no network interface %q", name)
	}
	all, err := i.Addrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return i.Index, addresses, err
}
