package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoreOfVersion1 opens a data directory that glowplug 0.1.0 has left (objects of version 1): every object is
// there, machines are in the states that they had, and what is written is there after a restart.
func TestStoreOfVersion1(t *testing.T) {
	needs(t, "tar")
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t)}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join("testdata", "store-of-version-1.tar.gz")
	if out, err := exec.Command("tar", "xzf", archive, "-C", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
