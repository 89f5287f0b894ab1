package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"glowplug/test/launch"
)

// bootTimeout is for a boot in emulation on a busy machine.
const bootTimeout = 4 * time.Minute

// Firmware files of Debian's package ovmf.
const (
	ovmfCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"

	ovmfSecureCode = "/usr/share/OVMF/OVMF_CODE_4M.ms.fd"
	ovmfSecureVars = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
)

// Firmware files of Debian's package qemu-efi-aarch64.
const (
	aavmfCode = "/usr/share/AAVMF/AAVMF_CODE.fd"
	aavmfVars = "/usr/share/AAVMF/AAVMF_VARS.fd"
)

// diskMarker is what the test's disk says when it is booted.
const diskMarker = "LOCAL-DISK-BOOTED"

// bootDisk is a disk whose boot sector writes diskMarker to the serial port and
// resets the machine, which ends the emulation.
func bootDisk() []byte {
	disk := make([]byte, 1<<20)
	copy(disk, []byte{
		0xFC, 0x31, 0xC0, 0x8E, 0xD8, // cld; ds = 0
		0xBE, 0x40, 0x7C, // si = the text
		0xAC, 0x84, 0xC0, 0x74, 0x11, // next: lodsb; end at 0
		0x88, 0xC4, 0xBA, 0xFD, 0x03, 0xEC, 0xA8, 0x20, 0x74, 0xFB, // wait for the port
		0x88, 0xE0, 0xB2, 0xF8, 0xEE, 0xEB, 0xEA, // out; jmp next
		0xB0, 0xFE, 0xE6, 0x64, 0xF4, 0xEB, 0xFD, // reset by the keyboard controller
	})
	copy(disk[0x40:], "\r\n"+diskMarker+"\r\n")
	disk[510], disk[511] = 0x55, 0xAA
	return disk
}

// guest is a machine in QEMU on the rack.
type guest struct {
	rack *rack
	n    int
	mac  string
	uuid string
	uefi bool
	dir  string
	// stock is true for a card without iPXE in its ROM: UEFI boots from the network itself. http has it do so over HTTP
	// alone.
	stock, http bool
	// blank is true for a disk without a system, which the guest has a driver for.
	blank bool
	// secure is true for firmware that boots programs alone that Microsoft has signed.
	secure bool
	// arm64 is true for a machine with an arm64 processor, whose firmware is UEFI and reads virtio disks alone.
	arm64 bool
}

