package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// rack is a bridge in a network namespace of its own, the server on it, and
// machines with an address and a MAC each.
type rack struct {
	t      *testing.T
	server *server
	name   string
}

const rackServer = "192.0.2.1" // TEST-NET-1; it exists in these namespaces alone

func newRack(t *testing.T, args ...string) *rack {
	t.Helper()
	r := &rack{t: t, name: fmt.Sprintf("gp%s", freePort(t))}
	r.namespace(r.name)
	r.ip("-n", r.name, "link", "add", "br0", "type", "bridge")
	r.ip("-n", r.name, "addr", "add", rackServer+"/24", "dev", "br0")
	r.ip("-n", r.name, "link", "set", "br0", "up")
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: rackServer, plain: "8082", tls: "8443",
		prefix: []string{"ip", "netns", "exec", r.name}, args: args}
	s.launch()
	s.waitReady()
	r.server = s
	return r
}

func (r *rack) ip(args ...string) {
	r.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		r.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// namespace makes a network namespace that goes with the test.
func (r *rack) namespace(name string) {
	r.t.Helper()
	r.ip("netns", "add", name)
	r.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	r.ip("-n", name, "link", "set", "lo", "up")
}

// machine plugs a machine with this MAC and address, which may be none, into the rack.
func (r *rack) machine(n int, mac, addr string) machine {
	r.t.Helper()
	m := machine{r, fmt.Sprintf("%sm%d", r.name, n)}
	r.namespace(m.name)
	port := fmt.Sprintf("p%d", n)
	r.ip("-n", r.name, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", m.name)
	r.ip("-n", r.name, "link", "set", port, "master", "br0", "up")
	r.ip("-n", m.name, "link", "set", "eth0", "address", mac)
	if addr != "" {
		r.ip("-n", m.name, "addr", "add", addr+"/24", "dev", "eth0")
	}
	r.ip("-n", m.name, "link", "set", "eth0", "up")
	return m
}

// apply writes objects with the admin's kubeconfig, from the server's own namespace.
func (r *rack) apply(objects string) {
	r.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", r.name, kubectlPath(r.t), "--kubeconfig", r.server.kubeconfig(), "apply",
		"-f", "-")
	cmd.Stdin = strings.NewReader(objects)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("apply: %v\n%s", err, out)
	}
}

type machine struct {
	rack *rack
	name string
}

// curl asks the server as this machine: status code, then the body.
func (m machine) curl(path string, args ...string) (string, string) {
	m.rack.t.Helper()
	url := "http://" + rackServer + ":8082" + path
	if strings.HasPrefix(path, "https:") {
		url = path
	}
	argv := append([]string{"netns", "exec", m.name, "curl", "-gsk", "--max-time", "10", "-w", "\n%{http_code}", url},
		args...)
	out, err := exec.Command("ip", argv...).CombinedOutput()
	if err != nil {
		m.rack.t.Fatalf("curl %s: %v\n%s", path, err, out)
	}
	text := string(out)
	cut := strings.LastIndexByte(text, '\n')
	return text[cut+1:], text[:cut]
}

