// Package grub renders configurations of GRUB, for machines whose firmware loads GRUB from the network, as it does with
// Secure Boot: the one that every machine starts with, those that boot a kernel or the disk, and the menu of an unknown
// machine. It is pure. Each value is in single quotes, in which GRUB knows no other character than the quote.
package grub

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"glowplug/internal/domain/ipxe"
)

// TFTP returns the device of a server's files over TFTP.
func TFTP(server netip.Addr) string { return "(tftp," + server.String() + ")" }

// Boot returns the configuration that every machine starts with. It requests the machine's own one from path at a
// device, until that boots, for about a minute; then the firmware goes on to the next device.
func Boot(device, path string) string {
	return "for try in 0 1 2 3 4 5 6 7 8 9 10 11; do\n" +
		"  configfile \"" + device + path + "?mac=${net_default_mac}&try=${try}\"\n" +
		"  echo 'glowplug: no boot yet, asking again in 5 seconds'\n" +
		"  sleep 5\n" +
		"done\n" +
		local
}

// Linux returns the configuration of a machine that boots the kernel of an image from a device.
func Linux(device, machine string, image *ipxe.Image) (string, error) {
	lines, err := linux(device, image)
	if err != nil {
		return "", err
	}
	return echo(machine+" boots "+image.Name) + lines + "boot\n", nil
}

// linux returns the lines that load a kernel.
func linux(device string, image *ipxe.Image) (string, error) {
	if image.Kernel == nil {
		return "", fmt.Errorf("image %s is no kernel, which is all that GRUB boots from the network: "+
			"use a stream with format: pxe", image.Name)
	}
	var files [2]string
	for i, address := range []string{image.Kernel.URL, image.Kernel.Initrd} {
		u, err := url.Parse(address)
		if err != nil {
			return "", err
		}
		files[i] = quoted(device + u.RequestURI())
	}
	line := "linux " + files[0]
	for _, arg := range image.Kernel.Args {
		for word := range strings.FieldsSeq(arg) {
			line += " " + quoted(word)
		}
	}
	return line + "\ninitrd " + files[1] + "\n", nil
}

// Local returns the configuration of a machine that boots its disk.
func Local(machine, reason string) string {
	return echo(machine+" boots its disk: "+reason) + local
}

// local are the lines that boot the disk. GRUB starts its boot loader itself, since firmware stops with its menu after
// GRUB's exit, which is a success always (UEFI 2.10, section 3.1.1). Systems install their loader in a folder of their
// own, and for machines without an entry for it in EFI/BOOT.
const local = `if [ "${grub_cpu}" = arm64 ]; then set cpu=aa64; else set cpu=x64; fi
for loader in /EFI/fedora/shim /EFI/redhat/shim /EFI/centos/shim /EFI/rocky/shim /EFI/almalinux/shim /EFI/debian/shim ` +
	`/EFI/ubuntu/shim /EFI/opensuse/shim /EFI/sles/shim /EFI/BOOT/BOOT; do
  if search --no-floppy --file --set=root ${loader}${cpu}.efi; then
    if chainloader ${loader}${cpu}.efi; then boot; fi
  fi
done
exit 1
`

// Failed returns the configuration of a machine that has nothing to boot yet. The one of Boot repeats its request.
func Failed(machine, reason string) string { return echo(machine + ": " + reason) }

// menuSeconds is the time after which a menu boots the disk.
const menuSeconds = 60

// Menu returns the configuration of an unknown machine: the images that it may boot, and its disk. Images that are no
// kernel are left out.
func Menu(device, address, mac string, images []ipxe.Image) (string, error) {
	text := fmt.Sprintf("set timeout=%d\nset default=disk\n", menuSeconds) +
		echo("this machine is not known here; its address is "+address+" and its MAC "+mac) +
		"menuentry 'Boot the disk' --id disk {\n" + local + "}\n"
	for i := range images {
		if images[i].Kernel == nil {
			continue
		}
		lines, err := linux(device, &images[i])
		if err != nil {
			return "", err
		}
		text += "menuentry " + quoted(strings.TrimSpace(images[i].Name+" "+images[i].Version)) + " {\n" + lines + "}\n"
	}
	return text, nil
}

func echo(s string) string { return "echo " + quoted("glowplug: "+s) + "\n" }

// quoted returns a value in single quotes. A control character, which could end the line, becomes a space.
func quoted(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