// guest plugs an emulated machine into the rack.
func (r *rack) guest(n int, mac string, uefi bool) *guest {
	r.t.Helper()
	g := &guest{rack: r, n: n, mac: mac, uefi: uefi, dir: r.t.TempDir(),
		uuid: fmt.Sprintf("4c4c4544-0042-3510-8056-b4c04f4e31%02x", n)}
	tap := g.tap()
	r.ip("-n", r.name, "tuntap", "add", "dev", tap, "mode", "tap")
	r.ip("-n", r.name, "link", "set", tap, "master", "br0", "up")
	if err := os.WriteFile(filepath.Join(g.dir, "disk"), bootDisk(), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if uefi {
		vars, err := os.ReadFile(ovmfVars)
		if err != nil {
			r.t.Skipf("needs Debian's package ovmf: %v", err)
		}
		if err := os.WriteFile(filepath.Join(g.dir, "vars"), vars, 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	return g
}

func (g *guest) disk() string { return filepath.Join(g.dir, "disk") }

func (g *guest) tap() string { return fmt.Sprintf("tap%d", g.n) }

// escapes are what firmware and boot loaders write to a terminal.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?=]*[A-Za-z]|\([A-Z0-9])|\r`)

// boot boots the machine and gives what its console showed, until it resets or
// shows one of the texts.
func (g *guest) boot(t *testing.T, until ...string) string {
	t.Helper()
	machine, code := []string{"qemu-system-x86_64", "-machine", "q35,graphics=off"}, ovmfCode
	if g.arm64 {
		machine, code = []string{"qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57"}, aavmfCode
	}
	args := slices.Concat([]string{"netns", "exec", g.rack.name}, machine, []string{"-accel", "tcg", "-m", "896",
		"-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-uuid", g.uuid,
		"-netdev", "tap,id=n0,ifname=" + g.tap() + ",script=no,downscript=no", "-device",
		"virtio-net-pci,netdev=n0,bootindex=1,mac=" + g.mac + map[bool]string{true: ",romfile="}[g.stock],
		"-drive", "if=none,id=d0,format=raw,file=" + g.disk(), "-device",
		map[bool]string{true: "virtio-blk-pci", false: "ide-hd"}[g.blank] + ",drive=d0,bootindex=2"})
	if g.uefi {
		if g.secure {
			code = ovmfSecureCode
			args = append(args, "-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on")
		}
		args = append(args, "-drive", "if=pflash,format=raw,readonly=on,file="+code,
			"-drive", "if=pflash,format=raw,file="+filepath.Join(g.dir, "vars"))
	}
	if g.stock { // before its disk the firmware would try IPv6 for a minute
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=no")
	}
	if g.http {
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=no")
	}
	console := &launch.Output{}
	cmd := exec.CommandContext(t.Context(), "ip", args...)
	cmd.Stdout, cmd.Stderr = console, console
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill(); <-done }()
	shown := func() string { return escapes.ReplaceAllString(console.String(), "") }
	for time.Since(began) < bootTimeout {
		select {
		case <-done:
			t.Logf("booted in %v", time.Since(began).Round(time.Second))
			return shown()
		case <-time.After(200 * time.Millisecond):
		}
		for _, text := range until {
			if strings.Contains(shown(), text) {
				t.Logf("booted in %v", time.Since(began).Round(time.Second))
				return shown()
			}
		}
	}
	t.Fatalf("nothing of %q after %v:\n%s", until, bootTimeout, launch.Tail(shown(), 4000))
	return ""
}

// dhcp runs a DHCP server on the rack, with an option.
func (r *rack) dhcp(hosts map[string]string, option string) {
	r.t.Helper()
	args := []string{"netns", "exec", r.name, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
		"--user=root", "--group=root",
		"--interface=br0", "--bind-interfaces", "--leasefile-ro", "--log-facility=-", "--log-dhcp", "--pid-file=",
		"--dhcp-range=192.0.2.100,192.0.2.200,1h", option}
	for mac, addr := range hosts {
		args = append(args, "--dhcp-host="+mac+","+addr)
	}
	cmd := exec.Command("ip", args...)
	var out bytes.Buffer
	log := &launch.Output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if r.t.Failed() {
			out.WriteString(log.String())
			r.t.Logf("dnsmasq:\n%s", launch.Tail(out.String(), 3000))
		}
	})
}

// kubectl runs kubectl with the admin's kubeconfig in the server's namespace.
func (r *rack) kubectl(args ...string) string {
	r.t.Helper()
	argv := append([]string{"netns", "exec", r.name, kubectlPath(r.t), "--kubeconfig", r.server.kubeconfig()}, args...)
	out, err := exec.Command("ip", argv...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// glowplug runs a command with the admin's kubeconfig in the server's namespace, and returns its output.
func (r *rack) glowplug(args ...string) []byte {
	r.t.Helper()
	argv := append([]string{"netns", "exec", r.name, program, "--kubeconfig", r.server.kubeconfig()}, args...)
	out, err := exec.Command("ip", argv...).Output()
	if err != nil {
		r.t.Logf("glowplug %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// status returns a field of a host's status.
func (r *rack) status(host, field string) string {
	r.t.Helper()
	return r.kubectl("get", "bmh", "-n", "rack", host, "-o", "jsonpath={.status."+field+"}")
}

// events returns the reasons of a host's events.
func (r *rack) events(host string) string {
	r.t.Helper()
	return r.kubectl("get", "events", "-n", "rack", "--field-selector", "involvedObject.name="+host, "-o",
		"jsonpath={.items[*].reason}")
}
