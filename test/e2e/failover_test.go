package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/testkit"
)

// racked is a server in a namespace of its own on the network of a rack.
type racked struct {
	*rack
	machine
}

// sent returns how much the server has sent, in bytes.
func (s racked) sent() int64 {
	out, err := exec.Command("ip", "netns", "exec", s.machine.name, "cat", "/sys/class/net/eth0/statistics/tx_bytes").Output()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return n
}

// isReading reports whether a machine reads an image from the server, since it had sent some bytes.
func (s racked) isReading(since int64) bool { return s.sent()-since > 4<<20 }

const (
	sharedAddress = "192.0.2.10" // of the server that runs, as keepalived would give it
	natsAddress   = "192.0.2.254"
)

// twoServers are two servers on one NATS that share an address, which one of them has.
func twoServers(t *testing.T, holder int) (network *rack, servers [2]racked) {
	needs(t, "root", "ip", "qemu-system-x86_64", "dnsmasq", "grub-mkrescue", "xorriso", "mformat", "busybox", "modprobe",
		"ldd", "arping", "qemu-img", "iscsi-inq")
	iso := testISO(t)
	network = &rack{t: t, name: fmt.Sprintf("gp%s", freePort(t))}
	network.namespace(network.name)
	network.ip("-n", network.name, "link", "add", "br0", "type", "bridge")
	network.ip("-n", network.name, "addr", "add", natsAddress+"/24", "dev", "br0")
	network.ip("-n", network.name, "link", "set", "br0", "up")
	nats := newNATS(t)
	write(t, filepath.Join(nats.dir, "nats.conf"), fmt.Sprintf(
		"listen: %s:4222\nmax_payload: 16MB\njetstream { store_dir: %q, sync_interval: always }\n", natsAddress,
		filepath.Join(nats.dir, "js")))
	nats.cmd = exec.Command("ip", "netns", "exec", network.name, nats.path, "-c", filepath.Join(nats.dir, "nats.conf"))
	if err := nats.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pki := filepath.Join(t.TempDir(), "pki")
	for i := range servers {
		address := fmt.Sprintf("192.0.2.%d", i+1)
		at := network.machine(i+1, fmt.Sprintf("52:54:00:00:01:%02d", i+1), address)
		isos := t.TempDir()
		if err := os.Link(iso, filepath.Join(isos, "guest.iso")); err != nil {
			t.Fatal(err)
		}
		s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: address, plain: "8082", tls: "8443",
			prefix: []string{"ip", "netns", "exec", at.name},
			args: []string{"--nats-url", "nats://" + natsAddress + ":4222", "--pki-dir", pki, "--iso-dir", isos,
				"--http-url", "http://" + sharedAddress + ":8082"}}
		s.launch()
		s.waitReady()
		servers[i] = racked{&rack{t: t, server: s, name: at.name}, at}
	}
	network.server = servers[0].server
	servers[holder].take()
	network.dhcp(map[string]string{"52:54:00:00:00:01": "192.0.2.11", "52:54:00:00:00:05": "192.0.2.15"},
		"--dhcp-boot=http://"+sharedAddress+":8082/boot.ipxe")
	return network, servers
}

// take gives the server the shared address.
func (s racked) take() {
	s.ip("-n", s.machine.name, "addr", "add", sharedAddress+"/24", "dev", "eth0")
	_ = exec.Command("ip", "netns", "exec", s.machine.name, "arping", "-q", "-U", "-c", "1", "-I", "eth0", sharedAddress).Run()
}

// TestABootGoesOnAtAnotherServer loses, in the middle of a boot, the server that the machine reads its image from: by
// kill -9, and without a word as where the power goes. The machine goes on with the same bytes at the other server.
func TestABootGoesOnAtAnotherServer(t *testing.T) {
	for _, c := range []struct {
		name, host, mac string
		n, holder       int
		uefi            bool
		lose            func(racked)
		within          time.Duration
	}{
		{"killed", "one", "52:54:00:00:00:01", 11, 0, false, func(s racked) { s.server.kill() }, 5 * time.Second},
		{"without power", "uefi", "52:54:00:00:00:05", 15, 1, true, func(s racked) {
			s.ip("-n", s.machine.name, "link", "set", "eth0", "down")
		}, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			network, servers := twoServers(t, c.holder)
			servers[0].apply(bootObjects)
			testkit.Until(t, "both servers have the image", func() bool {
				return strings.Count(servers[0].kubectl("get", "members", "-o", "jsonpath={.items[*].status.images}"),
					"rack/plain@") == 2
			})
			offerTheSame(t, network, servers)
			var before [2]int64
			for i, s := range servers {
				before[i] = s.sent()
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				lost := -1
				testkit.Within(t, 2*time.Minute, "the machine reads its image", func() bool {
					lost = slices.IndexFunc([]int{0, 1}, func(n int) bool { return servers[n].isReading(before[n]) })
					return lost >= 0
				})
				other := servers[1-lost]
				c.lose(servers[lost])
				at, had := time.Now(), other.sent()
				if lost == c.holder {
					other.take()
				}
				testkit.Within(t, time.Minute, "it reads from the other server", func() bool { return other.sent()-had > 1<<20 })
				if took := time.Since(at); took > c.within {
					t.Errorf("the machine read from the other server after %v", took)
				} else {
					t.Logf("the machine read from server %d after %v", 2-lost, took.Round(10*time.Millisecond))
				}
				network.server = other.server
				servers[0] = other
			}()
			console := network.guest(c.n, c.mac, c.uefi).boot(t, "GUEST-DONE", diskMarker)
			<-gone
			shows(t, console, "ignition.config.url=http://"+sharedAddress+":8082/api/v1/ignition",
				"GUEST-FILE written by Ignition", "GUEST-DONE")
			testkit.Until(t, "the boot has each step", func() bool {
				steps := strings.Fields(servers[0].kubectl("get", "boot", "-n", "rack", c.host+".1", "-o", "jsonpath={.steps[*].name}"))
				return slices.Equal(steps, []string{v1.StepScript, v1.StepTargetLogin, v1.StepKernel, v1.StepInitrd, v1.StepConfig})
			})
			if n := strings.Count(servers[0].events(c.host), "TargetLogin"); n != 1 {
				t.Errorf("%d events of a login", n)
			}
		})
	}
}

// offerTheSame fails where the servers offer a machine other bytes, or another drive.
func offerTheSame(t *testing.T, network *rack, servers [2]racked) {
	t.Helper()
	m := network.machine(4, "52:54:00:00:00:04", "192.0.2.14")
	var uris, serials []string
	for _, s := range servers {
		uris = append(uris, "iscsi://"+s.server.host+"/"+iqnOf(servers[0].rack, "plain")+"/0")
		serial, err := m.run("iscsi-inq", "-e", "1", "-c", "128", uris[len(uris)-1])
		if err != nil || serial == "" {
			t.Fatal(err, serial)
		}
		serials = append(serials, serial)
	}
	if serials[0] != serials[1] {
		t.Errorf("the serial numbers are %q", serials)
	}
	if out, err := m.run("qemu-img", "compare", "-f", "raw", "-F", "raw", uris[0], uris[1]); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