// TestRack is what machines with addresses of their own can and cannot do.
func TestRack(t *testing.T) {
	needs(t, "root", "ip", "curl")
	r := newRack(t)
	r.apply(rackObjects)
	one := r.machine(1, "52:54:00:00:00:01", "192.0.2.11")
	two := r.machine(2, "52:54:00:00:00:02", "192.0.2.12")
	byMAC := r.machine(3, "52:54:00:00:00:03", "192.0.2.13")
	stranger := r.machine(4, "52:54:00:00:00:99", "192.0.2.99")

	tests := []struct {
		name     string
		from     machine
		path     string
		args     []string
		status   string
		contains string
	}{
		{"the API over plain HTTP is 401", one, "/api/v1/namespaces/rack/baremetalhosts", nil, "401", `"Status"`},
		{"the API over TLS without a credential is 401", one, "https://" + rackServer +
			":8443/api/v1/namespaces/rack/ignitionconfigs", nil, "401", `"Status"`},
		{"explain is 401", one, "/api/v1/explain?ip=192.0.2.12", nil, "401", ""},
		{"a host is served its own config", one, "/api/v1/ignition", nil, "200", "3.4.0"},
		{"another host is served its own", two, "/api/v1/kickstart", nil, "200", "text two"},
		{"a host known by MAC alone is found through the neighbour table", byMAC, "/api/v1/kickstart", nil, "200",
			"text three"},
		{"a claim of its own MAC", one, "/api/v1/ignition?mac=52-54-00-00-00-01", nil, "200", ""},
		{"a claim of its own MAC by the host known by MAC alone", byMAC, "/api/v1/kickstart?mac=52:54:00:00:00:03", nil,
			"200", "text three"},
		{"a claim of its own role", one, "/api/v1/ignition?role=worker", nil, "200", "worker-target"},
		{"a claim of another host's MAC", one, "/api/v1/kickstart?mac=52:54:00:00:00:02", nil, "403", ""},
		{"a claim of another host's IP", one, "/api/v1/kickstart?ip=192.0.2.12", nil, "403", ""},
		{"a claim of another host's hostname", one, "/api/v1/kickstart?hostname=two", nil, "403", ""},
		{"a claim of another host's role", one, "/api/v1/ignition?role=db", nil, "403", ""},
		{"an unknown client claims a known MAC", stranger, "/api/v1/ignition?mac=52:54:00:00:00:01", nil, "403", ""},
		{"an unknown client's role", stranger, "/api/v1/ignition?role=worker", nil, "403", ""},
		{"an unknown client", stranger, "/api/v1/ignition", nil, "404", ""},
		{"a forged X-Forwarded-For is ignored", stranger, "/api/v1/ignition", []string{"-H", "X-Forwarded-For: 192.0.2.11"},
			"404", ""},
		{"a forged X-Forwarded-For changes nothing for a host", one, "/api/v1/ignition", []string{"-H",
			"X-Forwarded-For: 127.0.0.1, 192.0.2.12"}, "200", "3.4.0"},
		{"what a host boots: seed 0's line", one, "/ipxe?uuid=&mac=52-54-00-00-00-01&platform=pcbios", nil, "200",
			"\nsanboot iscsi:192.168.10.1::::iqn.2000-02.com.mikrotik:cdrom-coreos-live\n"},
		{"what a host without an image boots", two, "/ipxe", nil, "200", "\nexit\n"},
		{"what a host known by MAC alone boots", byMAC, "/ipxe?mac=52-54-00-00-00-03", nil, "200",
			"host rack/three boots its disk"},
		{"what another host boots", one, "/ipxe?mac=52-54-00-00-00-02", nil, "403", ""},
		{"what an unknown machine boots", stranger, "/ipxe?mac=52-54-00-00-00-99", nil, "200", "MAC 52:54:00:00:00:99"},
		{"the first script", stranger, "/boot.ipxe", nil, "200", "set gp-url http://" + rackServer + ":8082\n"},
		{"an image that there is not", one, "/iso/rack/none.iso", nil, "404", ""},
		{"an image as another host", one, "/iso/rack/none.iso?mac=52-54-00-00-00-02", nil, "403", ""},
		{"an unknown machine is complete", stranger, "/api/v1/boot-complete", []string{"-X", "POST"}, "404", ""},
		{"another host is complete", one, "/api/v1/boot-complete?mac=52-54-00-00-00-02", []string{"-X", "POST"}, "403", ""},
		{"a host is complete", two, "/api/v1/boot-complete", []string{"-X", "POST"}, "200", "host rack/two is provisioned"},
		{"an upload is 401", one, "/api/v1/namespaces/rack/iscsicdroms/router/iso", []string{"-X", "PUT", "-d", "x"}, "401",
			`"Status"`},
		{"a malformed claim", one, "/api/v1/ignition?mac=zz", nil, "400", "mac"},
		{"an unexpanded variable counts as absent", one, "/api/v1/ignition?mac=${net0/mac}&hostname=", nil, "200", "3.4.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := tt.from.curl(tt.path, tt.args...)
			if status != tt.status || !strings.Contains(body, tt.contains) {
				t.Errorf("%s: want %s and %q: %s", status, tt.status, tt.contains, body)
			}
		})
	}
	testkit.Until(t, "the refused claims are events on the host", func() bool {
		out, _ := exec.Command("ip", "netns", "exec", r.name, kubectlPath(t), "--kubeconfig", r.server.kubeconfig(),
			"get", "events", "-A").CombinedOutput()
		return strings.Contains(string(out), "ClaimRefused") && strings.Contains(string(out), "UnknownHost")
	})
}

const rackObjects = `
apiVersion: v1
kind: ISCSICdrom
metadata: {name: router, namespace: rack}
spec: {external: {portal: 192.168.10.1, iqn: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.11, labels: {role: worker}, image: router, bootMode: forever}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: two, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:02", ip: 192.0.2.12, labels: {role: db}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: three, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:03", labels: {role: cache}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: rack}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"}}'
  selector: {matchLabels: {role: worker}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker-target, namespace: rack}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/worker-target"}]}}'
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: db, namespace: rack}
spec:
  type: kickstart
  format: kickstart
  config: "# text two\n"
  selector: {matchLabels: {role: db}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: cache, namespace: rack}
spec:
  type: kickstart
  format: kickstart
  config: "# text three\n"
  selector: {matchMACs: ["5254.0000.0003"]}
`
