package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestLostBootStatesAreRefused removes the file with what machines have done: none
// is answered, since one that is done would be installed again, until an operator
// accepts the loss.
func TestLostBootStatesAreRefused(t *testing.T) {
	needs(t, "kubectl", "curl")
	s := start(t)
	s.kubectl(strings.ReplaceAll(damageObjects, `bootMACAddress: "02:00:00:00:00:01"`, "ip: 127.0.0.1"), "apply", "-f",
		"-")
	eventually := func(what string, ok func() bool) {
		t.Helper()
		testkit.Until(t, what, ok)
	}
	complete := exec.Command("curl", "-sf", "-X", "POST", s.url("/api/v1/boot-complete"))
	if out, err := complete.CombinedOutput(); err != nil {
		t.Fatalf("boot-complete: %v %s", err, out)
	}
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	blocks, err := filepath.Glob(filepath.Join(s.dir, "nats/jetstream/*/streams/KV_BOOTS/msgs/*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no file with states: %v", err)
	}
	// An index of the stream would know of them.
	for _, file := range append(blocks, filepath.Join(filepath.Dir(blocks[0]), "index.db")) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	s.launch()
	eventually("the loss is refused", func() bool { return strings.Contains(s.log.String(), "glowplug store adopt") })
	if status := getOrNothing(s.url("/readyz/boot")).status; status != 500 {
		t.Errorf("/readyz/boot: %d", status)
	}
	if status := getOrNothing(s.admin("/api/v1/ignition?mac=02:00:00:00:00:02")).status; status != 503 {
		t.Errorf("a machine is answered %d", status)
	}
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if out, err := exec.Command(program, "store", "adopt", "--data-dir", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("adopt: %v %s", err, out)
	}
	s.restart()
	eventually("the server answers again", func() bool { return getOrNothing(s.url("/readyz/boot")).status == 200 })
}
