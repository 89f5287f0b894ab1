package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

const lossManifest = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: everybody, namespace: default}
spec: {type: ignition, format: ignition, config: '{"ignition":{"version":"3.4.0"}}', selector: {default: true}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: special, namespace: default}
spec: {type: ignition, format: ignition, config: '{"ignition":{"version":"3.4.0"},"passwd":{}}', selector: {matchMACs: ["52:54:00:aa:00:03"]}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: intact, namespace: default}
spec: {bootMACAddress: "52:54:00:aa:00:01"}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: lost, namespace: default}
spec: {bootMACAddress: "52:54:00:aa:00:02"}
`

// TestDamagedFileIsAlarmed damages the file of the hosts while the server is down.
// The machine whose host is left gets its config, the one whose host is gone is
// told to come again, and the operator reads everywhere what to do.
func TestDamagedFileIsAlarmed(t *testing.T) {
	needs(t)
	s := start(t, "--identity-claims=trust")
	s.kubectl(lossManifest, "apply", "-f", "-")
	s.kubectl("", "annotate", "bmh", "lost", "note="+strings.Repeat("damage ", 100))
	time.Sleep(time.Second) // the key log trails by a moment
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	damage(t, s.dir, "BAREMETALHOSTS", "damage ")

	s.restart()
	boot := func(mac string) int { return get(t, s.admin("/api/v1/ignition?mac="+mac)).status }
	if got := boot("52:54:00:aa:00:01"); got != 200 {
		t.Errorf("the machine whose host is left gets %d", got)
	}
	if got := boot("52:54:00:aa:00:02"); got != 503 {
		t.Errorf("the machine whose host is lost gets %d, and not its own config", got)
	}
	if got := get(t, s.url("/readyz?verbose")); got.status != 200 || !strings.Contains(got.body,
		"[!]store-baremetalhosts: 1 objects are lost") {
		t.Errorf("readyz: %d\n%s", got.status, got.body)
	}
	if got := get(t, s.url("/metrics")).body; !strings.Contains(got,
		`glowplug_store_damaged_objects{bucket="BAREMETALHOSTS"} 1`) {
		t.Error("the metric does not tell")
	}
	if log := s.log.String(); !strings.Contains(log, "object=baremetalhosts/default/lost") {
		t.Errorf("the log does not name the object:\n%s", tail(log, 2000))
	}
	testkit.Until(t, "an event tells", func() bool {
		return strings.Contains(s.kubectl("", "get", "events"), "ObjectLost")
	})
	s.kubectl(lossManifest, "apply", "-f", "-")
	if got := boot("52:54:00:aa:00:02"); got != 200 {
		t.Errorf("after it was applied again the machine gets %d", got)
	}

	// A lost config holds up the machine that it is for, and no other.
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	damage(t, s.dir, "IGNITIONCONFIGS", "52:54:00:aa:00:03")
	s.restart()
	if got := boot("52:54:00:aa:00:03"); got != 503 {
		t.Errorf("the machine whose config is lost gets %d", got)
	}
	if got := boot("52:54:00:aa:00:01"); got != 200 {
		t.Errorf("a machine that the lost config is not for gets %d", got)
	}
}

// damage flips a bit of the last stored record of a bucket that has a text.
func damage(t *testing.T, dir, bucket, text string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "nats/jetstream/*/streams/KV_"+bucket+"/msgs/*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %q, %v", blocks, err)
	}
	raw := []byte(read(t, blocks[0]))
	raw[strings.LastIndex(string(raw), text)] ^= 1
	write(t, blocks[0], string(raw))
}

// TestDeletedStaysDeleted deletes hosts, waits for what earlier releases waited for
// with their tombstones, in seconds, and kills.
func TestDeletedStaysDeleted(t *testing.T) {
	needs(t)
	s := start(t)
	for round := range 3 {
		for i := range 10 {
			if err := createHost(t.Context(), s, fmt.Sprintf("gone-%d-%d", round, i)); err != nil {
				t.Fatal(err)
			}
		}
		s.kubectl("", "delete", "bmh", "-n", "kill", "--all", "--wait=true")
		time.Sleep(time.Second)
		s.kill()
		s.restart()
		if got := s.kubectl("", "get", "bmh", "-n", "kill", "-o", "name"); got != "" {
			t.Fatalf("round %d: these are back:\n%s", round, got)
		}
	}
}
