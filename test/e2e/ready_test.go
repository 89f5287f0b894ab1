package e2e

import (
	"net/http"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// TestReadinessOfBootsWhileTheStoreIsAway: a server that answers machines from
// memory stays ready for them, and says that the whole is not ready.
func TestReadinessOfBootsWhileTheStoreIsAway(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	s := &server{t: t, host: "127.0.0.1", dir: t.TempDir() + "/data", plain: freePort(t), tls: freePort(t),
		args: []string{"--nats-url", "nats://127.0.0.1:" + nats.port}}
	s.launch()
	testkit.Until(t, "the server listens although NATS is away", func() bool {
		resp, err := http.Get(s.url("/livez"))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	expect := func(when string, boot, whole int) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			gotBoot, gotWhole := get(t, s.url("/readyz/boot")).status, get(t, s.url("/readyz")).status
			if gotBoot == boot && gotWhole == whole {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: /readyz/boot %d, /readyz %d; want %d and %d", when, gotBoot, gotWhole, boot, whole)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	expect("before the store was ever read", http.StatusInternalServerError, http.StatusInternalServerError)
	nats.start()
	expect("with the store", http.StatusOK, http.StatusOK)
	s.kubectl(configFor("a"), "apply", "-f", "-")
	nats.stop()
	expect("while the store is away", http.StatusOK, http.StatusInternalServerError)
	if a := get(t, s.url("/api/v1/ignition")); a.status != http.StatusOK {
		t.Errorf("a machine while the store is away: %d %s", a.status, a.body)
	}
	nats.start()
	expect("with the store again", http.StatusOK, http.StatusOK)
}
