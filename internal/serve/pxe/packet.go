package pxe

import (
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// bootNow is option 43 of PXE: discovery control (6) with bit 3, "boot the file of this packet" (PXE specification 2.1,
// table 2-7).
var bootNow = []byte{6, 1, 8, 255}

// maxFile is the size of the field for the boot file, with its zero byte.
const maxFile = 128

// Proxy makes the packet of an answer beside a DHCP server: an offer without an address to a DISCOVER, which leaves the
// address to the DHCP server, and an acknowledgement to a REQUEST at port 4011.
func (r *Rules) Proxy(to *dhcpv4.DHCPv4, a Answer) (*dhcpv4.DHCPv4, error) {
	kind := dhcpv4.MessageTypeOffer
	if to.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
	}
	return r.Reply(to, kind, a)
}

// Reply makes a packet with an answer, which may be none.
func (r *Rules) Reply(to *dhcpv4.DHCPv4, kind dhcpv4.MessageType, a Answer) (*dhcpv4.DHCPv4, error) {
	address := net.IP(r.Address.AsSlice())
	reply, err := dhcpv4.NewReplyFromRequest(to, dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(address)))
	if err != nil {
		return nil, err
	}
	if kind == dhcpv4.MessageTypeAck {
		reply.ClientIPAddr = to.ClientIPAddr
	}
	if a.File == "" {
		return reply, nil
	}
	reply.ServerIPAddr = address
	reply.UpdateOption(dhcpv4.OptClassIdentifier(a.Class))
	if id := to.Options.Get(optionUUID); len(id) == 17 {
		reply.UpdateOption(dhcpv4.OptGeneric(optionUUID, id))
	}
	if a.Direct {
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, bootNow))
	}
	if a.Class == classPXE {
		reply.ServerHostName = r.Address.String()
	}
	switch {
	case kind == dhcpv4.MessageTypeOffer && a.Class == classPXE && !a.Direct: // it asks at port 4011
	case len(a.File) < maxFile:
		reply.BootFileName = a.File
	default:
		reply.UpdateOption(dhcpv4.OptBootFileName(a.File))
	}
	return reply, nil
}
