package decide

import (
	"net/netip"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// Sighting is a request of a machine that is no known host. All but Addr and Neighbor are
// claims.
type Sighting struct {
	// Request is the Type of the request.
	Request string
	Addr    netip.Addr
	// Neighbor is the hardware address in the neighbour table, MAC the claimed one.
	Neighbor, MAC netaddr.MAC
	// OtherMACs are claimed hardware addresses that are none of Ethernet.
	OtherMACs      []string
	UUID, Hostname string
	// These are free text of any length.
	Serial, Manufacturer, Product, Arch string
}

// MachineName returns the name of the UnknownMachine with a hardware address or, where that
// is zero, an IP address.
func MachineName(mac netaddr.MAC, addr netip.Addr) string {
	if mac != zeroMAC {
		return strings.ReplaceAll(mac.String(), ":", "-")
	}
	if !addr.IsValid() {
		return "no-address"
	}
	// All 8 groups of an IPv6 address are written, since "::" has no form in a name.
	return strings.NewReplacer(".", "-", ":", "-").Replace(addr.WithZone("").Unmap().StringExpanded())
}
