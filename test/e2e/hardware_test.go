package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
)

// inspectScript is the script of examples/inspect.yaml.
func inspectScript(t *testing.T) string {
	t.Helper()
	var config v1.IgnitionConfig
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "examples", "inspect.yaml"))), &config); err != nil {
		t.Fatal(err)
	}
	var butane struct {
		Storage struct {
			Files []struct{ Contents struct{ Inline string } }
		}
	}
	if err := yaml.Unmarshal([]byte(config.Spec.Config), &butane); err != nil {
		t.Fatal(err)
	}
	return butane.Storage.Files[0].Contents.Inline
}

// TestHardwareSurvivesKill runs the script of the example on a machine with real tools, kills the
// server right after the answer, and plans a config on the disks that the machine reported.
func TestHardwareSurvivesKill(t *testing.T) {
	needs(t, "root", "ip", "curl", "lsblk", "sfdisk", "lscpu")
	r := newRack(t)
	one := r.machine(1, "52:54:00:00:00:01", "192.0.2.11")
	stranger := r.machine(2, "52:54:00:00:00:02", "192.0.2.12")
	r.apply(`
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.11}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: all, namespace: rack}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"},"storage":{"filesystems":[{"device":"/dev/sdz1","format":"xfs","wipeFilesystem":true}]}}'
  selector: {default: true}
`)
	script := filepath.Join(t.TempDir(), "inspect")
	write(t, script, inspectScript(t))
	report := func(m machine) (string, error) {
		out, err := exec.Command("ip", "netns", "exec", m.name, "sh", script, "http://"+rackServer+":8082").CombinedOutput()
		return string(out), err
	}
	if out, err := report(one); err != nil || !strings.Contains(out, "the hardware of host rack/one is stored") {
		t.Fatalf("%v\n%s", err, out)
	}
	r.server.kill()
	r.server.restart()
	var hardware v1.HardwareDetails
	text := r.kubectl("get", "bmh", "-n", "rack", "one", "-o", "jsonpath={.status.hardware}")
	if err := json.Unmarshal([]byte(text), &hardware); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if hardware.CPU == nil || hardware.CPU.Count < 1 || hardware.RAMMebibytes < 1 || len(hardware.NICs) < 1 {
		t.Errorf("%s", text)
	}
	if status, body := stranger.curl("/api/v1/hardware", "-d", `{"storage":[{"name":"/dev/sda"}]}`); status != "404" {
		t.Errorf("a stranger: %s %s", status, body)
	}
	if status, body := stranger.curl("/api/v1/hardware?mac=52:54:00:00:00:01", "-d", `{"storage":[{"name":"/dev/sda"}]}`); status != "403" {
		t.Errorf("a stranger with the MAC of another: %s %s", status, body)
	}

	// An inventory writes the disks, and the plan has them.
	r.kubectl("patch", "bmh", "-n", "rack", "one", "--subresource=status", "--type=merge", "-p", `{"status":{"hardware":{"storage":[
		{"name":"/dev/sdz","sizeBytes":1073741824,"partitionTable":"gpt","partitions":[{"number":1,"startSector":2048,
		"sizeSectors":1048576,"content":{"type":"ext4","label":"data"}}]}]}}}`)
	const lost = `loses ext4 "data" on /dev/sdz1, 512 MiB`
	raw := r.kubectl("get", "--raw", "/api/v1/namespaces/rack/ignitionconfigs/all/plan?host=one&output=text")
	if !strings.Contains(raw, lost) {
		t.Errorf("%s", raw)
	}
	cmd := exec.Command("ip", "netns", "exec", r.name, program, "plan", "--kubeconfig", r.server.kubeconfig(), "--host", "rack/one")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(out), lost) {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	status, err := exec.Command("ip", "netns", "exec", r.name, program, "status", "--kubeconfig", r.server.kubeconfig(),
		"one").CombinedOutput() // the only host with this name
	for _, want := range []string{
		"gets now:   rack/all by default", "disks:      1 disk, reported ", "plan:       Ignition destroys data\n",
		"- Ignition would destroy data with this config: ext4 \"data\" on /dev/sdz1, 512 MiB\n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in (%v)\n%s", want, err, status)
		}
	}
}
