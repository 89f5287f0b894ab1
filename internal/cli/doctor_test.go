package cli

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/loader"
	"glowplug/internal/serve/pxe"
)

// TestDoctorPXE: what each kind of machine meets follows from what was found.
func TestDoctorPXE(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "undionly.kpxe"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := loader.In(dir)
	if err != nil {
		t.Fatal(err)
	}
	own, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9")
	for _, c := range []struct {
		network pxe.Network
		want    []string
	}{
		{pxe.Network{Interface: "eth1", Address: own, Firewall: firewallOpen,
			Ports: map[uint16]string{69: "address already in use"}}, []string{
			"interface:    eth1, 192.0.2.1", "ports:        69: address already in use (by the server itself, if it runs)",
			"DHCP:         no server answers, so machines get no address", "firewall:     " + firewallOpen, "IPv6:         no router advertises itself: iPXE waits 16 s",
			"BIOS:         undionly.kpxe, then its script", "UEFI x64:     no answer: Debian's package ipxe",
			"Secure Boot:  no signed loader: Debian's packages shim-signed",
		}},
		{pxe.Network{Interface: "eth1", Address: own, Router: true, Servers: []pxe.DHCPServer{
			{Address: other, Next: own}, {Address: other, Next: other, File: "pxelinux.0"},
		}}, []string{
			"ports:        67, 69 and 4011 are free", "DHCP:         192.0.2.9 offers addresses, and names this server as the next one",
			"192.0.2.9 offers addresses, and names 192.0.2.9 as the next server, with the boot file pxelinux.0",
			"IPv6:         a router advertises itself",
		}},
	} {
		var text strings.Builder
		if err := printNetwork(&text, &c.network, set); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q:\n%s", want, &text)
			}
		}
	}
	if got := secureText(&pxe.Network{Address: own}, set); !strings.HasPrefix(got, "no signed loader") {
		t.Error(got)
	}
}

// TestFirewall: a chain or a policy that drops incoming packets is found, and one for other packets is not.
func TestFirewall(t *testing.T) {
	for rules, want := range map[string]bool{
		"": false, "-P INPUT ACCEPT\n": false, "-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n": true,
		"-P INPUT ACCEPT\n-A INPUT -p udp -j REJECT --reject-with icmp-port-unreachable\n":                                         true,
		"table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n":                 true,
		"table inet f {\n\tchain i {\n\t\ttype filter hook input priority 0; policy accept;\n\t\tudp dport 67 drop\n\t}\n}\n":      true,
		"table ip f {\n\tchain fwd {\n\t\ttype filter hook forward priority 0; policy drop;\n\t}\n\tchain x {\n\t\tdrop\n\t}\n}\n": false,
	} {
		if filters(rules) != want {
			t.Errorf("%q: %v", rules, !want)
		}
	}
}
