// Package ipxe renders the scripts that iPXE runs: the one that collects the facts of a
// machine, those that boot an image or the disk, the menu for an unknown machine, and
// operators' scripts. It is pure. iPXE has no quoting: a line has only words, operators
// and variables. So every value in a script passes through word, text or secret, which
// refuse or replace characters that could end a word or a line.
package ipxe

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// DefaultPort is the default port of an iSCSI portal.
	DefaultPort = 3260
	header      = "#!ipxe\n"
)

// Boot returns the script that every machine starts with. It requests the machine's own
// script from base, this server's URL without a slash at its end. uuid and mac come
// first, since they identify the machine; free text, which may have any character, comes
// last; try is 0 the first time. After a missing answer or a failed boot the script repeats
// the request for about a minute; then the firmware goes on to the next device, as it does for a machine that boots its
// disk: iPXE always ends with an error, since UEFI stops with its menu after a success (UEFI 2.10, section 3.1.1).
func Boot(base string) (string, error) {
	base, err := word("the server's URL", base)
	if err != nil {
		return "", err
	}
	return header +
		"set gp-url " + base + "\n" +
		"set gp-try:int32 0\n" +
		":ask\n" +
		"chain --autofree ${gp-url}/ipxe?uuid=${uuid}&mac=${netX/mac:hexhyp}&try=${gp-try}&platform=${platform}&arch=${buildarch}" +
		"&asset=${asset:uristring}&serial=${serial:uristring}&manufacturer=${manufacturer:uristring}&product=${product:uristring}" +
		" && exit 1 ||\n" +
		"inc gp-try\n" +
		"iseq ${gp-try} 20 && goto give-up ||\n" +
		"echo glowplug: no boot from ${gp-url} yet, asking again in 3 seconds\n" +
		"sleep 3\n" +
		"goto ask\n" +
		":give-up\n" +
		"echo glowplug: no boot from ${gp-url}, going on to the next boot device\n" +
		"exit 1\n", nil
}

// CHAP has the credentials of an initiator and those of the target, which are empty where
// the target need not authenticate itself.
type CHAP struct{ Username, Password, MutualUsername, MutualPassword string }

// Target is an image that another machine or this one offers over iSCSI.
type Target struct {
	// Host is an address or a host name; Port 0 is DefaultPort.
	Host string
	Port uint16
	// Others are where other servers offer the same bytes: iPXE goes on there if it loses the one that it reads from.
	Others []netip.AddrPort
	LUN    int
	IQN    string
	// CHAP is nil where the target needs no login.
	CHAP *CHAP
}

// URI returns iscsi:host::port:lun:iqn, without the default LUN 0 and the default port.
func (t *Target) URI() (string, error) {
	host, err := word("the portal", t.Host)
	if err != nil {
		return "", err
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().Is6() {
		host = "[" + addr.WithZone("").String() + "]"
	} else if err == nil {
		host = addr.Unmap().String()
	}
	iqn, err := word("the IQN", t.IQN)
	if err != nil {
		return "", err
	}
	port, lun := "", ""
	if t.Port != 0 && t.Port != DefaultPort {
		port = strconv.Itoa(int(t.Port))
	}
	if t.LUN != 0 {
		lun = strconv.FormatInt(int64(t.LUN), 16) // the root path's LUN is hexadecimal
	}
	return "iscsi:" + host + "::" + port + ":" + lun + ":" + iqn, nil
}

// ParsePortal reads "host", "host:port", "address" or "[address]:port".
func ParsePortal(portal string) (host string, port uint16) {
	if a, err := netip.ParseAddrPort(portal); err == nil {
		return a.Addr().String(), a.Port()
	}
	if name, digits, ok := strings.Cut(portal, ":"); ok {
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
			return name, uint16(n)
		}
	}
	return strings.TrimSuffix(strings.TrimPrefix(portal, "["), "]"), 0
}

// lines returns the lines that boot from a target: the last one is sanboot, whose
// failure ends the script.
func (t *Target) lines() (string, error) {
	uri, err := t.URI()
	if err != nil {
		return "", err
	}
	for _, other := range t.Others {
		same := *t
		same.Host, same.Port = other.Addr().String(), other.Port()
		another, err := same.URI()
		if err != nil {
			return "", err
		}
		uri += " " + another
	}
	credentials := ""
	if t.CHAP != nil {
		credentials = secret("username", t.CHAP.Username) + "\n" + secret("password", t.CHAP.Password) + "\n"
		if t.CHAP.MutualUsername != "" {
			credentials += secret("reverse-username", t.CHAP.MutualUsername) + "\n" +
				secret("reverse-password", t.CHAP.MutualPassword) + "\n"
		}
	}
	return credentials + "sanboot " + uri + "\n", nil
}

