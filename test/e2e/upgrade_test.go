package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// leftBy returns a server, which does not run yet, over a data directory that a former program has left.
func leftBy(t *testing.T, archive string) *server {
	t.Helper()
	needs(t, "tar")
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t)}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "xzf", filepath.Join("testdata", archive), "-C", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// TestStoreOfVersion1 opens a data directory that glowplug 0.1.0 has left (objects of version 1): every object is
// there, machines are in the states that they had, and what is written is there after a restart.
func TestStoreOfVersion1(t *testing.T) {
	s := leftBy(t, "store-of-version-1.tar.gz")
	s.launch()
	s.waitReady()
	check := func() {
		t.Helper()
		for _, want := range []struct{ args, output string }{
			{"get bmh -n g10 -o custom-columns=N:.metadata.name,S:.status.state --no-headers",
				"builder-1 Provisioning edge-1 Provisioned server-1 Available"},
			{"get ign -n g10 -o custom-columns=N:.metadata.name,P:.status.phase --no-headers",
				"builder-target Ready coreos-builder Ready edge Ready fedora-server Ready"},
			{"get secret -n g10 keys -o jsonpath={.data.password}", "aHVudGVyMg=="},
			{"get rolebinding -n g10 robot -o jsonpath={.roleRef.name}", "edit"},
			{"get streamreleases -o name", "streamrelease/stable-44.20260707.3.1"},
		} {
			if out := strings.Join(strings.Fields(s.kubectl("", strings.Fields(want.args)...)), " "); out != want.output {
				t.Errorf("kubectl %s: %q, want %q", want.args, out, want.output)
			}
		}
		// edge-1 is installed; builder-1 is being installed, and gets its config again.
		if script := get(t, s.url("/boot.ipxe?mac=52:54:00:10:00:31")); !strings.Contains(string(script.body), "exit") {
			t.Errorf("an installed host boots by\n%s", script.body)
		}
		if config := get(t, s.url("/api/v1/ignition?mac=52:54:00:10:00:11")); config.status != 200 {
			t.Errorf("a host that is being installed gets %d %s", config.status, config.body)
		}
	}
	check()
	s.kubectl("", "label", "bmh", "-n", "g10", "server-1", "rack=b")
	s.kill()
	s.restart()
	check()
	if label := s.kubectl("", "get", "bmh", "-n", "g10", "server-1", "-o", "jsonpath={.metadata.labels.rack}"); label != "b" {
		t.Errorf("the label is %q", label)
	}
}

// tokenOfRobot is a token of a ServiceAccount in the data directory of version 2.
const tokenOfRobot = "glowplug_62kktAntOjg03b2o79vfVd--R-k9Xxg7A8ZcXOJWofg"

// TestStoreOfVersion2 is the same with a data directory of objects of version 2, which has boots, the bytes that
// machines were given, a token, and the Member of its server.
func TestStoreOfVersion2(t *testing.T) {
	s := leftBy(t, "store-of-version-2.tar.gz")
	s.launch()
	s.waitReady()
	for _, want := range []struct{ args, output string }{
		{"get bmh -n g10 -o custom-columns=N:.metadata.name,S:.status.state --no-headers",
			"builder-1 Provisioned edge-1 Provisioned server-1 Available"},
		{"get boots -n g10 -o custom-columns=N:.metadata.name,S:.outcome,C:.config.name --no-headers",
			"builder-1.2 Provisioned g10/coreos-builder"},
		{"get secret -n g10 keys -o jsonpath={.data.password}", "aHVudGVyMg=="},
	} {
		if out := strings.Join(strings.Fields(s.kubectl("", strings.Fields(want.args)...)), " "); out != want.output {
			t.Errorf("kubectl %s: %q, want %q", want.args, out, want.output)
		}
	}
	script := get(t, s.url("/ipxe?mac=52:54:00:10:00:11"))
	if !strings.Contains(script.body, "boots its disk") {
		t.Errorf("an installed host boots by\n%s", script.body)
	}
	out, err := exec.Command(kubectlPath(t), "--kubeconfig", "/dev/null", "-s", "https://127.0.0.1:"+s.tls,
		"--certificate-authority", filepath.Join(s.dir, "pki", "ca.crt"), "--token", tokenOfRobot, "get", "bmh", "-n", "g10", "-o",
		"name").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "edge-1") {
		t.Errorf("a token that was issued before: %v %s", err, out)
	}
	if out := s.glowplug("fsck", "--kubeconfig", s.kubeconfig()); !strings.Contains(out, "no problem was found") {
		t.Errorf("fsck: %s", out)
	}
}

// TestAnOlderProgramRefusesANewerStore: a program that finds objects of a later version answers no machine, changes
// nothing, and says so in one sentence. After the newer program has been started again, nothing is lost.
func TestAnOlderProgramRefusesANewerStore(t *testing.T) {
	needs(t)
	bus := newNATS(t)
	bus.start()
	s := start(t, "--nats-url", "nats://127.0.0.1:"+bus.port)
	s.kubectl(hostYAML, "apply", "-f", "-")
	s.terminate()
	connection, err := nats.Connect("nats://127.0.0.1:" + bus.port)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	stream, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := stream.KeyValue(t.Context(), "BAREMETALHOSTS")
	if err != nil {
		t.Fatal(err)
	}
	put := func(change func(string) string) uint64 {
		entry, err := kv.Get(t.Context(), "g10/host")
		if err != nil {
			t.Fatal(err)
		}
		revision, err := kv.PutString(t.Context(), "g10/host", change(string(entry.Value())))
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	revision := put(func(v string) string { return strings.Replace(v, `"storedVersion":2}`, `"storedVersion":3}`, 1) })
	s.launch()
	const sentence = "baremetalhosts g10/host: a newer glowplug has stored an object in version 3, and this one reads versions " +
		"up to 2: start the newer one, or restore a backup of the time before"
	testkit.Until(t, "the log says why the server is not ready", func() bool { return strings.Contains(s.log.String(), sentence) })
	if launch.Answers(s.url("/readyz")) {
		t.Error("the server is ready")
	}
	if a := get(t, s.url("/ipxe?mac=52:54:00:00:00:01")); a.status != 503 {
		t.Errorf("a machine gets %d %s", a.status, a.body)
	}
	s.terminate()
	if entry, err := kv.Get(t.Context(), "g10/host"); err != nil || entry.Revision() != revision {
		t.Errorf("the object was changed: %v", err)
	}
	put(func(v string) string { return strings.Replace(v, `"storedVersion":3}`, `"storedVersion":2}`, 1) })
	s.restart()
	if name := s.kubectl("", "get", "bmh", "-n", "g10", "-o", "name"); strings.TrimSpace(name) != "baremetalhost/host" {
		t.Errorf("the hosts are %q", name)
	}
}

const hostYAML = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: host, namespace: g10}
spec: {bootMACAddress: "52:54:00:00:00:01"}
`
