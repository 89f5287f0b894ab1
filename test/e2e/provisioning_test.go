package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// rackConfig is a config for all hosts of the namespace rack.
const rackConfig = `
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: base, namespace: rack}
spec:
  type: ignition
  format: butane
  config: "variant: fcos\nversion: 1.4.0\n"
  selector: {default: true}
`

const provisioningObjects = `
apiVersion: v1
kind: Namespace
metadata:
  name: rack
  annotations: {glowplug.dev/provisioning-window: 2h, glowplug.dev/provisioning-max-fetches: "20"}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 127.0.0.11, bootSources: [127.0.0.32/28]}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: short, namespace: rack}
spec: {ip: 127.0.0.12, provisioning: {window: 4s}}
` + rackConfig

// from sends a request from an address of this machine, and returns the status and the body.
func (s *server) from(address, method, path string) (status, body string) {
	s.t.Helper()
	out, err := exec.Command("curl", "-sS", "--interface", address, "-X", method, "-w", "\n%{http_code}",
		s.url(path)).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	text := strings.TrimSpace(string(out))
	at := strings.LastIndexByte(text, '\n')
	status, body = text[at+1:], text[:max(at, 0)]
	if status >= "400" {
		planted.check(s.t, "body of an error", path, body)
	}
	return status, body
}

// TestConfigsAreServedInTheWindowAlone: after boot-complete, also where the server is killed right after
// its answer, and after the end of its window a host receives no config, until it is armed again.
func TestConfigsAreServedInTheWindowAlone(t *testing.T) {
	needs(t, "curl")
	s := start(t)
	s.kubectl(provisioningObjects, "apply", "-f", "-")
	const ignition, complete = "/api/v1/ignition", "/api/v1/boot-complete"
	want := func(address, status, text string) {
		t.Helper()
		if got, body := s.from(address, http.MethodGet, ignition); got != status || !strings.Contains(body, text) {
			t.Errorf("%s got %s %s, want %s", address, got, body, status)
		}
	}
	want("127.0.0.11", "200", "ignition")
	want("127.0.0.11", "200", "ignition")
	if status, body := s.from("127.0.0.11", http.MethodPost, complete); status != "200" {
		t.Fatal(status, body)
	}
	s.kill()
	s.restart()
	want("127.0.0.11", "403", "its provisioning window is closed: the machine is provisioned; arm the host again")
	event := s.kubectl("", "get", "events", "-n", "rack", "--field-selector", "reason=WindowClosed")
	if !strings.Contains(event, "127.0.0.11 was refused") {
		t.Errorf("no event: %s", event)
	}
	if out := s.glowplug("explain", "one", "-n", "rack"); !strings.Contains(out, "gets 403 from /api/v1/ignition") ||
		!strings.Contains(out, "glowplug.dev/rearm") {
		t.Errorf("explain:\n%s", out)
	}
	s.kubectl("", "annotate", "bmh", "one", "-n", "rack", "glowplug.dev/rearm=1")
	want("127.0.0.11", "200", "ignition")

	// Another address, which is a boot source of the host, gets it as well, and that is seen.
	if status, body := s.from("127.0.0.33", http.MethodGet, ignition+"?mac=52-54-00-00-00-01"); status != "200" {
		t.Errorf("%s %s", status, body)
	}
	testkit.Until(t, "the second client is an event", func() bool {
		out := s.kubectl("", "get", "events", "-n", "rack", "--field-selector", "reason=SecondClient")
		return strings.Contains(out, "the config was served to 127.0.0.33, after 127.0.0.11")
	})
	const counted = `glowplug_boot_notices_total{reason="SecondClient"} 1`
	if metrics := get(t, s.admin("/metrics")).body; !strings.Contains(metrics, counted) {
		t.Error("the second client is not counted")
	}
	testkit.Until(t, "the status shows the use of the window", func() bool {
		return s.kubectl("", "get", "bmh", "one", "-n", "rack", "-o",
			"jsonpath={.status.provisioning.fetches} {.status.provisioning.clients}") == `2 ["127.0.0.11","127.0.0.33"]`
	})

	ended := func() bool {
		status, _ := s.from("127.0.0.12", http.MethodGet, ignition)
		return status == "403"
	}
	testkit.Until(t, "the window of the other host ends", ended)
	s.kubectl("", "annotate", "bmh", "short", "-n", "rack", "glowplug.dev/rearm=1")
	want("127.0.0.12", "200", "ignition")
	testkit.Until(t, "the new window ends", ended)
	want("127.0.0.12", "403", "its provisioning window of 4s ended at")
}
