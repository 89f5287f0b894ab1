package app

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"glowplug/internal/domain/lease"
	"glowplug/internal/option"
	"glowplug/internal/serve/pxe"
	"glowplug/internal/store/leases"
)

// PXE is what the firmware of machines is answered that boot from the network, and which addresses machines are given.
type PXE struct {
	Interfaces []string
	Hosts      string
	Loaders    string
	Advertise  string
	Relays     bool

	Ranges  []string
	Routers []string
	DNS     []string
	Beside  bool
}

// Values of --pxe-ra.
const (
	advertiseAuto = "auto"
	advertiseOn   = "true"
	advertiseOff  = "false"
)

func (o *PXE) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Interfaces, "pxe-interface", nil, "network interface, as eth1, where machines that boot from the "+
		"network are given iPXE, beside the DHCP server that gives them addresses (repeatable; default: none; it needs UDP "+
		"ports 67, 69 and 4011)")
	fs.StringVar(&o.Hosts, "pxe-hosts", pxe.HostsAll, "machines that are given a boot file there: all, or known (hosts alone)")
	fs.StringVar(&o.Advertise, "pxe-ra", advertiseAuto, "answer the IPv6 router solicitations of the machines that are "+
		"given a boot file there, as a router that is none: on a network without router advertisements iPXE waits 16 s for "+
		"one, each time it starts: true, false, or auto (with --dhcp-range, unless this machine is an IPv6 router; it needs "+
		"CAP_NET_RAW)")
	fs.Lookup("pxe-ra").NoOptDefVal = advertiseOn
	fs.BoolVar(&o.Relays, "pxe-relays", false, "answer DHCP relays there as well, which send from other networks; the "+
		"DHCP server of these gives the addresses")
	fs.StringVar(&o.Loaders, "boot-loaders", "", "folder of boot loaders (default: those of the packages of Debian and "+
		"Fedora; glowplug boot-loaders lists them)")
	fs.StringSliceVar(&o.Ranges, "dhcp-range", nil, "range of IPv4 addresses, FIRST-LAST, that machines are given by DHCP, "+
		"on the --pxe-interface whose network has it; a host with spec.ip gets that address (repeatable; default: none, "+
		"another DHCP server gives the addresses)")
	fs.StringSliceVar(&o.Routers, "dhcp-router", nil, "default router that is given with an address of its network "+
		"(repeatable; default: none)")
	fs.StringSliceVar(&o.DNS, "dhcp-dns", nil, "DNS server that is given with an address (repeatable; default: none)")
	fs.BoolVar(&o.Beside, "dhcp-beside-others", false, "give addresses although another DHCP server answers there, such as "+
		"another server of the same store (default: serve refuses to start)")
}

// leasing is the part of --dhcp-range and its like.
type leasing struct {
	ranges       []lease.Range
	routers, dns []netip.Addr
}

// checkLeasing parses the options of leases.
func (s *settings) checkLeasing() (err error) {
	o, l := &s.PXE, &s.leasing
	if len(o.Ranges) > 0 && len(o.Interfaces) == 0 {
		return option.Bad("dhcp-range", "needs --pxe-interface, the interface towards the machines")
	}
	for flag, isSet := range map[string]bool{
		"dhcp-router": len(o.Routers) > 0, "dhcp-dns": len(o.DNS) > 0, "dhcp-beside-others": o.Beside,
	} {
		if isSet && len(o.Ranges) == 0 {
			return option.Bad(flag, "is for machines that are given addresses: it needs --dhcp-range")
		}
	}
	for _, text := range o.Ranges {
		r, err := lease.ParseRange(text)
		if err != nil {
			return option.Bad("dhcp-range", "%v", err)
		}
		l.ranges = append(l.ranges, r)
	}
	if l.routers, err = addresses("dhcp-router", o.Routers); err != nil {
		return err
	}
	l.dns, err = addresses("dhcp-dns", o.DNS)
	return err
}

func addresses(flag string, texts []string) (all []netip.Addr, err error) {
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() {
			return nil, option.Bad(flag, "%q is no IPv4 address", text)
		}
		all = append(all, a)
	}
	return all, nil
}

// networks returns the network of each --pxe-interface. The error is about one of them, or a range or a router that is
// in none.
func (s *settings) networks() (networks []netip.Prefix, err error) {
	for _, name := range s.PXE.Interfaces {
		network, err := pxe.NetworkOf(name)
		if err != nil {
			return nil, option.Bad("pxe-interface", "%v", err)
		}
		networks = append(networks, network)
	}
	return networks, s.checkUsed(networks)
}

// leasingOn returns what machines at an interface with an address in a network are given addresses from; nil: another
// DHCP server gives them.
func (s *settings) leasingOn(
	ctx context.Context, name string, network netip.Prefix, book *leases.Book) (*pxe.Leasing, error) {
	i := slices.IndexFunc(s.leasing.ranges, func(r lease.Range) bool { return network.Contains(r.First) })
	if i < 0 {
		return nil, nil
	}
	l := &pxe.Leasing{
		Pool: lease.Pool{Network: network, Server: network.Addr(), Range: s.leasing.ranges[i], Others: s.leasing.dns},
		Book: book, Beside: s.PXE.Beside,
	}
	for _, router := range s.leasing.routers {
		if network.Contains(router) {
			l.Routers, l.Others = append(l.Routers, router.AsSlice()), append(slices.Clip(l.Others), router)
		}
	}
	for _, server := range s.leasing.dns {
		l.DNS = append(l.DNS, server.AsSlice())
	}
	if err := l.Check(); err != nil {
		return nil, option.Bad("dhcp-range", "%v", err)
	}
	if l.Beside {
		return l, nil
	}
	return l, checkAlone(ctx, name)
}

// checkUsed returns an error for a range or a router that is in none of the networks.
func (s *settings) checkUsed(networks []netip.Prefix) error {
	for _, router := range s.leasing.routers {
		if !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(router) }) {
			return option.Bad("dhcp-router", "%s is in no network of --pxe-interface, so machines could not reach it", router)
		}
	}
	for i, r := range s.leasing.ranges {
		at := slices.IndexFunc(networks, func(n netip.Prefix) bool { return n.Contains(r.First) })
		if at < 0 {
			var have []string
			for _, n := range networks {
				have = append(have, n.Masked().String())
			}
			return option.Bad("dhcp-range", "%s is in no network of --pxe-interface: they have %s", r, strings.Join(have, ", "))
		}
		if slices.ContainsFunc(s.leasing.ranges[:i], func(r lease.Range) bool { return networks[at].Contains(r.First) }) {
			return option.Bad("dhcp-range", "%s is the second range in %s, which can have one", r, networks[at].Masked())
		}
	}
	return nil
}

// checkAlone returns an error if another DHCP server gives addresses at an interface.
func checkAlone(ctx context.Context, name string) error {
	others, err := pxe.Servers(ctx, name)
	if err != nil {
		return option.Bad("dhcp-range", "other DHCP servers on %s cannot be asked for: %v; --dhcp-beside-others starts "+
			"without asking", name, err)
	}
	if len(others) == 0 {
		return nil
	}
	return option.Bad("dhcp-range", "the DHCP server %s answers on %s, and two would give the same addresses: stop it, leave "+
		"--dhcp-range out and let it give the addresses, or say --dhcp-beside-others", others[0].Address, name)
}
