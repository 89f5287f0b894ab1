package console

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/credentials"
	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/testkit"
)

// consoleLink is what glowplug console prints for a user.
func (s *server) consoleLink(t *testing.T, user string) string {
	t.Helper()
	config := filepath.Join(s.dir, "admin.kubeconfig")
	if user != "admin" {
		content, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		config = filepath.Join(t.TempDir(), user+".kubeconfig")
		content = []byte(strings.ReplaceAll(string(content), s.token("admin"), tokenOf(user)))
		if err := os.WriteFile(config, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), program, "console", "--no-open", "--kubeconfig", config).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestOneTimeLink: the link of glowplug console signs a browser in, without a trace of its code in the address; a
// second browser is refused; and a browser that is signed in is asked before another user takes its place.
func TestOneTimeLink(t *testing.T) {
	s := start(t)
	link := s.consoleLink(t, "admin")
	tab := browser(t, s.secure)
	tab.open(link)
	tab.waitFor("h1", "Fleet")
	tab.waitFor(".who", "admin")
	if at := evaluate[string](tab, "location.href"); at != s.secure+"/console/" {
		t.Errorf("the page is at %s", at)
	}

	late := browser(t, s.secure)
	late.expect("status of 401")
	late.open(link)
	late.waitFor("[role=alert]", "works once")

	anns := s.consoleLink(t, "ann")
	tab.open(anns)
	tab.waitFor("#ask", "signs you in, in place of admin")
	tab.axe()
	tab.click("#ask button")
	tab.waitFor(".who", "ann")
}

// TestSignOutInABrowser: the page leads to the form, and no page opens any more.
func TestSignOutInABrowser(t *testing.T) {
	s := start(t)
	tab := browser(t, s.secure)
	tab.open(s.consoleLink(t, "admin"))
	tab.waitFor("h1", "Fleet")
	tab.click(".who button")
	tab.waitFor("h1", "Sign in")
	tab.open("/console/")
	tab.waitFor("h1", "Sign in")
}

// TestSignInWithAnIssuer: the browser comes back from another site, whose redirect does not carry the cookie of the
// session, and has its page all the same. A link on that site to a page of the console opens it, too.
func TestSignInWithAnIssuer(t *testing.T) {
	needs(t)
	pki := credentials.Folder(certificates)
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "server.crt"), filepath.Join(pki, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	issuer := oidctest.NewAt(t, "localhost", pair, string(ca)) // to a browser another site than 127.0.0.1
	dir, secure := t.TempDir(), freeAddress(t)
	issuers, secret := filepath.Join(dir, "authentication.yaml"), filepath.Join(dir, "secret")
	for path, content := range map[string]string{
		issuers: oidctest.File(issuer.Entry("")), secret: oidctest.ClientSecret,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, "--listen-tls", secure, "--console-url", "https://"+secure, "--authentication-config", issuers,
		"--console-oidc-client-id", oidctest.Audience, "--console-oidc-client-secret-file", secret)
	s.secure = "https://" + secure
	testkit.Within(t, patience, "the issuer is used", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.secure+"/api/v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+issuer.Token(t, nil))
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := client.Do(r)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})

	tab := browser(t, s.secure)
	tab.trust(issuer.URL)
	tab.open("/console/events")
	tab.waitFor("h1", "Sign in")
	tab.screenshot("sign-in-issuer")
	tab.axe()
	tab.click("a.button")
	tab.waitFor(".who", "oidc:ann")
	if at := evaluate[string](tab, "location.href"); at != s.secure+"/console/events" {
		t.Errorf("the page is at %s", at)
	}
	// From the site of the issuer, which has no page of its own but its keys.
	tab.expect("/favicon.ico")
	tab.open(issuer.URL + "/keys")
	evaluate[string](tab, fmt.Sprintf("location.href = %s", quote(s.secure+"/console/images")))
	tab.waitFor(".who", "oidc:ann")
	if at := evaluate[string](tab, "location.href"); at != s.secure+"/console/images" {
		t.Errorf("a link leads to %s", at)
	}
}
