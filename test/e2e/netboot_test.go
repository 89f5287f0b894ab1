package e2e

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// TestNetworkBoot boots machines beside a DHCP server that gives addresses alone, on the same machine as this server:
// nothing but --pxe-interface names a boot file.
func TestNetworkBoot(t *testing.T) {
	bootEachFirmware(t, bootRackBeside(t, "--no-ping", testISO, "--pxe-interface", "br0", "--pxe-ra"))
}

// bootEachFirmware boots a machine with each kind of firmware.
func bootEachFirmware(t *testing.T, r *rack) {
	for _, c := range []struct {
		name, host, mac   string
		n                 int
		uefi, stock, http bool
		event             string
	}{
		{"iPXE in the ROM of a BIOS", "one", "52:54:00:00:00:01", 1, false, false, false,
			"iPXE on BIOS: given http://192.0.2.1:8082/boot.ipxe"},
		{"UEFI", "three", "52:54:00:00:00:03", 3, true, true, false, "UEFI x64 PXE: given snponly.efi"},
		{"UEFI HTTP Boot", "uefi", "52:54:00:00:00:05", 5, true, true, true,
			"UEFI x64 HTTP Boot: given http://192.0.2.1:8082/boot-loaders/snponly.efi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.kubectl("patch", "bmh", "-n", "rack", c.host, "--type=merge", "-p", `{"spec":{"kernelArgs":["test.complete"]}}`)
			guest := r.guest(c.n, c.mac, c.uefi)
			guest.stock, guest.http = c.stock, c.http
			shows(t, guest.boot(t, "GUEST-COMPLETE", "GUEST-DONE", diskMarker), "GUEST-COMPLETE")
			if outcome := r.kubectl("get", "boots", "-n", "rack", c.host+".1", "-o", "jsonpath={.outcome}"); outcome != "Provisioned" {
				t.Errorf("the boot is %s", outcome)
			}
			events := r.kubectl("get", "events", "-n", "rack", "--field-selector", "involvedObject.name="+c.host, "-o",
				"jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}")
			if want := "NetworkBootOffered: " + c.event + "\n"; strings.Count(events, "NetworkBoot") != 1 ||
				!strings.Contains(events, want) {
				t.Errorf("the events:\n%s\nwant once: %s", events, want)
			}
		})
	}
}

// TestRenewalsBesideNetworkBoot: a DHCP server on the machine of this one goes on to receive the renewals, which
// machines send to its own address.
func TestRenewalsBesideNetworkBoot(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, r *rack){
		"dnsmasq": func(_ *testing.T, r *rack) { r.dhcp(nil, "--dhcp-authoritative") },
		"dhcpd":   runDHCPD,
	} {
		t.Run(name, func(t *testing.T) {
			needs(t, "root", "ip", "socat", name)
			r := newRack(t, "--pxe-interface", "br0")
			run(t, r)
			m := r.machine(1, "52:54:00:00:00:01", "192.0.2.150")
			testkit.Until(t, "the DHCP server answers", func() bool { return m.renew(t, "52:54:00:00:00:01") })
			doctor, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", r.name, program, "doctor", "pxe",
				"--pxe-interface", "br0").CombinedOutput()
			// dhcpd reads raw packets, and so none of its own machine.
			if err != nil || name == "dnsmasq" && !strings.Contains(string(doctor), rackServer+" offers addresses") {
				t.Errorf("doctor: %v\n%s", err, doctor)
			}
			// Of two servers at one port the last one would get what comes.
			r.server.terminate()
			r.server.restart()
			// dnsmasq answers nobody while it pings an address for 3 seconds, as for a DISCOVER of the server.
			testkit.Until(t, "the DHCP server answers", func() bool { return m.renew(t, "52:54:00:00:00:01") })
			for n := range 3 {
				if !m.renew(t, "52:54:00:00:00:01") {
					t.Errorf("renewal %d is not answered", n)
				}
			}
		})
	}
}

