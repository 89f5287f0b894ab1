package e2e

import (
	"net/http"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestTheURLOfTheServerInATemplate: a template is served with the URL of --http-url, after a restart with that of the
// new one, and a write is predicted with the same.
func TestTheURLOfTheServerInATemplate(t *testing.T) {
	needs(t)
	const first, second = "http://boot.example.com:8082", "https://other.example.com"
	s := start(t, "--http-url", first)
	of := func(url string) string {
		return `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: web, namespace: rack-a}
spec:
  type: ignition
  format: butane
  template: true
  selector: {default: true}
  config: |
    variant: fcos
    version: 1.5.0
    storage: {files: [{path: /opt/tool, contents: {source: "` + url + `/assets/tool"}}]}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-a}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 127.0.0.1}
`
	}
	if _, stderr, err := s.tryKubectl(of("{{ .Server }}"), "apply", "-f", "-"); err != nil {
		t.Fatal(stderr)
	}
	served := func(url string) string {
		t.Helper()
		var a answer
		testkit.Until(t, "the template is served with "+url, func() bool {
			a = get(t, s.url("/api/v1/ignition"))
			return a.status == http.StatusOK && strings.Contains(a.body, `"source":"`+url+`/assets/tool"`)
		})
		return a.header.Get("ETag")
	}
	before := served(first)
	s.kill()
	s.args = []string{"--http-url", second}
	s.restart()
	if served(second) == before {
		t.Errorf("ETag %s with both URLs", before)
	}
	for url, changes := range map[string]bool{second: false, first: true} {
		_, warned, err := s.tryKubectl(of(url), "apply", "--dry-run=server", "-f", "-")
		if err != nil || strings.Contains(warned, "other contents of the config") != changes {
			t.Errorf("a dry run with the written URL %s: %v %s", url, err, warned)
		}
	}
}
