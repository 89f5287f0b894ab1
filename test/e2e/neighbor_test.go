package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

const (
	thiefMAC = "52:54:00:00:00:66"
	thiefIP  = "192.0.2.66"
)

// rackHost is a host with a config that has its name and a secret.
func rackHost(name string, n int, more string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: BareMetalHost
metadata: {name: %[1]s, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:%02[2]x", ip: 192.0.2.%[2]d%[3]s}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: %[1]s, namespace: rack}
spec:
  type: kickstart
  format: kickstart
  config: "# secret of %[1]s\n"
  selector: {matchHostnames: [%[1]s]}
---`, name, n, more)
}

// sh runs a script as a machine.
func (m machine) sh(script string, args ...string) string {
	m.rack.t.Helper()
	argv := append([]string{"netns", "exec", m.name, "bash", "-euc", script, "sh"}, args...)
	out, err := exec.Command("ip", argv...).CombinedOutput()
	if err != nil {
		m.rack.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// takes returns a machine further addresses, as one does that pretends to be others, and
// waits until the server sends there what is for them.
func (m machine) takes(mac string, addrs ...string) {
	m.rack.t.Helper()
	for _, addr := range addrs {
		m.sh(`ip addr replace "$1/24" dev eth0; arping -q -U -c 1 -I eth0 "$1"`, addr)
		m.rack.has(addr, mac)
	}
}

// leaves unplugs a machine.
func (m machine) leaves() { m.rack.ip("-n", m.name, "link", "set", "eth0", "down") }

// has waits until the server has a hardware address for an address.
func (r *rack) has(addr, mac string) {
	r.t.Helper()
	testkit.Until(r.t, addr+" is at "+mac, func() bool {
		out, _ := exec.Command("ip", "-n", r.name, "neigh", "show", addr).CombinedOutput()
		return strings.Contains(string(out), mac)
	})
}

func (r *rack) wantEvent(host, reason string) {
	r.t.Helper()
	testkit.Until(r.t, "host "+host+" has the event "+reason, func() bool { return strings.Contains(r.events(host), reason) })
}

// wantWarning has the request of a client be a warning in the log.
func (r *rack) wantWarning(client string) {
	r.t.Helper()
	line := "level=WARN msg=request endpoint=kickstart method=GET client=" + client
	testkit.Until(r.t, "the log has "+line, func() bool { return strings.Contains(r.server.log.String(), line) })
}

// TestBootSourceClaims is a machine on the server's network that claims to be a host
// with bootSources, and one behind a router that is that host.
func TestBootSourceClaims(t *testing.T) {
	needs(t, "root", "ip", "curl")
	for _, mode := range []string{"auto", "enforce"} {
		t.Run(mode, func(t *testing.T) {
			r := newRack(t, "--neighbors", mode)
			r.apply(rackHost("victim", 11, `, bootSources: ["192.0.2.0/24", "198.51.100.0/24"], image: router`) + `
apiVersion: v1
kind: ISCSICdrom
metadata: {name: router, namespace: rack}
spec: {external: {portal: 192.168.10.1, iqn: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}}
`)
			victim := r.machine(1, "52:54:00:00:00:0b", "192.0.2.11")
			thief := r.machine(2, thiefMAC, thiefIP)
			if status, body := victim.curl("/api/v1/kickstart"); status != "200" || !strings.Contains(body, "secret of victim") {
				t.Fatalf("the victim: %s %s", status, body)
			}
			for _, claim := range []string{"hostname=victim", "mac=52-54-00-00-00-0b"} {
				for _, path := range []string{"/api/v1/ignition", "/api/v1/kickstart", "/ipxe", "/iso/rack/router.iso"} {
					status, body := thief.curl(path + "?" + claim)
					if status != "403" || strings.Contains(body, "secret") || !strings.Contains(body, "is no NAT") {
						t.Errorf("%s?%s: %s %s", path, claim, status, body)
					}
				}
				if status, body := thief.curl("/api/v1/boot-complete?"+claim, "-X", "POST"); status != "403" {
					t.Errorf("boot-complete?%s: %s %s", claim, status, body)
				}
			}
			testkit.Until(t, "the installation goes on", func() bool { return r.status("victim", "state") == "Provisioning" })
			if status, body := victim.curl("/ipxe"); status != "200" || !strings.Contains(body, "host rack/victim") {
				t.Errorf("the victim boots: %s %s", status, body)
			}
			r.wantEvent("victim", "ClaimRefused")

			// From its bootSource on the same network with its own card, and from behind a
			// router, it is believed.
			victim.sh("ip addr add 192.0.2.111/24 dev eth0")
			if status, body := victim.curl("/api/v1/kickstart?hostname=victim", "--interface", "192.0.2.111"); status != "200" {
				t.Errorf("the victim from another address: %s %s", status, body)
			}
			router := r.machine(3, "52:54:00:00:00:fe", "192.0.2.254")
			routed := machine{r, r.name + "m4"}
			r.namespace(routed.name)
			r.ip("-n", router.name, "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", routed.name)
			router.sh("ip addr add 198.51.100.1/24 dev eth1; ip link set eth1 up; echo 1 > /proc/sys/net/ipv4/ip_forward")
			routed.sh("ip addr add 198.51.100.7/24 dev eth0; ip link set eth0 up; ip route add default via 198.51.100.1")
			r.ip("-n", r.name, "route", "add", "198.51.100.0/24", "via", "192.0.2.254")
			status, body := routed.curl("/api/v1/kickstart?hostname=victim")
			if status != "200" || !strings.Contains(body, "secret of victim") {
				t.Errorf("the victim from behind a router: %s %s", status, body)
			}
		})
	}
}

// flip is what a machine does that has another's address: it connects, takes the
// other's hardware address as well, uses the connection for a while, and asks then.
const flip = `exec 3<>/dev/tcp/` + rackServer + `/8082
ip link set eth0 address "$1"
arping -q -U -c 1 -I eth0 "$2"
for ((i = 0; i < $3; i++)); do
	printf 'HEAD /boot.ipxe HTTP/1.1\r\nHost: x\r\n\r\n' >&3
	sleep 10
done
printf 'GET /api/v1/kickstart HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
cat <&3
`

// TestARPFlip has a machine take the address of another, and its hardware address for
// the length of a request: at once, and where it waits until the change is forgotten.
func TestARPFlip(t *testing.T) {
	needs(t, "root", "ip", "curl", "arping")
	for _, c := range []struct{ name, mode, uses, status string }{
		{"reported", "auto", "0", "200"},
		{"enforced", "enforce", "0", "403"},
		{"enforced on an old connection", "enforce", "7", "403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRack(t, "--neighbors", c.mode)
			r.apply(rackHost("victim", 11, ""))
			victim := r.machine(1, "52:54:00:00:00:0b", "192.0.2.11")
			thief := r.machine(2, thiefMAC, thiefIP)
			if status, _ := victim.curl("/api/v1/kickstart"); status != "200" {
				t.Fatal(status)
			}
			victim.leaves()
			r.ip("-n", thief.name, "addr", "flush", "dev", "eth0")
			thief.takes(thiefMAC, "192.0.2.11")
			if got := r.events("victim"); strings.Contains(got, "Neighbor") {
				t.Fatalf("events before: %s", got)
			}
			answers := thief.sh(flip, "52:54:00:00:00:0b", "192.0.2.11", c.uses)
			answer := answers[strings.LastIndex(answers, "HTTP/1.1 "):]
			given := strings.Contains(answer, "secret")
			if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status+" ") || given != (c.status == "200") {
				t.Errorf("the thief was answered %s", answers)
			}
			r.wantEvent("victim", "NeighborChanged")
			r.wantWarning("192.0.2.11 neighbor=52:54:00:00:00:0b alarm=NeighborChanged")
		})
	}
}

// TestAlarmsUnderNoise has a machine make 200 claims that are refused, and then take
// what is two others'.
func TestAlarmsUnderNoise(t *testing.T) {
	needs(t, "root", "ip", "curl", "arping")
	r := newRack(t)
	r.apply(rackHost("one", 11, "") + rackHost("two", 12, ""))
	one := r.machine(1, "52:54:00:00:00:0b", "192.0.2.11")
	two := r.machine(2, "52:54:00:00:00:0c", "192.0.2.12")
	thief := r.machine(3, thiefMAC, thiefIP)
	for _, m := range []machine{one, two} {
		if status, _ := m.curl("/api/v1/kickstart"); status != "200" {
			t.Fatal(status)
		}
		m.leaves()
	}
	thief.sh(`for n in $(seq 100 149); do
	ip addr add "192.0.2.$n/24" dev eth0
	for claim in hostname=one hostname=two mac=52-54-00-00-00-0b mac=52-54-00-00-00-0c; do
		curl -s -o /dev/null --interface "192.0.2.$n" "http://` + rackServer + `:8082/api/v1/kickstart?$claim"
	done
done`)
	thief.takes(thiefMAC, "192.0.2.11", "192.0.2.12")
	for name, addr := range map[string]string{"one": "192.0.2.11", "two": "192.0.2.12"} {
		status, body := thief.curl("/api/v1/kickstart", "--interface", addr)
		if status != "200" || !strings.Contains(body, "secret of "+name) {
			t.Errorf("the thief at %s: %s %s", addr, status, body)
		}
		r.wantEvent(name, "NeighborMismatch")
		r.wantWarning(addr + " neighbor=" + thiefMAC + " alarm=NeighborMismatch")
	}
}
