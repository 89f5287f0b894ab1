package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
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
	testkit.Until(t, "the machine has its config", func() bool {
		return get(t, s.url("/api/v1/ignition?hostname=x&token=planted-token")).status == 200
	})
	want := map[string]func(l *auditLine) bool{
		"the create": func(l *auditLine) bool {
			return l.User.Username == "local-admin" && (l.Verb == "create" || l.Verb == "patch") &&
				l.ResponseStatus.Code == 201 && l.ObjectRef.Resource == "ignitionconfigs" && l.ObjectRef.Name == "builder"
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
	checkTrail(t, file, "planted", want)
}

// TestLoginsAreAudited: each iSCSI login leaves a line with the image, the host and the outcome, and none
// with the secret.
func TestLoginsAreAudited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	r, one, _, stranger := imageRack(t, "--audit-log-path", file)
	login := func(from machine, image, credentials string) {
		_, _ = from.run("iscsi-inq", "iscsi://"+credentials+rackServer+"/"+iqnOf(r, image)+"/0") // which may be refused
	}
	login(one, "private", "")
	login(stranger, "private", "")
	login(stranger, "locked", "rack%wrong-horse@")
	login(one, "locked", "rack%correct-horse@")
	is := func(image, host, from string, code int) func(l *auditLine) bool {
		path := "/iscsi/" + iqnOf(r, image)
		return func(l *auditLine) bool {
			return l.Verb == "login" && l.ObjectRef.Resource == "iscsicdroms" && l.ObjectRef.Namespace == "rack" &&
				l.ObjectRef.Name == image && l.RequestURI == path && l.ResponseStatus.Code == code &&
				l.Annotations["glowplug.dev/host"] == host && strings.Join(l.SourceIPs, " ") == from &&
				l.User.Username == "system:anonymous"
		}
	}
	want := map[string]func(l *auditLine) bool{
		"the login of the host":       is("private", "rack/one", "192.0.2.11", 200),
		"the refused login":           is("private", "", "192.0.2.99", 403),
		"the login with a wrong word": is("locked", "", "192.0.2.99", 401),
		"the login with the secret":   is("locked", "rack/one", "192.0.2.11", 200),
	}
	r.server.terminate()
	checkTrail(t, file, "horse", want)
}

// checkTrail checks that the trail has the lines, and no secret.
func checkTrail(t *testing.T, file, secret string, want map[string]func(l *auditLine) bool) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), secret) {
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
