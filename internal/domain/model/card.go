package model

import (
	"cmp"
	"net/netip"
	"slices"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/template"
)

// Card is a network card of a host: its IP address, which may be invalid, and its host name, which may be "".
type Card struct {
	IP       netip.Addr
	Hostname string
}

// CardOf returns the card of a host with a hardware address: the one in spec.nics, or the one that spec itself
// describes. A card in spec.nics without an address has that of spec where spec has no hardware address.
func (h *Host) CardOf(mac netaddr.MAC) Card {
	var nics []template.NIC
	if h.More != nil {
		nics = h.More.NICs
	}
	hasMAC := func(mac netaddr.MAC) func(template.NIC) bool {
		return func(n template.NIC) bool { m, err := netaddr.ParseMAC(n.MAC); return err == nil && m == mac }
	}
	card := Card{}
	for _, ip := range h.IPs {
		hasIP := func(n template.NIC) bool { a, err := netaddr.ParseIP(n.IP); return err == nil && a == ip }
		if !slices.ContainsFunc(nics, hasIP) {
			card.IP = ip
			break
		}
	}
	if len(h.Hostnames) > 0 {
		card.Hostname = h.Hostnames[0]
	}
	i := slices.IndexFunc(nics, hasMAC(mac))
	if i < 0 {
		return card
	}
	if !slices.ContainsFunc(nics, hasMAC(h.MACs[0])) {
		card.IP = netip.Addr{} // it is that of the card with this hardware address
	}
	if ip, err := netaddr.ParseIP(nics[i].IP); err == nil {
		card.IP = ip
	}
	card.Hostname = cmp.Or(nics[i].Hostname, card.Hostname)
	return card
}
