package e2e

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	eventually(t, "a login with the credentials of the Secret", func() bool {
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
