package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// TestKubectl runs every verb that an operator uses; the kubectl helper fails
// the test on any error and on any warning.
func TestKubectl(t *testing.T) {
	needs(t)
	t.Setenv("E2E_EDITOR", "sed -i s/192.0.2.11/192.0.2.21/")
	s := start(t)
	const host = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.11, labels: {role: worker}}
`
	const config = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: worker, namespace: rack}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.5.0
  selector: {matchLabels: {role: worker}}
`
	contains := func(what, out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s lacks %q:\n%s", what, part, out)
			}
		}
	}

	contains("apply", s.kubectl(host, "apply", "-f", "-"), "baremetalhost/one created")
	contains("apply again", s.kubectl(host, "apply", "-f", "-"), "baremetalhost/one unchanged")
	contains("apply --server-side", s.kubectl(config, "apply", "--server-side", "-f", "-"),
		"ignitionconfig/worker serverside-applied")
	contains("get", s.kubectl("", "get", "bmh", "-n", "rack"), "NAME", "MAC", "IP", "IMAGE", "LAST-BOOT",
		"52:54:00:00:00:01", "192.0.2.11")
	contains("get ign", s.kubectl("", "get", "ign", "-n", "rack"), "TYPE", "FORMAT", "PHASE", "SIZE", "HASH", "AGE",
		"butane", "Ready")
	contains("get -A", s.kubectl("", "get", "ign,bmh,cdrom", "-A"), "rack", "worker", "one")
	contains("get -o wide", s.kubectl("", "get", "ignitionconfigs", "-A", "-o", "wide"), "role=worker")
	contains("get -o yaml", s.kubectl("", "get", "ign", "-n", "rack", "worker", "-o", "yaml"), "phase: Ready",
		"ignitionVersion: 3.4.0", "configHash: sha256:")
	contains("get -o jsonpath", s.kubectl("", "get", "bmh", "-n", "rack", "one", "-o", "jsonpath={.spec.ip}"),
		"192.0.2.11")
	contains("get -l", s.kubectl("", "get", "ns"), "rack", "Active")
	contains("explain", s.kubectl("", "explain", "ignitionconfig.spec.selector"), "matchLabels", "matchMACs")
	contains("explain --recursive", s.kubectl("", "explain", "bmh", "--recursive"), "bootMACAddress", "lastConfigHash")
	contains("describe", s.kubectl("", "describe", "bmh", "-n", "rack", "one"), "Boot MAC Address", "Events:")
	contains("describe ign", s.kubectl("", "describe", "ign", "-n", "rack", "worker"), "Config Hash", "Events:")
	contains("patch merge", s.kubectl("", "patch", "bmh", "-n", "rack", "one", "--type", "merge", "-p",
		`{"spec":{"hostname":"one.example"}}`), "patched")
	contains("patch json", s.kubectl("", "patch", "bmh", "-n", "rack", "one", "--type", "json", "-p",
		`[{"op":"replace","path":"/spec/hostname","value":"uno.example"}]`), "patched")
	contains("edit", s.kubectl("", "edit", "bmh", "-n", "rack", "one"), "edited")
	contains("edited", s.kubectl("", "get", "bmh", "-n", "rack", "one", "-o", "jsonpath={.spec.ip} {.spec.hostname}"),
		"192.0.2.21 uno.example")
	contains("label", s.kubectl("", "label", "bmh", "-n", "rack", "one", "site=a"), "labeled")
	contains("annotate", s.kubectl("", "annotate", "bmh", "-n", "rack", "one", "note=x"), "annotated")
	contains("get -l", s.kubectl("", "get", "bmh", "-A", "-l", "site=a"), "one")
	contains("wait", s.kubectl("", "wait", "ign", "-n", "rack", "worker", "--for=jsonpath={.status.phase}=Ready",
		"--timeout=10s"), "condition met")
	contains("replace", s.kubectl(host, "replace", "-f", "-"), "replaced")
	contains("create ns", s.kubectl("", "create", "ns", "other"), "namespace/other created")
	contains("api-resources", s.kubectl("", "api-resources"), "ignitionconfigs", "ign", "IgnitionConfig", "baremetalhosts",
		"iscsicdroms")
	contains("auth can-i", s.kubectl("", "auth", "can-i", "create", "ignitionconfigs"), "yes")
	contains("get events", s.kubectl("", "get", "events", "-A", "--ignore-not-found"), "")
	if out, _, err := s.tryKubectl("", "version"); err != nil || !strings.Contains(out, "Server Version: v1.") {
		t.Errorf("version: %v\n%s", err, out)
	}

	// diff exits 1 where there is a difference.
	out, errOut, err := s.tryKubectl(strings.Replace(host, "192.0.2.11", "192.0.2.31", 1), "diff", "-f", "-")
	const impact = "Warning: impact on 1 of 1 hosts: recognised by other addresses, names or sources (rack/one)\n"
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || errOut != impact {
		t.Errorf("diff: %v %s", err, errOut)
	}
	contains("diff", out, "-  ip: 192.0.2.11", "+  ip: 192.0.2.31")

	watched := watchOnce(t, s)
	contains("delete", s.kubectl("", "delete", "bmh", "-n", "rack", "one"), "deleted")
	contains("delete from a file", s.kubectl(config, "delete", "-f", "-"), "deleted")
	contains("get -w", watched(), "one")
	contains("auth whoami", s.kubectl("", "auth", "whoami"), "local-admin")
	contains("cluster-info", s.kubectl("", "cluster-info"), "is running at")
	contains("get --raw /", s.kubectl("", "get", "--raw", "/"), `"/api/v1"`)

	// A namespace is deleted with its objects.
	s.kubectl(host, "apply", "-f", "-")
	contains("get by field", s.kubectl("", "get", "bmh", "-A", "--field-selector",
		"spec.bootMACAddress=52-54-00-00-00-01,status.state=Available"), "one")
	contains("delete ns", s.kubectl("", "delete", "ns", "rack", "other"), "deleted")
	if left := s.kubectl("", "get", "bmh,ign", "-A", "--ignore-not-found"); strings.Contains(left, "rack") {
		t.Errorf("objects of a deleted namespace are left:\n%s", left)
	}
}

