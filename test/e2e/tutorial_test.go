package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// tutorial returns the objects of docs/start/tutorial.md for one machine of the rack.
func tutorial(t *testing.T, n int) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/start/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	_, yaml, _ := strings.Cut(string(page), "```yaml\n")
	yaml, rest, ok := strings.Cut(yaml, "```")
	if !ok || strings.Contains(rest, "```yaml") {
		t.Fatal("the tutorial does not have one file of objects")
	}
	if words := len(strings.Fields(string(page))); words > 1200 {
		t.Errorf("the tutorial has %d words", words)
	}
	return strings.NewReplacer("52:54:00:12:34:56", fmt.Sprintf("52:54:00:00:00:%02x", n), "192.168.10.21",
		fmt.Sprintf("192.0.2.%d", 20+n), "/dev/sda", "/dev/vda", "name: node-1", fmt.Sprintf("name: node-%d", n)).Replace(yaml)
}

// efiDisk writes the image of a disk with the system that UEFI boots, with and without Secure Boot: shim and GRUB, which
// writes diskMarker to the serial port.
func efiDisk(t *testing.T, path string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "grub.cfg")
	write(t, config, "serial --unit=0 --speed=115200\nterminal_output serial\necho "+diskMarker+"\nsleep 2\nreboot\n")
	for _, argv := range [][]string{
		{"truncate", "-s", "8M", path},
		{"mformat", "-i", path, "::"},
		{"mmd", "-i", path, "::/EFI", "::/EFI/BOOT", "::/EFI/debian"},
		{"mcopy", "-i", path, "/usr/lib/shim/shimx64.efi.signed", "::/EFI/BOOT/BOOTX64.EFI"},
		{"mcopy", "-i", path, "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed", "::/EFI/BOOT/grubx64.efi"},
		{"mcopy", "-i", path, config, "::/EFI/debian/grub.cfg"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
}

// TestTutorial installs machines with the objects of the tutorial, each with another firmware: its blank disk has the
// system then, with the config for that, and the machine boots it. Nothing but the server answers in the network.
func TestTutorial(t *testing.T) {
	needs(t, "root", "ip", "qemu-system-x86_64", "mformat", "mcopy", "mmd", "truncate")
	for _, file := range []string{ovmfSecureVars, "/usr/lib/shim/shimx64.efi.signed",
		"/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("needs Debian's packages ovmf, shim-signed and grub-efi-amd64-signed: %v", err)
		}
	}
	assets := t.TempDir()
	efiDisk(t, filepath.Join(assets, "disk.efi"))
	r, _, _ := newStreamRack(t, "", "--pxe-interface", "br0", "--dhcp-range", "192.0.2.100-192.0.2.199", "--assets-dir", assets)
	for n, c := range map[int]struct {
		name   string
		change func(*guest)
	}{
		1: {"BIOS", func(*guest) {}},
		2: {"UEFI", func(g *guest) { g.stock = true }},
		3: {"UEFI HTTP Boot", func(g *guest) { g.stock, g.http = true, true }},
		4: {"Secure Boot", func(g *guest) { g.stock, g.secure = true, true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.apply(tutorial(t, n))
			node := fmt.Sprint("node-", n)
			r.kubectl("wait", "cdrom/fcos", "-n", "rack-a", "--for=condition=Ready", "--timeout=60s")
			// The console of the test is a serial port.
			r.kubectl("patch", "bmh", "-n", "rack-a", node, "--type=merge", "-p",
				`{"spec":{"kernelArgs":["console=ttyS0,115200","panic=1"]}}`)
			guest := r.guest(n, fmt.Sprintf("52:54:00:00:00:%02x", n), n > 1)
			if c.change(guest); guest.secure {
				r.kubectl("patch", "bmh", "-n", "rack-a", node, "--type=merge", "-p",
					`{"spec":{"pxe":{"loader":"shimx64.efi.signed"}}}`)
				vars, err := os.ReadFile(ovmfSecureVars)
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(guest.dir, "vars"), string(vars))
			}
			guest.blank = true
			write(t, guest.disk(), strings.Repeat("\x00", 16<<20))
			shows(t, guest.boot(t, "GUEST-INSTALLED", "GUEST-FAILED", "GUEST-DONE"), "GUEST-INSTALLED on /dev/vda")
			if disk, err := os.ReadFile(guest.disk()); err != nil || !strings.Contains(string(disk), "you@example") {
				t.Errorf("the config is not on the disk: %v", err)
			}
			shows(t, guest.boot(t, diskMarker, "GUEST-DONE", "Shell>"), diskMarker)
			testkit.Until(t, "the host is provisioned", func() bool {
				return r.kubectl("get", "bmh", "-n", "rack-a", node, "-o", "jsonpath={.status.state}") == "Provisioned"
			})
		})
	}
}
