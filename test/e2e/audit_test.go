package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// auditLine is what the test reads of a line of the trail.
type auditLine struct {
	Stage, Verb, RequestURI string
	User, ImpersonatedUser  struct{ Username string }
	ObjectRef               struct{ Resource, Namespace, Name string }
	ResponseStatus          struct{ Code int }
	Annotations             map[string]string
	SourceIPs               []string
}

// TestAuditTrail: the trail of a write, a forbidden read and a boot is in the
// file, and the file has no secret of the config.
func TestAuditTrail(t *testing.T) {
	needs(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	s := start(t, "--audit-log-path", file, "--audit-policy-file", filepath.Join(root, "examples", "audit-policy.conf"))
	s.kubectl(`
apiVersion: v1
kind: BareMetalHost
metadata: {name: one}
spec: {ip: 127.0.0.1}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: builder}
spec:
  type: ignition
  format: butane
  selector: {matchIPs: [127.0.0.1]}
  config: |
    variant: fcos
    version: 1.5.0
    storage: {files: [{path: /etc/secret, contents: {inline: planted-secret}}]}
`, "apply", "-f", "-")
	if _, _, err := s.tryKubectl("", "get", "ignitionconfigs", "--as", "eve"); err == nil {
		t.Error("eve may read configs")
	}
	eventually(t, "the machine has its config", func() bool {
		return get(t, s.url("/api/v1/ignition?hostname=x&token=planted-token")).status == 200
	})
	want := map[string]func(l *auditLine) bool{
		"the create": func(l *auditLine) bool {
			return l.User.Username == "local-admin" && (l.Verb == "create" || l.Verb == "patch") && l.ResponseStatus.Code == 201 &&
				l.ObjectRef.Resource == "ignitionconfigs" && l.ObjectRef.Name == "builder"
		},
		"the forbidden read": func(l *auditLine) bool {
			return l.ImpersonatedUser.Username == "eve" && l.Verb == "list" && l.ResponseStatus.Code == 403
		},
		"the boot": func(l *auditLine) bool {
			return l.User.Username == "system:anonymous" && l.ResponseStatus.Code == 200 && l.ObjectRef.Name == "builder" &&
				l.RequestURI == "/api/v1/ignition?hostname=x" && l.Annotations["glowplug.dev/host"] == "default/one" &&
				strings.HasPrefix(l.Annotations["glowplug.dev/config-hash"], "sha256:")
		},
	}
	if code := s.terminate(); code != 0 { // which writes what is buffered
		t.Errorf("the server ends with %d", code)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "planted") {
		t.Error("the trail has a secret")
	}
	for text := range strings.Lines(string(content)) {
		var line auditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for what, is := range want {
			if is(&line) {
				delete(want, what)
			}
		}
	}
	for what := range want {
		t.Errorf("the trail lacks %s:\n%s", what, content)
	}
}
