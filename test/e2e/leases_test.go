package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"glowplug/internal/testkit"
)

// ask runs a DHCP client on a machine, and returns what it says.
func (m machine) ask(args ...string) string {
	argv := append([]string{"netns", "exec", m.name, "busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-n", "-t", "4", "-T", "2",
		"-s", "/bin/true"}, args...)
	out, _ := exec.Command("ip", argv...).CombinedOutput() // without a lease it fails, and says so
	return string(out)
}

// leases returns the leases of a rack: address, hardware address, host and state of each.
func (r *rack) leases() string {
	r.t.Helper()
	return r.kubectl("get", "leases", "-o", "jsonpath={range .items[*]}{.status.address} {.status.mac} {.status.host} "+
		"{.status.state}{\"\\n\"}{end}")
}

// TestOwnLeases: a DHCP client has an address from the server, renews it and gives it back; leases outlast kill -9; an
// address that is used is not given; and beside another DHCP server the server refuses to start.
func TestOwnLeases(t *testing.T) {
	needs(t, "root", "ip", "socat", "busybox", "dnsmasq")
	r := newRack(t, "--pxe-interface", "br0", "--dhcp-range", "192.0.2.149-192.0.2.150", "--dhcp-dns", "192.0.2.53")
	r.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: rack}\n---\napiVersion: v1\nkind: BareMetalHost\n" +
		"metadata: {name: seven, namespace: rack}\nspec: {bootMACAddress: \"52:54:00:00:00:07\", ip: 192.0.2.7}\n")
	r.machine(1, "52:54:00:00:00:01", "192.0.2.149") // nobody has given it this address
	two := r.machine(2, "52:54:00:00:00:02", "")
	seven := r.machine(7, "52:54:00:00:00:07", "")

	testkit.Until(t, "the host is known", func() bool {
		return strings.Contains(seven.ask(), "lease of 192.0.2.7 obtained from "+rackServer)
	})
	if got := two.ask(); !strings.Contains(got, "lease of 192.0.2.150 obtained") {
		t.Fatalf("the client says\n%s", got)
	}
	if got := r.machine(3, "52:54:00:00:00:03", "").ask(); strings.Contains(got, "obtained") {
		t.Errorf("the range is full, and the client says\n%s", got)
	}
	want := []string{"192.0.2.7 52:54:00:00:00:07 rack/seven Bound\n", "192.0.2.149 52:54:00:00:00:01  Conflict\n",
		"192.0.2.150 52:54:00:00:00:02  Bound\n"}
	r.server.kill()
	r.server.restart()
	for _, lease := range want {
		if got := r.leases(); !strings.Contains(got, lease) {
			t.Errorf("the leases are\n%s\nand should have\n%s", got, lease)
		}
	}
	testkit.Until(t, "the lease is renewed", func() bool {
		r.ip("-n", two.name, "addr", "replace", "192.0.2.150/24", "dev", "eth0")
		return two.renew(t, "52:54:00:00:00:02")
	})
	release := aboutItsAddress(t, "52:54:00:00:00:02", dhcpv4.MessageTypeRelease)
	release.UpdateOption(dhcpv4.OptServerIdentifier(net.ParseIP(rackServer)))
	two.send(t, release)
	testkit.Until(t, "the address is given back", func() bool { return !strings.Contains(r.leases(), "192.0.2.150") })
	r.ip("-n", two.name, "addr", "flush", "dev", "eth0")
	t.Run("beside another DHCP server", func(t *testing.T) {
		r.server.terminate()
		r.dhcp(nil, "--no-ping")
		serve := func(args ...string) (string, error) {
			argv := append([]string{"10", "ip", "netns", "exec", r.name, program, "serve", "--data-dir", filepath.Join(t.TempDir(),
				"data"), "--listen", "127.0.0.1:0", "--listen-tls", "", "--pxe-interface", "br0", "--dhcp-range",
				"192.0.2.10-192.0.2.20"}, args...)
			out, err := exec.Command("timeout", argv...).CombinedOutput()
			return string(out), err
		}
		out, err := serve()
		if want := "the DHCP server " + rackServer + " answers on br0"; err == nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestNetworkBootWithOwnLeases boots machines where nothing else answers: the address, the loader, the script, the
// image and the config come from this server. iPXE waits for no router: the server tells it that there is none.
func TestNetworkBootWithOwnLeases(t *testing.T) {
	r := bootRackBeside(t, "", testISO, "--pxe-interface", "br0", "--dhcp-range", "192.0.2.100-192.0.2.199")
	bootEachFirmware(t, r)
	leases := r.leases()
	for n, host := range map[int]string{11: "one", 13: "three", 15: "uefi"} {
		if want := fmt.Sprintf("192.0.2.%d 52:54:00:00:00:%02x rack/%s Bound\n", n, n-10, host); !strings.Contains(leases, want) {
			t.Errorf("the leases are\n%s\nand should have\n%s", leases, want)
		}
	}
}