// watchOnce starts `kubectl get -w` and gives a function that ends it and
// returns what it printed.
func watchOnce(t *testing.T, s *server) func() string {
	t.Helper()
	out := &launch.Output{}
	cmd := exec.Command(kubectlPath(t), "-s", s.admin(""), "get", "bmh", "-n", "rack", "-w", "--output-watch-events")
	cmd.Env = []string{"KUBECONFIG=/dev/null", "HOME=" + t.TempDir()}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the watch has begun", func() bool { return strings.Contains(out.String(), "ADDED") })
	return func() string {
		testkit.Until(t, "the watch saw the end", func() bool { return strings.Contains(out.String(), "DELETED") })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return out.String()
	}
}

// TestCompileFindings: a source that does not compile is stored and told, and
// the last good one stays in service.
func TestCompileFindings(t *testing.T) {
	needs(t)
	s := start(t)
	const good = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: c, namespace: default}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.5.0
  selector: {default: true}
`
	s.kubectl(good, "apply", "-f", "-")
	before := get(t, s.url("/api/v1/ignition"))
	if before.status != 200 || before.header.Get("X-Glowplug-Stale") != "" {
		t.Fatalf("%d %v", before.status, before.header)
	}
	_, errOut, err := s.tryKubectl(strings.Replace(good, "version: 1.5.0", "version: 1.5.0\n    passwrd: {}", 1), "apply",
		"-f", "-")
	if err != nil || !strings.Contains(errOut, "Warning:") || !strings.Contains(errOut, "line 3:1") {
		t.Errorf("apply of a broken source: %v\n%s", err, errOut)
	}
	status := s.kubectl("", "get", "ign", "c", "-o", "jsonpath={.status.phase} {.status.errorMessage}")
	if !strings.HasPrefix(status, "Error ") || !strings.Contains(status, "line 3:1") {
		t.Errorf("status: %s", status)
	}
	after := get(t, s.url("/api/v1/ignition"))
	if after.status != 200 || after.body != before.body || after.header.Get("X-Glowplug-Stale") != "true" {
		t.Errorf("after: %d %v %s", after.status, after.header, after.body)
	}

	// Deleted while it is served: the next request finds nothing.
	s.kubectl("", "delete", "ign", "c")
	start := time.Now()
	for get(t, s.url("/api/v1/ignition")).status != 404 {
		if time.Since(start) > time.Second {
			t.Fatal("still served a second after it was deleted")
		}
	}
}
