package machine

import (
	"context"
	"net/http"
	"net/netip"

	"glowplug/internal/domain/grub"
	"glowplug/internal/domain/ipxe"
)

// PathGRUB is where a machine that has booted GRUB gets its configuration: that of PathIPXE in GRUB's words.
const PathGRUB = "/grub"

// scripts writes what a machine boots in the words of its boot program.
type scripts interface {
	boots(machine string, image *ipxe.Image) (string, error)
	local(machine, reason string) string
	failed(machine, reason string) string
	menu(address, mac string, images []ipxe.Image) (string, error)
}

// ipxeScripts are those of iPXE.
type ipxeScripts struct{}

func (ipxeScripts) boots(machine string, image *ipxe.Image) (string, error) {
	return ipxe.Sanboot(machine, image)
}
func (ipxeScripts) local(machine, reason string) string  { return ipxe.Local(machine, reason) }
func (ipxeScripts) failed(machine, reason string) string { return ipxe.Failed(machine, reason) }

func (ipxeScripts) menu(address, mac string, images []ipxe.Image) (string, error) {
	return ipxe.Menu(address, mac, images)
}

// grubScripts are those of GRUB, which reads its files from a device.
type grubScripts struct{ device string }

func (g grubScripts) boots(machine string, image *ipxe.Image) (string, error) {
	return grub.Linux(g.device, machine, image)
}
func (g grubScripts) local(machine, reason string) string  { return grub.Local(machine, reason) }
func (g grubScripts) failed(machine, reason string) string { return grub.Failed(machine, reason) }

func (g grubScripts) menu(address, mac string, images []ipxe.Image) (string, error) {
	return grub.Menu(g.device, address, mac, images)
}

// scriptsOf returns those for the boot program that has sent a request. The GRUB of distributions reads over TFTP; over
// HTTP only one that has the module for it can ask.
func (s bootPath) scriptsOf(r *http.Request) scripts {
	if r.URL.Path != PathGRUB {
		return ipxeScripts{}
	}
	local := localAddr(r)
	if _, overTFTP := r.Context().Value(tftpKey{}).(bool); overTFTP {
		return grubScripts{grub.TFTP(local.Addr())}
	}
	return grubScripts{"(http," + netip.AddrPortFrom(local.Addr().WithZone(""), local.Port()).String() + ")"}
}

// tftpKey marks the context of a request that came over TFTP.
type tftpKey struct{}

// OverTFTP returns a request that came over TFTP.
func OverTFTP(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), tftpKey{}, true))
}
