package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestWipedNATS empties NATS under a server: machines are served from memory, after
// a restart they are told to come again, nothing is written, and the operator begins
// a new store.
func TestWipedNATS(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	nats.start()
	url := "nats://127.0.0.1:" + nats.port
	s := start(t, "--nats-url", url)
	list := s.admin("/api/v1/namespaces/default/ignitionconfigs")
	object := func(name string) answer {
		return request(t, "POST", list, `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"`+name+`"},
			"spec":{"type":"ignition","format":"ignition","config":"{\"ignition\":{\"version\":\"3.4.0\"}}","selector":{"default":true}}}`,
			"Content-Type", "application/json")
	}
	if a := object("one"); a.status != http.StatusCreated {
		t.Fatalf("a write: %d %s", a.status, a.body)
	}

	nats.stop()
	if err := os.RemoveAll(filepath.Join(nats.dir, "js")); err != nil {
		t.Fatal(err)
	}
	nats.start()
	testkit.Until(t, "the empty NATS is an alarm", func() bool {
		return strings.Contains(get(t, s.url("/metrics")).body, "\nglowplug_store_identity_mismatch 1\n")
	})
	if log := s.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "glowplug store init") {
		t.Errorf("the log does not say what to do:\n%s", log)
	}
	if a := get(t, s.url("/api/v1/ignition")); a.status != http.StatusOK {
		t.Errorf("a machine, from memory: %d %s", a.status, a.body)
	}
	refused := func() {
		t.Helper()
		if a := object("two"); a.status != http.StatusServiceUnavailable {
			t.Errorf("a write: %d %s, want a 503", a.status, a.body)
		}
		if a := get(t, s.url("/readyz?verbose")); a.status == http.StatusOK || !strings.Contains(a.body,
			"[-]store-identity failed") {
			t.Errorf("readyz: %d %s", a.status, a.body)
		}
	}
	refused()
	if a := object("two"); !strings.Contains(a.body, "NATS holds no store, and the data directory belongs to store") {
		t.Errorf("a refused write does not say why: %s", a.body)
	}

	s.kill()
	s.launch()
	testkit.Until(t, "the server listens", func() bool {
		resp, err := http.Get(s.url("/livez"))
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	})
	testkit.Until(t, "the empty NATS is an alarm again", func() bool {
		return strings.Contains(get(t, s.url("/metrics")).body, "\nglowplug_store_identity_mismatch 1\n")
	})
	if a := get(t, s.url("/api/v1/ignition")); a.status != http.StatusServiceUnavailable ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("a machine after a restart: %d %v, want a 503 to try again", a.status, a.header)
	}
	refused()

	decide := func(command string) (string, error) {
		out, err := exec.Command(program, "store", command, "--data-dir", s.dir, "--nats-url", url).CombinedOutput()
		return string(out), err
	}
	if out, err := decide("init"); err == nil || !strings.Contains(out, "hint: stop the server first") {
		t.Errorf("store init beside the server: %v %s", err, out)
	}
	s.kill()
	if out, err := decide("adopt"); err == nil || !strings.Contains(out, "nothing to adopt") {
		t.Errorf("store adopt of an empty NATS: %v %s", err, out)
	}
	if out, err := decide("init"); err != nil {
		t.Fatalf("store init: %v %s", err, out)
	}
	s.restart()
	if a := get(t, s.url("/api/v1/ignition")); a.status != http.StatusNotFound {
		t.Errorf("a machine of the new store: %d", a.status)
	}
	if a := object("two"); a.status != http.StatusCreated {
		t.Errorf("a write into the new store: %d %s", a.status, a.body)
	}
}
