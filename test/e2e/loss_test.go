package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
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

// TestDamagedFileIsRefused damages the file of the hosts while the server is down. Machines are told to come
// again, the operator reads everywhere what to do, and goes on once he has accepted the loss; a kill on the way
// costs nothing.
func TestDamagedFileIsRefused(t *testing.T) {
	needs(t)
	s := start(t, "--identity-claims=trust")
	s.kubectl(lossManifest, "apply", "-f", "-")
	s.kubectl("", "annotate", "bmh", "lost", "note="+strings.Repeat("damage ", 100))
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	damage(t, filepath.Join(s.dir, "nats"), "BAREMETALHOSTS", "damage ")

	s.launch()
	boot := func(mac string) int { return getOrNothing(s.admin("/api/v1/ignition?mac=" + mac)).status }
	for _, mac := range []string{"52:54:00:aa:00:01", "52:54:00:aa:00:02"} {
		testkit.Until(t, "the machine "+mac+" waits", func() bool { return boot(mac) == 503 })
	}
	says := func(what, text string) {
		t.Helper()
		for _, want := range []string{"the bucket BAREMETALHOSTS is damaged: in its file ", ".blk the record at byte ",
			"restore the data directory from a backup", "glowplug store accept-loss"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q: %s", what, want, launch.Tail(text, 2000))
			}
		}
	}
	testkit.Until(t, "an event tells", func() bool {
		return strings.Contains(s.kubectl("", "get", "events"), "BucketDamaged")
	})
	says("the event", s.kubectl("", "get", "events", "-o", "json", "--field-selector", "reason=BucketDamaged"))
	says("the log", s.log.String())
	says("readyz", get(t, s.url("/readyz?verbose")).body)
	if got := get(t, s.url("/metrics")).body; !strings.Contains(got, `glowplug_store_set_aside{bucket="BAREMETALHOSTS"} 1`) {
		t.Error("the metric does not tell")
	}
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	names := func(out string) {
		t.Helper()
		if !strings.Contains(out, "older than it was: BAREMETALHOSTS default/lost") ||
			strings.Contains(out, "default/intact") {
			t.Errorf("accept-loss says: %s", out)
		}
		says("accept-loss", strings.ReplaceAll(out, "a backup has more: with one, restore the data directory instead",
			"restore the data directory from a backup, glowplug store accept-loss"))
	}
	out, err := exec.Command(program, "store", "accept-loss", "--dry-run", "--data-dir", s.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names(string(out))
	for pause := time.Millisecond; ; pause += pause/4 + time.Millisecond { // the kill comes later each time
		var out bytes.Buffer
		command := exec.Command(program, "store", "accept-loss", "--data-dir", s.dir)
		command.Stdout, command.Stderr = &out, &out
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(pause, func() { _ = command.Process.Kill() })
		err := command.Wait()
		if kill.Stop(); err == nil {
			break
		}
		if command.ProcessState.ExitCode() > 0 {
			t.Fatalf("after a kill the command is refused: %s", &out)
		}
	}
	s.restart()
	for _, mac := range []string{"52:54:00:aa:00:01", "52:54:00:aa:00:02"} {
		if got := boot(mac); got != 200 {
			t.Errorf("after the loss was accepted the machine %s gets %d", mac, got)
		}
	}
	if out := s.kubectl("", "get", "bmh", "-o", "name"); strings.Count(out, "\n") != 2 {
		t.Errorf("there is: %s", out)
	}
}

// TestLostObjectsAreAlarmed has objects lost in an external NATS while no server runs. A machine that nothing settles
// for is told to come again, and the operator reads everywhere what to do, until he applies the object again or accepts
// the loss.
func TestLostObjectsAreAlarmed(t *testing.T) {
	needs(t)
	server := newNATS(t)
	server.start()
	url := "nats://127.0.0.1:" + server.port
	s := start(t, "--identity-claims=trust", "--nats-url", url)
	s.kubectl(lossManifest, "apply", "-f", "-")
	lose := func(bucket, key string) {
		t.Helper()
		if code := s.terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		conn, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+bucket+"."+key)); err != nil {
			t.Fatal(err)
		}
	}
	lose("BAREMETALHOSTS", "default/lost")
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
		t.Errorf("the log does not name the object:\n%s", launch.Tail(log, 2000))
	}
	testkit.Until(t, "an event tells", func() bool {
		return strings.Contains(s.kubectl("", "get", "events"), "ObjectLost")
	})
	s.kubectl(lossManifest, "apply", "-f", "-")
	if got := boot("52:54:00:aa:00:02"); got != 200 {
		t.Errorf("after it was applied again the machine gets %d", got)
	}

	lose("IGNITIONCONFIGS", "default/special")
	s.restart()
	for _, n := range []string{"1", "3"} {
		if got := boot("52:54:00:aa:00:0" + n); got != 503 {
			t.Errorf("while a config is lost, a machine with the config for all gets %d", got)
		}
	}
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	out, err := exec.Command(program, "store", "accept-loss", "--data-dir", s.dir, "--nats-url", url).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "lost: IGNITIONCONFIGS default/special") {
		t.Errorf("accept-loss: %v: %s", err, out)
	}
	s.restart()
	if got := boot("52:54:00:aa:00:01"); got != 200 {
		t.Errorf("after the loss was accepted the machine gets %d", got)
	}
}

// damage flips a bit of the last stored record of a bucket that has a text.
func damage(t *testing.T, store, bucket, text string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(store, "jetstream/*/streams/KV_"+bucket+"/msgs/*.blk"))
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