// runDHCPD runs ISC dhcpd on the rack.
func runDHCPD(t *testing.T, r *rack) {
	dir := t.TempDir()
	config, leases := filepath.Join(dir, "dhcpd.conf"), filepath.Join(dir, "leases")
	write(t, leases, "")
	write(t, config, "authoritative;\nsubnet 192.0.2.0 netmask 255.255.255.0 { range 192.0.2.100 192.0.2.200; }\n")
	cmd := exec.Command("ip", "netns", "exec", r.name, "dhcpd", "-f", "-d", "-cf", config, "-lf", leases, "-pf",
		filepath.Join(dir, "pid"), "br0")
	log := &launch.Output{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("dhcpd:\n%s", launch.Tail(log.String(), 3000))
		}
	})
}

// renew sends a renewal of 192.0.2.150 to the DHCP server's own address, and reports whether that answers.
func (m machine) renew(t *testing.T, from string) bool {
	t.Helper()
	request := aboutItsAddress(t, from, dhcpv4.MessageTypeRequest)
	reply, err := dhcpv4.FromBytes(m.send(t, request))
	return err == nil && reply.TransactionID == request.TransactionID
}

// aboutItsAddress returns a packet of a machine that has 192.0.2.150.
func aboutItsAddress(t *testing.T, from string, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	t.Helper()
	mac, err := net.ParseMAC(from)
	if err != nil {
		t.Fatal(err)
	}
	p, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind),
		dhcpv4.WithClientIP(net.IPv4(192, 0, 2, 150)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// send sends a packet to the DHCP server's own address, and returns the answer.
func (m machine) send(t *testing.T, packet *dhcpv4.DHCPv4) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", m.name, "socat", "-t2", "-T2", "STDIO",
		"UDP4-DATAGRAM:"+rackServer+":67,bind=:68")
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(packet.ToBytes()), time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Logf("socat: %v", err)
	}
	return out
}

// TestSecureBoot: firmware with Secure Boot gets shim, shim GRUB, and GRUB the configuration, the kernel and the
// initial RAM disk of its machine over TFTP. GRUB asks the server that the DHCP server names, which is this one.
func TestSecureBoot(t *testing.T) {
	t.Run("beside a DHCP server that names us", func(t *testing.T) { secureBoot(t, "--dhcp-boot=none,,"+rackServer) })
	t.Run("with own leases", func(t *testing.T) { secureBoot(t, "", "--dhcp-range", "192.0.2.100-192.0.2.199") })
}

// secureBoot boots a machine with Secure Boot beside a DHCP server with an option; "": there is none.
func secureBoot(t *testing.T, dhcp string, args ...string) {
	needs(t, "root", "ip", "qemu-system-x86_64", "dnsmasq")
	for _, file := range []string{ovmfSecureVars, "/usr/lib/shim/shimx64.efi.signed",
		"/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("needs Debian's packages ovmf, shim-signed and grub-efi-amd64-signed: %v", err)
		}
	}
	r, _, _ := streamRack(t, dhcp, append(args, "--pxe-interface", "br0")...)
	r.apply(`
apiVersion: v1
kind: BareMetalHost
metadata: {name: secure, namespace: rack}
spec:
  bootMACAddress: "52:54:00:00:00:07"
  image: files
  pxe: {loader: shimx64.efi.signed}
  kernelArgs: [test.complete]
`)
	guest := r.guest(7, "52:54:00:00:00:07", true)
	guest.stock, guest.secure = true, true
	vars, err := os.ReadFile(ovmfSecureVars)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(guest.dir, "vars"), string(vars))
	// GRUB writes to the screen, which the test does not have.
	console := guest.boot(t, "GUEST-DONE", "grub>", diskMarker)
	shows(t, console, "Secure boot enabled", "BOOT_IMAGE=(tftp,"+rackServer+")/iso/rack/files@", "test.complete",
		"GUEST-COMPLETE")
	boot := r.kubectl("get", "boots", "-n", "rack", "secure.1", "-o", "jsonpath={.outcome} {.steps[*].name}")
	if boot != "Provisioned Script Kernel Initrd Config Rootfs BootComplete" {
		t.Errorf("the boot: %s", boot)
	}
}
