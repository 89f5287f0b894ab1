package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	var out bytes.Buffer
	Main([]string{"__complete", "explain", "--kubeconfig", kubeconfig, ""}, strings.NewReader(""), &out, &bytes.Buffer{})
	if want := "node-1\nrack-a/node-1\nrack-a/node-2\n:4\n"; out.String() != want {
		t.Errorf("completion gives %q, want %q", out.String(), want)
	}
}
