package api

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl runs the real kubectl against a server, as a user without a kubeconfig
// would.
type kubectl struct {
	t      *testing.T
	binary string
	url    string
	dir    string
}

func newKubectl(t *testing.T, url string) *kubectl {
	if testing.Short() {
		t.Skip("short")
	}
	binary, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl on this machine")
	}
	return &kubectl{t: t, binary: binary, url: url, dir: t.TempDir()}
}

func (k *kubectl) run(args ...string) (stdout, stderr string, code int) {
	k.t.Helper()
	cmd := exec.Command(k.binary, append([]string{"-s", k.url}, args...)...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "HOME="+k.dir, "KUBECONFIG="+filepath.Join(k.dir, "none"),
		"KUBE_EDITOR=sed -i s/wheel/sudo/")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			k.t.Fatal(err)
		}
		code = exit.ExitCode()
	}
	return out.String(), errs.String(), code
}

// ok runs a command that must succeed, silently on stderr, and say each of want.
func (k *kubectl) ok(command string, want ...string) {
	k.t.Helper()
	stdout, stderr, code := k.run(words(command)...)
	if code != 0 || stderr != "" {
		k.t.Errorf("kubectl %s: exit code %d: %s", command, code, stderr)
	}
	k.says(command, stdout, want)
}

// fails runs a command that must fail and say each of want on stderr.
func (k *kubectl) fails(command string, want ...string) {
	k.t.Helper()
	_, stderr, code := k.run(words(command)...)
	if code == 0 {
		k.t.Errorf("kubectl %s: no error", command)
	}
	k.says(command, stderr, want)
}

func (k *kubectl) says(command, text string, want []string) {
	k.t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			k.t.Errorf("kubectl %s lacks %q:\n%s", command, w, text)
		}
	}
}

