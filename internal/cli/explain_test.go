package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

const explainedRack = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-a}
spec: {ip: 192.0.2.1}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-b}
spec: {ip: 192.0.2.2}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-2, namespace: rack-a}
spec: {ip: 192.0.2.3}
`

// TestExplainByName asks a server for hosts by their names: the namespace of the kubeconfig
// is preferred, and names are completed.
func TestExplainByName(t *testing.T) {
	dir := t.TempDir()
	rack, kubeconfig := filepath.Join(dir, "rack.yaml"), filepath.Join(dir, "admin.kubeconfig")
	if err := os.WriteFile(rack, []byte(explainedRack), 0o644); err != nil {
		t.Fatal(err)
	}
	runServer(t, "--data-dir", dir, "--manifests", rack)
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	in := func(namespace string) {
		changed := bytes.ReplaceAll(content, []byte("namespace: default"), []byte("namespace: "+namespace))
		if err := os.WriteFile(kubeconfig, changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		var out bytes.Buffer
		Main(append(args, "--kubeconfig", kubeconfig), strings.NewReader(""), &out, &out)
		return out.String()
	}
	// The manifests are applied after the start.
	for began := time.Now(); !strings.Contains(run("explain", "node-2"), "host: "); {
		if time.Since(began) > time.Minute {
			t.Fatal(run("explain", "node-2"))
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, c := range []struct{ namespace, name, want string }{
		{"default", "node-1", "the name node-1 is ambiguous; name one of rack-a/node-1, rack-b/node-1\n"},
		{"rack-b", "node-1", "host:      rack-b/node-1 is found by the client's address\n"},
		{"rack-b", "rack-a/node-1", "host:      rack-a/node-1 is found by the client's address\n"},
		{"rack-b", "bmh/node-2", "host:      rack-a/node-2 is found by the client's address\n"},
	} {
		in(c.namespace)
		if got := run("explain", c.name); !strings.Contains(got, c.want) {
			t.Errorf("%s with the namespace %s: no %q in\n%s", c.name, c.namespace, c.want, got)
		}
	}
	// A completion leaves out what the server does not answer soon.
	testkit.Until(t, "the completion has the hosts of all namespaces", func() bool {
		var out bytes.Buffer
		Main([]string{"__complete", "explain", "--kubeconfig", kubeconfig, ""}, strings.NewReader(""), &out, &bytes.Buffer{})
		return out.String() == "node-1\nrack-a/node-1\nrack-a/node-2\n:4\n"
	})
}

// TestExplainInOneNamespace: who may not explain any machine is told of a host in his namespace, with the number of the
// other configs; status says so, too.
func TestExplainInOneNamespace(t *testing.T) {
	dir := t.TempDir()
	rack, kubeconfig := filepath.Join(dir, "rack.yaml"), filepath.Join(dir, "admin.kubeconfig")
	const config = `
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: theirs, namespace: rack-b}
spec: {type: ignition, format: butane, config: "variant: fcos\nversion: 1.5.0\n", selector: {default: true}}
`
	if err := os.WriteFile(rack, []byte(explainedRack+config), 0o644); err != nil {
		t.Fatal(err)
	}
	runServer(t, "--data-dir", dir, "--manifests", rack)
	run := func(kubeconfig string, args ...string) string {
		var out bytes.Buffer
		Main(append(args, "--kubeconfig", kubeconfig), strings.NewReader(""), &out, &out)
		return out.String()
	}
	testkit.Until(t, "the manifests are applied", func() bool {
		return strings.Contains(run(kubeconfig, "explain", "node-2"), "rack-b/theirs")
	})
	ann := filepath.Join(dir, "ann.kubeconfig")
	token := run(kubeconfig, "token", "create", "ann", "--role", "view", "-n", "rack-a", "-o", "kubeconfig")
	if err := os.WriteFile(ann, []byte(token[strings.Index(token, "apiVersion:"):]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"explain rack-a/node-1", "\nwinner:    rack-b/theirs wins by default"},
		{"explain rack-a/node-1", "\nCONFIG  TYPE  TIER  OUTCOME  REASON\nand 1 in other namespaces\n"},
		{"explain node-1 spec=3.2.0 -n rack-a --endpoint ignition", "\nand 1 in other namespaces\n"},
		{"explain node-1", "\nand 1 in other namespaces\n"}, // in the namespace of the kubeconfig
		{"status rack-a/node-1", "\ngets now:   rack-b/theirs by default"},
		{"status node-1", "\ngets now:   rack-b/theirs by default"},
		{"explain rack-b/node-1", `cannot get resource "baremetalhosts/explain"`},
		{"explain rack-a/node-1 mac=52:54:00:00:00:01", `cannot list resource "explain"`},
		{"explain mac=52:54:00:00:00:01", `cannot list resource "explain"`},
		{"explain rack-a/none", `baremetalhosts "none" not found`},
	} {
		if got := run(ann, strings.Fields(c.args)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.args, c.want, got)
		}
	}
}
