package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestSecretsWithKubectl: kubectl makes and shows Secrets as on Kubernetes.
func TestSecretsWithKubectl(t *testing.T) {
	needs(t)
	s := start(t)
	value := base64.StdEncoding.EncodeToString([]byte(plantedSecret))
	s.kubectl("", "create", "secret", "generic", "token", "--from-literal=token="+plantedSecret)
	s.kubectl("", "create", "secret", "docker-registry", "registry", "--docker-server=registry.example",
		"--docker-username=u", "--docker-password="+plantedSecret)
	dir := t.TempDir()
	if out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=x", "-keyout",
		filepath.Join(dir, "key"), "-out", filepath.Join(dir, "crt")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	s.kubectl("", "create", "secret", "tls", "web", "--cert", filepath.Join(dir, "crt"),
		"--key", filepath.Join(dir, "key"))
	list := s.kubectl("", "get", "secrets")
	for _, want := range []string{"NAME ", " TYPE ", " DATA ", " AGE", "Opaque", "kubernetes.io/tls",
		"kubernetes.io/dockerconfigjson"} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not in\n%s", want, list)
		}
	}
	if got := s.kubectl("", "get", "secret", "token", "-o", "jsonpath={.data.token}"); got != value {
		t.Error(got)
	}
	size := fmt.Sprintf("%d bytes", len(plantedSecret))
	if out := s.kubectl("", "describe", "secret", "token"); !strings.Contains(out, size) || strings.Contains(out, value) {
		t.Error(out)
	}
	manifest := "apiVersion: v1\nkind: Secret\nmetadata: {name: applied}\nstringData: {token: " + plantedSecret + "}\n"
	s.kubectl(manifest, "apply", "-f", "-")
	s.kubectl(strings.Replace(manifest, "applied", "by-server", 1), "apply", "--server-side", "-f", "-")
	for _, name := range []string{"applied", "by-server"} {
		if got := s.kubectl("", "get", "secret", name, "-o", "jsonpath={.data.token}"); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
	for what, text := range map[string]string{
		"the log": s.log.String(), "the metrics": get(t, s.admin("/metrics")).body,
		"the events": s.kubectl("", "get", "events", "-A", "-o", "yaml"),
	} {
		if strings.Contains(text, plantedSecret) || strings.Contains(text, value) {
			t.Errorf("%s has the value of a Secret", what)
		}
	}
}