// Image is a target, a kernel, or an ISO at a URL.
type Image struct {
	// Name and Version are printed.
	Name, Version string
	// Target and Kernel are nil where URL is given.
	Target *Target
	Kernel *Kernel
	URL    string
}

// Kernel is a Linux kernel and its initial RAM disk.
type Kernel struct {
	// URL and Initrd are their URLs.
	URL, Initrd string
	// Args are the kernel's arguments.
	Args []string
}

// commandLine bounds the arguments of a kernel, in bytes, with a final zero byte.
const commandLine = 2048

// lines returns the lines that start a kernel. The initial RAM disk is named in the
// arguments, too: older kernels find it there under UEFI.
func (k *Kernel) lines() (string, error) {
	url, err := word("the URL of the kernel", k.URL)
	if err != nil {
		return "", err
	}
	initrd, err := word("the URL of the initramfs", k.Initrd)
	if err != nil {
		return "", err
	}
	line := "initrd=main"
	for _, arg := range k.Args {
		words, err := Argument(arg)
		if err != nil {
			return "", err
		}
		line += " " + words
	}
	if len(line) >= commandLine {
		return "", fmt.Errorf("the kernel arguments take %d bytes, a kernel has room for %d", len(line), commandLine-1)
	}
	return "kernel " + url + " " + line + "\ninitrd --name main " + initrd + "\nboot\n", nil
}

// Lines returns the lines that boot an image.
func (i *Image) Lines() (string, error) {
	if i.Target != nil {
		return i.Target.lines()
	}
	if i.Kernel != nil {
		return i.Kernel.lines()
	}
	url, err := word("the URL of the image", i.URL)
	if err != nil {
		return "", err
	}
	return "sanboot " + url + "\n", nil
}

// Sanboot returns the script of a machine that boots an image.
func Sanboot(machine string, image *Image) (string, error) {
	lines, err := image.Lines()
	if err != nil {
		return "", err
	}
	return header + echo(machine+" boots "+image.Name) + lines, nil
}

// Local returns the script of a machine that boots its disk.
func Local(machine, reason string) string {
	return header + echo(machine+" boots its disk: "+reason) + Exit
}

// Exit are the lines that leave the boot to the firmware, which goes on with the disk: by the script of Boot, which
// takes a success for that, or at once.
const Exit = "isset ${gp-url} || exit 1\nexit\n"

// Failed returns the script of a machine that has nothing to boot yet: it prints the reason
// and fails, and then the script of Boot repeats its request.
func Failed(machine, reason string) string {
	return header + echo(machine+": "+reason) + "exit 1\n"
}

func echo(s string) string { return "echo glowplug: " + text(s) + "\n" }

// menuSeconds is the time after which a menu boots the disk.
const menuSeconds = 60

// Menu returns the script of an unknown machine: a screen with its address and the images
// that it may boot. Without a choice it boots the disk. It does so, too, after the boot
// loader of an image has exited, as "Boot from Hard Disk" in the menu of an installer does.
func Menu(address, mac string, images []Image) (string, error) {
	var items, targets strings.Builder
	for n := range images {
		image := &images[n]
		lines, err := image.Lines()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&items, "item image%d %s\n", n, text(strings.TrimSpace(image.Name+"  "+image.Version)))
		fmt.Fprintf(&targets, ":image%d\n%sgoto local\n", n, lines)
	}
	head := header + "menu glowplug: this machine is not known here\n"
	if address != "" {
		head += "item --gap -- Address " + text(address) + "\n"
	}
	if mac != "" {
		head += "item --gap -- MAC " + text(mac) + "\n"
	}
	head += "item --gap -- To make it known, create a BareMetalHost with one of these\n" +
		"item --gap --\n" +
		"item --key l local Boot the disk\n"
	return head + items.String() +
		fmt.Sprintf("choose --default local --timeout %d selected || goto local\n", menuSeconds*1000) +
		"goto ${selected}\n" +
		targets.String() +
		":local\n" +
		Exit, nil
}