// words splits a command at spaces outside single quotes.
func words(command string) []string {
	var out []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func (k *kubectl) write(name, content string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

const rack = `apiVersion: v1
kind: IgnitionConfig
metadata: {name: builder, namespace: g10}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.5.0
    passwd:
      users:
        - name: core
          groups: [wheel]
  selector:
    matchLabels: {role: builder}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: server1, namespace: g10}
spec: {bootMACAddress: AC-1F-6B-8A-A7-9C, ip: 192.168.10.10, labels: {role: builder}, image: coreos}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: coreos, namespace: g10}
spec: {isoFile: fedora-coreos.iso}
`

func TestKubectl(t *testing.T) {
	a := start(t)
	k := newKubectl(t, a.url)
	k.write("rack.yaml", rack)
	k.write("changed.yaml", strings.Replace(rack, "[wheel]", "[wheel, adm]", 1))
	k.write("bad.yaml", strings.Replace(rack, "groups", "gruops", 1))
	k.write("invalid.yaml", strings.Replace(rack, "192.168.10.10", "nonsense", 1))
	k.write("event.yaml", "apiVersion: v1\nkind: Event\nmetadata: {name: server1.1, namespace: g10}\n"+
		"involvedObject: {kind: BareMetalHost, name: server1, namespace: g10, apiVersion: v1}\nreason: Served\nmessage: "+
		"served g10/builder\ntype: Normal\n"+
		"count: 3\nfirstTimestamp: 2026-01-01T00:00:00Z\nlastTimestamp: 2026-01-02T00:00:00Z\nreportingComponent: "+
		"glowplug\nreportingInstance: ''\n")

	k.ok("api-resources", "ign", "bmh", "cdrom", "namespaces", "events")
	k.ok("auth can-i create ign", "yes")
	k.ok("auth can-i --list", "*.*")
	if out, _, code := k.run("version"); code != 0 || !strings.Contains(out, "+glowplug-") {
		t.Errorf("version: %d %s", code, out)
	}
	k.ok("explain bmh.spec.nics", "hardware address")
	k.ok("explain ign --recursive", "matchMACs")

	k.ok("apply -f rack.yaml", "builder created", "server1 created", "coreos created")
	k.ok("apply -f rack.yaml", "builder unchanged", "server1 unchanged", "coreos unchanged")
	k.ok("diff -f rack.yaml")
	k.ok("get ns", "default", "g10", "Active")
	k.ok("get ign -A", "NAMESPACE", "g10", "builder", "butane", "Ready")
	k.ok("get ign,bmh,cdrom -n g10 -o wide", "role=builder", "192.168.10.10", "fedora-coreos.iso")
	k.ok("get all -n g10", "ignitionconfig/builder", "baremetalhost/server1", "iscsicdrom/coreos")
	k.ok("get ign builder -n g10 -o yaml", "phase: Ready")
	k.ok("get ign builder -n g10 -o 'jsonpath={.status.configHash}'", "sha256:")
	k.ok("get ign -n g10 --field-selector metadata.name=builder", "builder")
	if out, _, code := k.run("diff", "-f", "changed.yaml"); code != 1 || !strings.Contains(out,
		"+          groups: [wheel, adm]") {
		t.Errorf("diff: %d %s", code, out)
	}
	k.ok("apply -f changed.yaml", "builder configured")
	k.ok("apply --server-side --force-conflicts -f rack.yaml", "builder serverside-applied")
	k.ok("apply --server-side -f changed.yaml", "builder serverside-applied")
	k.ok("edit ign builder -n g10", "edited")
	k.ok("patch ign builder -n g10 --type merge -p '{\"spec\":{\"selector\":{\"default\":true}}}'", "patched")
	k.ok("patch ign builder -n g10 --type json -p '[{\"op\":\"remove\",\"path\":\"/spec/selector/default\"}]'", "patched")
	k.ok("patch bmh server1 -n g10 -p '{\"spec\":{\"bootMode\":\"forever\"}}'", "patched")
	k.ok("patch bmh server1 -n g10 --subresource status --type merge -p '{\"status\":{\"state\":\"Booting\"}}'", "patched")
	k.ok("label bmh server1 -n g10 rack=4", "labeled")
	k.ok("get bmh -n g10 -l rack=4", "Booting")
	k.ok("wait --for=jsonpath={.status.phase}=Ready ign/builder -n g10 --timeout=10s", "condition met")
	out, _, _ := k.run("get", "cdrom", "coreos", "-n", "g10", "-o", "json")
	k.write("cdrom.json", strings.Replace(out, "fedora-coreos.iso", "fcos.iso", 1))
	k.ok("replace -f cdrom.json", "replaced")
	if out, _, _ := k.run("get", "bmh", "-n", "g10", "-w", "--request-timeout=1s"); !strings.Contains(out, "server1") {
		t.Errorf("get -w: %s", out)
	}

	host := strings.TrimSpace(func() string {
		out, _, _ := k.run("get", "bmh", "server1", "-n", "g10", "-o", "jsonpath={.metadata.uid}")
		return out
	}())
	event, _ := os.ReadFile(filepath.Join(k.dir, "event.yaml"))
	k.write("event.yaml", strings.Replace(string(event), "apiVersion: v1}", "apiVersion: v1, uid: "+host+"}", 1))
	k.ok("create -f event.yaml", "created")
	k.ok("get ev -n g10", "LAST SEEN", "baremetalhost/server1", "served g10/builder")
	k.ok("events -n g10 --for baremetalhost/server1", "served g10/builder")
	k.ok("describe bmh server1 -n g10", "Served", "served g10/builder")
	k.ok("describe ign builder -n g10", "Phase:", "Events:")

	// A bad source is stored with a warning, a bad shape refused.
	out, stderr, code := k.run("apply", "-f", "bad.yaml", "--server-side", "--force-conflicts")
	if code != 0 || !strings.Contains(stderr, "Warning: spec.config: line 6:") || !strings.Contains(stderr, "last good") {
		t.Errorf("apply of a bad source: %d %s %s", code, out, stderr)
	}
	k.ok("get ign -n g10 -o wide", "Error", "unused key gruops")
	k.fails("apply -f invalid.yaml", "spec.ip", "nonsense")

	k.ok("create ns typed", "created")
	k.ok("describe ns typed", "Active")
	k.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: applied, labels: {a: b}}\n")
	k.ok("apply -f ns.yaml", "created")
	k.write("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: applied, labels: {a: c}}\n")
	k.ok("apply -f ns.yaml", "configured")
	k.ok("delete ns typed applied", "deleted")
	k.ok("delete -f rack.yaml", "builder", "server1", "coreos")
	k.ok("delete ns g10", "deleted")
	k.fails("get ign builder -n g10", "NotFound")
}
