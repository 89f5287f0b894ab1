package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// glowplug runs a command of the program with the admin's kubeconfig and returns its standard output.
func (s *server) glowplug(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("glowplug %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	switch {
	case args[0] == "token" && args[1] == "create":
		planted.plant(string(out))
	case args[0] == "explain":
		planted.check(s.t, "explanation", strings.Join(args, " "), string(out))
	}
	return string(out)
}

// withToken returns the status of a request to the API with a token.
func (s *server) withToken(token, path string) int {
	s.t.Helper()
	return get(s.t, s.url(path), "Authorization", "Bearer "+token).status
}

// TestTokensWithKubectl: kubectl makes ServiceAccounts and their tokens as on Kubernetes, and a record in
// kubectl get tokens that is deleted is a token that is revoked.
func TestTokensWithKubectl(t *testing.T) {
	needs(t)
	s := start(t)
	if out := s.kubectl("", "create", "serviceaccount", "ci", "-n", "rack-a"); out != "serviceaccount/ci created\n" {
		t.Error(out)
	}
	testkit.Until(t, "the built-in roles are there", func() bool {
		_, _, err := s.tryKubectl("", "create", "rolebinding", "ci", "-n", "rack-a", "--clusterrole=edit",
			"--serviceaccount=rack-a:ci")
		return err == nil
	})
	token := strings.TrimSpace(s.kubectl("", "create", "token", "ci", "-n", "rack-a", "--duration=24h"))
	if !strings.HasPrefix(token, "glowplug_") {
		t.Fatal(token)
	}
	as := func(args ...string) (string, error) {
		out, err := exec.Command(kubectlPath(t), append([]string{"--kubeconfig", os.DevNull, "--server",
			"https://127.0.0.1:" + s.tls, "--insecure-skip-tls-verify", "--token", token}, args...)...).CombinedOutput()
		return string(out), err
	}
	testkit.Until(t, "the token is accepted", func() bool { _, err := as("get", "bmh", "-n", "rack-a"); return err == nil })
	for _, c := range []struct{ args, want string }{
		{"auth whoami", "system:serviceaccount:rack-a:ci"},
		{"auth whoami", "[system:serviceaccounts system:serviceaccounts:rack-a system:authenticated]"},
		{"auth whoami", "authentication.kubernetes.io/credential-id"},
		{"auth can-i create bmh -n rack-a", "yes"},
		{"auth can-i create bmh -n rack-b", "no"},
		{"auth can-i create serviceaccounts/token -n rack-a", "no"},
		{"get tokens -n rack-a", "Forbidden"},
		{"get sa -n rack-a", "NAME   AGE\nci "},
	} {
		if out, _ := as(strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s lacks %q:\n%s", c.args, c.want, out)
		}
	}
	list := s.kubectl("", "get", "tokens", "-n", "rack-a")
	if !strings.Contains(list, "NAME            ACCOUNT   EXPIRES") || !strings.Contains(list, " ci ") {
		t.Error(list)
	}
	name := strings.TrimSpace(s.kubectl("", "get", "tokens", "-n", "rack-a", "-o", "name"))
	if _, stderr, err := s.tryKubectl("", "annotate", name, "-n", "rack-a", "a=b"); err == nil ||
		!strings.Contains(stderr, "only the server writes Tokens") {
		t.Errorf("%v %s", err, stderr)
	}
	s.kubectl("", "delete", name, "-n", "rack-a")
	if got := s.withToken(token, "/api/v1"); got != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", got)
	}
}

// TestTokensSurviveAKill: a token that was shown is accepted after kill -9, and one whose revocation was
// answered is refused.
func TestTokensSurviveAKill(t *testing.T) {
	needs(t)
	s := start(t)
	kept := strings.TrimSpace(s.glowplug("token", "create", "ci", "--role", "edit", "-n", "rack-a"))
	s.kill()
	s.restart()
	testkit.Until(t, "a token that was shown is accepted", func() bool {
		return s.withToken(kept, "/api/v1") == http.StatusOK
	})
	revoked := strings.TrimSpace(s.glowplug("token", "create", "bot", "-n", "rack-a", "--ttl", "1h"))
	testkit.Until(t, "the other token is accepted", func() bool { return s.withToken(revoked, "/api/v1") == http.StatusOK })
	if out := s.glowplug("token", "revoke", "--account", "bot", "-n", "rack-a"); !strings.HasSuffix(out, " revoked\n") {
		t.Error(out)
	}
	s.kill()
	s.restart()
	testkit.Until(t, "the kept token is loaded", func() bool { return s.withToken(kept, "/api/v1") == http.StatusOK })
	if got := s.withToken(revoked, "/api/v1"); got != http.StatusUnauthorized {
		t.Errorf("a revoked token after a kill: %d", got)
	}
	if log := s.log.String(); strings.Contains(log, kept) || strings.Contains(log, revoked) {
		t.Error("a token is in the log")
	}
	files := exec.Command("grep", "-rlaF", "-e", kept, "-e", revoked, s.dir)
	if out, err := files.Output(); err == nil {
		t.Errorf("a token is in %s", out)
	}
}

// TestTokensOfAllServers: each server of a store accepts a token that another one has made, and refuses
// it once another one has revoked it, also with an open watch. The admin token that one server replaces
// is refused by all.
func TestTokensOfAllServers(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	nats.start()
	url, pki := "nats://127.0.0.1:"+nats.port, filepath.Join(t.TempDir(), "pki")
	one := start(t, "--nats-url", url, "--pki-dir", pki)
	two := start(t, "--nats-url", url, "--pki-dir", pki)
	token := strings.TrimSpace(one.glowplug("token", "create", "ci", "--role", "view", "-A"))
	testkit.Until(t, "the token is accepted by all", func() bool {
		return one.withToken(token, "/api/v1/baremetalhosts") == http.StatusOK &&
			two.withToken(token, "/api/v1/baremetalhosts") == http.StatusOK
	})
	watch := watchAs(t, token, two.url("/api/v1/baremetalhosts?watch=true"))
	one.glowplug("token", "revoke", "--account", "ci")
	testkit.Until(t, "the token is refused by all", func() bool {
		return one.withToken(token, "/api/v1") == http.StatusUnauthorized &&
			two.withToken(token, "/api/v1") == http.StatusUnauthorized
	})
	awaitEnd(t, watch)
	former := adminToken(t, one)
	testkit.Until(t, "the admin token is accepted by all", func() bool {
		return two.withToken(former, "/api/v1") == http.StatusOK
	})
	one.glowplug("token", "rotate-admin", "--data-dir", one.dir)
	current := adminToken(t, one)
	if current == former {
		t.Fatal("the admin token is the former one")
	}
	for _, at := range []*server{one, two} {
		testkit.Until(t, "the former admin token is refused by all, and the new one accepted", func() bool {
			return at.withToken(former, "/api/v1") == http.StatusUnauthorized &&
				at.withToken(current, "/api/v1") == http.StatusOK
		})
	}
}
