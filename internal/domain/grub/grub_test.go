package grub

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"glowplug/internal/domain/ipxe"
)

var (
	device = TFTP(netip.MustParseAddr("192.0.2.1"))
	files  = ipxe.Image{Name: "g10/files", Version: "41.1", Kernel: &ipxe.Kernel{
		URL:    "http://192.0.2.1:8082/iso/g10/files@0123/files/kernel?mac=52:54:00:00:00:01",
		Initrd: "http://192.0.2.1:8082/iso/g10/files@0123/files/initramfs?mac=52:54:00:00:00:01",
		Args:   []string{"console=ttyS0 quiet", "a='b' ; c", "ignition.config.url=http://192.0.2.1:8082/api/v1/ignition"},
	}}
	disc = ipxe.Image{Name: "g10/live", URL: "http://192.0.2.1:8082/iso/g10/live.iso"}
)

// TestConfigurations: each configuration, line by line. No value ends its quotes or its line.
func TestConfigurations(t *testing.T) {
	linux, err := Linux(device, "host g10/it's\nexit", &files)
	if err != nil {
		t.Fatal(err)
	}
	menu, err := Menu(device, "192.0.2.7", "52:54:00:00:00:01", []ipxe.Image{disc, files})
	if err != nil {
		t.Fatal(err)
	}
	const kernel = `linux '(tftp,192.0.2.1)/iso/g10/files@0123/files/kernel?mac=52:54:00:00:00:01' 'console=ttyS0' 'quiet' ` +
		`'a='\''b'\''' ';' 'c' 'ignition.config.url=http://192.0.2.1:8082/api/v1/ignition'
initrd '(tftp,192.0.2.1)/iso/g10/files@0123/files/initramfs?mac=52:54:00:00:00:01'
`
	const disk = `if [ "${grub_cpu}" = arm64 ]; then set cpu=aa64; else set cpu=x64; fi
for loader in /EFI/fedora/shim /EFI/redhat/shim /EFI/centos/shim /EFI/rocky/shim /EFI/almalinux/shim /EFI/debian/shim ` +
		`/EFI/ubuntu/shim /EFI/opensuse/shim /EFI/sles/shim /EFI/BOOT/BOOT; do
  if search --no-floppy --file --set=root ${loader}${cpu}.efi; then
    if chainloader ${loader}${cpu}.efi; then boot; fi
  fi
done
exit 1
`
	for name, c := range map[string]struct{ got, want string }{
		"boot": {Boot(device, "/grub"), `for try in 0 1 2 3 4 5 6 7 8 9 10 11; do
  configfile "(tftp,192.0.2.1)/grub?mac=${net_default_mac}&try=${try}"
  echo 'glowplug: no boot yet, asking again in 5 seconds'
  sleep 5
done
` + disk},
		"a kernel": {linux, "echo 'glowplug: host g10/it'\\''s exit boots g10/files'\n" + kernel + "boot\n"},
		"the disk": {Local("host g10/h", "it is provisioned"),
			"echo 'glowplug: host g10/h boots its disk: it is provisioned'\n" + disk},
		"nothing": {Failed("host g10/h", "its image is missing"), "echo 'glowplug: host g10/h: its image is missing'\n"},
		"the menu": {menu, `set timeout=60
set default=disk
echo 'glowplug: this machine is not known here; its address is 192.0.2.7 and its MAC 52:54:00:00:00:01'
menuentry 'Boot the disk' --id disk {
` + disk + `}
menuentry 'g10/files 41.1' {
` + kernel + "}\n"},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := Linux(device, "host g10/h", &disc); err == nil || !strings.Contains(err.Error(), "image g10/live is no kernel") {
		t.Errorf("an ISO image: %v", err)
	}
}
