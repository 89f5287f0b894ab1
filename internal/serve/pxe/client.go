package pxe

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/loader"
)

// Stage is which program asks.
type Stage uint8

// The stages of a network boot, in order.
const (
	// Firmware asks for a loader by TFTP, and FirmwareHTTP for one by HTTP (UEFI HTTP Boot).
	Firmware Stage = iota
	FirmwareHTTP
	// IPXE asks for a script.
	IPXE
)

// Client is a machine that asks how to boot from the network.
type Client struct {
	MAC netaddr.MAC
	// UUID is the system UUID; "": it is not said.
	UUID  string
	Stage Stage
	// Arch is the firmware; unknownArch: no loader is for it.
	Arch loader.Arch
	// isBooting is true where it asks for a file to boot.
	isBooting bool
}

// String says what asks.
func (c *Client) String() string {
	switch c.Stage {
	case FirmwareHTTP:
		return string(c.Arch) + " HTTP Boot"
	case IPXE:
		return "iPXE on " + string(c.Arch)
	}
	return string(c.Arch) + " PXE"
}

// Options that the library does not name: of the iPXE project (ipxe.org/howto/dhcpd), and of PXE (RFC 4578).
const (
	optionIPXE = dhcpv4.GenericOptionCode(175)
	optionUUID = dhcpv4.GenericOptionCode(97)
)

const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
	// classIPXE is the user class of iPXE.
	classIPXE = "iPXE"
)

// arches are the processor types of firmware (IANA, "Processor Architecture Types"), PXE and HTTP Boot.
var arches = map[iana.Arch]loader.Arch{
	iana.INTEL_X86PC: loader.BIOS, iana.EFI_IA32: loader.IA32, iana.EFI_X86_64: loader.X64, iana.EFI_BC: loader.X64,
	iana.EFI_ARM64: loader.ARM64, iana.EFI_X86_HTTP: loader.IA32, iana.EFI_X86_64_HTTP: loader.X64,
	iana.EFI_ARM64_HTTP: loader.ARM64,
}

// Read returns the client that has sent a packet; ok is false for what is no network boot over Ethernet.
func Read(p *dhcpv4.DHCPv4) (c Client, ok bool) {
	c, ok = ReadMachine(p)
	return c, ok && c.isBooting
}

// ReadMachine returns the machine that has sent a packet, whether it boots or not; ok is false for what does not come
// from a card of Ethernet.
func ReadMachine(p *dhcpv4.DHCPv4) (c Client, ok bool) {
	if p.OpCode != dhcpv4.OpcodeBootRequest || p.HWType != iana.HWTypeEthernet || len(p.ClientHWAddr) != len(c.MAC) {
		return c, false
	}
	copy(c.MAC[:], p.ClientHWAddr)
	if c.MAC == (netaddr.MAC{}) || c.MAC[0]&1 == 1 { // of no card, or of many
		return c, false
	}
	class := p.ClassIdentifier()
	switch {
	case strings.HasPrefix(class, classHTTP):
		c.Stage = FirmwareHTTP
	case strings.HasPrefix(class, classPXE):
	default:
		return c, true
	}
	c.isBooting = true
	// iPXE after HTTP Boot is no HTTPClient. Some builds send the class without its architecture (ipxe/ipxe#1527).
	if p.Options.Has(optionIPXE) || bytes.HasSuffix(p.Options.Get(dhcpv4.OptionUserClassInformation), []byte(classIPXE)) {
		c.Stage = IPXE
	}
	c.Arch = archOf(p)
	c.UUID = uuidOf(p.Options.Get(optionUUID))
	return c, true
}

// unknownArch is firmware that no loader is for, such as that of a Raspberry Pi.
const unknownArch = loader.Arch("other firmware")

// archOf returns the first architecture of option 93, which a client without it does not say: that is a BIOS.
func archOf(p *dhcpv4.DHCPv4) loader.Arch {
	said := p.ClientArch()
	if len(said) == 0 {
		return loader.BIOS
	}
	for _, number := range said {
		if arch := arches[number]; arch != "" {
			return arch
		}
	}
	return unknownArch
}

// uuidOf reads option 97: a type, which is 0, and 16 bytes. Boards without a UUID have none.
func uuidOf(option []byte) string {
	if len(option) != 17 || option[0] != 0 {
		return ""
	}
	b := option[1:]
	uuid, err := netaddr.ParseUUID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
	if err != nil {
		return ""
	}
	return uuid
}
