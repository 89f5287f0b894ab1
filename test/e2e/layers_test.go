package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// layersExample is the example of docs/guides/layers.md.
func layersExample(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "layers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	return text
}

// versionOf is the resourceVersion of a config; a write changes it.
func versionOf(s *server, name string) string {
	return s.kubectl("", "get", "ign", "-n", "rack7", name, "-o", "jsonpath={.metadata.resourceVersion}")
}

// TestLayers changes a layer: with one server, while one is down, and with two on one
// store.
func TestLayers(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	nats.start()
	shared := []string{"--nats-url", "nats://127.0.0.1:" + nats.port, "--pki-dir", filepath.Join(t.TempDir(), "pki")}
	one, two := start(t, shared...), start(t, shared...)
	example := layersExample(t)
	one.kubectl(example, "apply", "-f", "-")
	served := func(s *server, text string) func() bool {
		return func() bool {
			a := get(t, s.admin("/api/v1/ignition?ip=192.168.70.13"))
			return a.status == http.StatusOK && strings.Contains(a.body, text) && strings.Contains(a.body,
				"Rack%207%2C%20storage")
		}
	}
	for _, s := range []*server{one, two} {
		testkit.Until(t, "the whole is served", served(s, "chronyd.service"))
	}
	if a := get(t, one.admin("/api/v1/ignition?ip=192.168.70.13&format=raw")); strings.Contains(a.body, "chronyd") ||
		!strings.Contains(a.body, "variant: fcos") {
		t.Errorf("the source is not the config's own: %s", a.body)
	}
	if a := get(t, two.admin("/api/v1/explain?ip=192.168.70.13")); !strings.Contains(a.body, `"origins"`) {
		t.Errorf("explain says nothing of origins: %s", a.body)
	}

	one.kubectl(strings.ReplaceAll(example, "chronyd", "first"), "apply", "-f", "-")
	for _, s := range []*server{one, two} {
		testkit.Until(t, "a change is served", served(s, "first.service"))
	}
	// Both have seen to it, and it was written once: as it was merged, and with what it
	// can be given as.
	ready := func() bool {
		return one.kubectl("", "get", "ign", "-n", "rack7", "storage-node", "-o",
			"jsonpath={.status.servable[-1:].versions}") == "3.3.0-3.6.0"
	}
	testkit.Until(t, "it is judged", ready)
	was := versionOf(one, "storage-node")

	two.kill()
	one.kubectl(strings.ReplaceAll(example, "chronyd", "second"), "apply", "-f", "-")
	testkit.Until(t, "a change is served by the one that is left", served(one, "second.service"))
	testkit.Until(t, "it is judged", ready)
	if versionOf(one, "storage-node") == was {
		t.Error("nothing was written for a change")
	}
	was = versionOf(one, "storage-node")
	two.restart()
	testkit.Until(t, "the change is served by the one that was down", served(two, "second.service"))
	if versionOf(two, "storage-node") != was {
		t.Error("a start has written what was the same")
	}

	two.kubectl("", "delete", "ign", "-n", "rack7", "base")
	testkit.Until(t, "what was served is stale", func() bool {
		return get(t, one.admin("/api/v1/ignition?ip=192.168.70.13")).header.Get("X-Glowplug-Stale") == "true" &&
			served(one, "second.service")()
	})
	two.kubectl(example, "apply", "-f", "-")
	for _, s := range []*server{one, two} {
		testkit.Until(t, "it is mended", served(s, "chronyd.service"))
	}
}