// TestCredentialsOfASecret: a login needs the credentials of the Secret that the image names. Without the
// Secret there is no login, with credentials or without.
func TestCredentialsOfASecret(t *testing.T) {
	r, one, _, _ := imageRack(t)
	r.kubectl("patch", "bmh", "-n", "rack", "one", "--type=merge", "-p", `{"spec":{"image":"locked"}}`)
	out := r.kubectl("patch", "cdrom", "-n", "rack", "locked", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/chap","value":{"secretName":"chap"}}]`)
	if !strings.Contains(out, "patched") {
		t.Error(out)
	}
	with := func(secret string) string {
		if secret != "" {
			secret = "rack%" + secret + "@"
		}
		return "iscsi://" + secret + rackServer + "/" + iqnOf(r, "locked") + "/0"
	}
	refused := func(what string, secrets ...string) {
		t.Helper()
		for _, secret := range secrets {
			if out, err := one.run("iscsi-inq", with(secret)); err == nil {
				t.Errorf("%s: a login with %q:\n%s", what, secret, out)
			}
		}
	}
	script := func() string {
		out, _ := one.run("curl", "-s", "http://"+rackServer+":8082/ipxe?mac=52:54:00:00:00:01")
		return out
	}
	refused("there is no Secret", "", "correct-horse", plantedSecret)
	if got := script(); strings.Contains(got, "sanboot iscsi:") || !strings.Contains(got, "there is no Secret rack/chap") {
		t.Errorf("the script without the Secret:\n%s", got)
	}
	r.kubectl("create", "secret", "generic", "chap", "-n", "rack", "--type=kubernetes.io/basic-auth",
		"--from-literal=username=rack", "--from-literal=password="+plantedSecret)
	testkit.Until(t, "a login with the credentials of the Secret", func() bool {
		_, err := one.run("iscsi-inq", with(plantedSecret))
		return err == nil
	})
	if got := script(); !strings.Contains(got, plantedSecret) || !strings.Contains(got, "sanboot") {
		t.Errorf("the script:\n%s", got)
	}
	refused("there is a Secret", "", "correct-horse")
	r.kubectl("delete", "secret", "-n", "rack", "chap")
	refused("the Secret was deleted", "", plantedSecret)
	if events := r.kubectl("get", "events", "-n", "rack", "-o", "yaml"); strings.Contains(events, plantedSecret) {
		t.Error("an event has the password")
	}
	if strings.Contains(r.server.log.String(), plantedSecret) {
		t.Error("the log has the password")
	}
}

// TestSecretsInTemplates: a template has the values of Secrets in the bytes that a machine receives, as they are
// at that moment, and nowhere else.
func TestSecretsInTemplates(t *testing.T) {
	needs(t)
	s := start(t, "--encrypt", "--audit-log-path", filepath.Join(t.TempDir(), "audit.log"))
	audit := s.args[len(s.args)-1]
	_, stderr, err := s.tryKubectl(`
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
    storage: {files: [{path: /etc/token, contents: {inline: '{{ secret "join" "token" }}'}}]}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-a}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 127.0.0.1}
`, "apply", "-f", "-")
	if err != nil {
		t.Fatal(stderr)
	}
	ask := func(header ...string) answer { return get(t, s.url("/api/v1/ignition"), header...) }
	testkit.Until(t, "the missing Secret is named", func() bool {
		a := ask()
		return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "there is no Secret rack-a/join")
	})
	s.kubectl("", "create", "secret", "generic", "join", "-n", "rack-a", "--from-literal=token="+plantedSecret)
	testkit.Until(t, "the value is served", func() bool { return strings.Contains(ask().body, plantedSecret) })
	older := ask("Accept", "application/vnd.coreos.ignition+json;version=3.2.0")
	if older.status != http.StatusOK || !strings.Contains(older.body, plantedSecret) ||
		!strings.Contains(older.body, "3.2.0") {
		t.Errorf("%d %s", older.status, older.body)
	}
	s.kubectl("", "patch", "secret", "join", "-n", "rack-a", "--type=merge", "-p",
		`{"stringData":{"token":"second-`+plantedSecret+`"}}`)
	if a := ask(); !strings.Contains(a.body, "second-"+plantedSecret) {
		t.Errorf("the changed value is not served at once: %s", a.body)
	}
	testkit.Until(t, "the status has the boot", func() bool {
		return s.kubectl("", "get", "bmh", "node-1", "-n", "rack-a", "-o", "jsonpath={.status.lastConfigHash}") != ""
	})
	testkit.Until(t, "the built-in roles are there", func() bool {
		_, _, err := s.tryKubectl("", "create", "rolebinding", "vic", "-n", "rack-a", "--clusterrole=view", "--user=vic")
		return err == nil
	})
	const rendered = "/api/v1/namespaces/rack-a/ignitionconfigs/web/rendered?host=node-1"
	if got := s.kubectl("", "get", "--raw", rendered); !strings.Contains(got, plantedSecret) {
		t.Errorf("the rendering for somebody who may read the Secret: %s", got)
	}
	viewed, warned, err := s.tryKubectl("", "get", "--raw", rendered, "--as=vic")
	if err != nil || !strings.Contains(warned, "placeholders stand for the values of Secrets") {
		t.Errorf("%v %s", err, warned)
	}
	if !strings.Contains(viewed, "%3Csecret%3Ajoin%2Ftoken%3E") {
		t.Errorf("the rendering for a viewer has no placeholder: %s", viewed)
	}
	trail, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	value := base64.StdEncoding.EncodeToString([]byte("second-" + plantedSecret))
	for what, text := range map[string]string{
		"the view of a viewer": viewed,
		"the config":           s.kubectl("", "get", "ign", "web", "-n", "rack-a", "-o", "yaml"),
		"the host":             s.kubectl("", "get", "bmh", "node-1", "-n", "rack-a", "-o", "yaml"),
		"the events":           s.kubectl("", "get", "events", "-A", "-o", "yaml"),
		"the explanation":      get(t, s.admin("/api/v1/explain?mac=52:54:00:00:00:01&proof=true")).body,
		"the metrics":          get(t, s.admin("/metrics")).body,
		"the log":              s.log.String(),
		"the audit trail":      string(trail),
	} {
		if strings.Contains(text, plantedSecret) || strings.Contains(text, value) {
			t.Errorf("%s has the value:\n%s", what, text)
		}
	}
	holdsNot(t, s.dir, plantedSecret)
	holdsNot(t, s.dir, value)
	s.kubectl("", "delete", "secret", "join", "-n", "rack-a")
	if a := ask(); a.status != http.StatusServiceUnavailable || strings.Contains(a.body, plantedSecret) {
		t.Errorf("%d %s", a.status, a.body)
	}
	explained := get(t, s.admin("/api/v1/explain?mac=52:54:00:00:00:01")).body
	if !strings.Contains(explained, "there is no Secret rack-a/join") {
		t.Errorf("the explanation does not have the missing Secret: %s", explained)
	}
}
