// Package lease decides which IPv4 address a machine is given by DHCP (RFC 2131). It knows no clock, network or store.
package lease

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// MaxRange bounds the addresses of a range.
const MaxRange = 1 << 16

// Range is a range of IPv4 addresses, with its bounds.
type Range struct{ First, Last netip.Addr }

// ParseRange reads FIRST-LAST.
func ParseRange(s string) (Range, error) {
	first, last, ok := strings.Cut(s, "-")
	r := Range{}
	var err error
	if r.First, err = netip.ParseAddr(strings.TrimSpace(first)); err == nil && ok {
		r.Last, err = netip.ParseAddr(strings.TrimSpace(last))
	}
	switch {
	case err != nil || !ok || !r.First.Is4() || !r.Last.Is4():
		return Range{}, fmt.Errorf("%q is not FIRST-LAST, two IPv4 addresses, such as 192.168.10.100-192.168.10.199", s)
	case r.Last.Less(r.First):
		return Range{}, fmt.Errorf("the last address of %s is less than the first", s)
	case r.Size() > MaxRange:
		return Range{}, fmt.Errorf("%s has %d addresses, and at most %d can be given", s, r.Size(), MaxRange)
	}
	return r, nil
}

func (r Range) String() string { return r.First.String() + "-" + r.Last.String() }

// Size returns the number of addresses.
func (r Range) Size() int { return int(number(r.Last)) - int(number(r.First)) + 1 }

// Contains reports whether an address is in the range.
func (r Range) Contains(a netip.Addr) bool { return a.Is4() && !a.Less(r.First) && !r.Last.Less(a) }

// Choose returns the first address for a machine that isFree accepts; ok is false if there is none. The search begins
// at an address that is always the same for a machine: it is given the same one again even if nothing is known of it.
func (r Range) Choose(mac netaddr.MAC, isFree func(netip.Addr) bool) (address netip.Addr, ok bool) {
	hash := fnv.New32a()
	_, _ = hash.Write(mac[:])
	size := r.Size()
	begin := int(hash.Sum32()) % size
	for i := range size {
		if address = r.at((begin + i) % size); isFree(address) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

func (r Range) at(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number(r.First)+uint32(i))))
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// Pool is what the machines of one network are given addresses from.
type Pool struct {
	// Network is that of the interface, and Server the address of the server there.
	Network netip.Prefix
	Server  netip.Addr
	// Others are addresses that are given to nobody: those of routers and DNS servers.
	Others []netip.Addr
	// Range has the addresses of machines without an address of their own.
	Range Range
}

// Check returns an error if the range is not in the network.
func (p *Pool) Check() error {
	for _, a := range []netip.Addr{p.Range.First, p.Range.Last} {
		if !p.isHost(a) {
			return fmt.Errorf("%s is no address for a machine in %s", a, p.Network.Masked())
		}
	}
	if _, ok := p.Range.Choose(netaddr.MAC{}, p.IsUsable); !ok {
		return fmt.Errorf("%s has no address beside those of the server, of routers and of DNS servers", p.Range)
	}
	return nil
}

// IsUsable reports whether a machine may have an address: it is that of a machine, and not of the server or another one
// that is known.
func (p *Pool) IsUsable(a netip.Addr) bool {
	return p.isHost(a) && a != p.Server && !slices.Contains(p.Others, a)
}

// isHost reports whether an address is in the network, and neither the first one of it, nor its broadcast address.
func (p *Pool) isHost(a netip.Addr) bool {
	if !a.Is4() || !p.Network.Contains(a) {
		return false
	}
	host := number(a) &^ (^uint32(0) << (32 - p.Network.Bits()))
	return host != 0 && host != ^uint32(0)>>p.Network.Bits()
}
