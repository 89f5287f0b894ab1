package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/serve/console"
	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/testkit"
)

// consoleServer is a whole server with the console at HTTPS and at the admin listener.
type consoleServer struct {
	t              *testing.T
	app            *App
	https, admin   string
	token, account string // of a ServiceAccount
	stop           func() // and waits for the end
}

func newConsoleServer(t *testing.T, flags ...string) *consoleServer {
	t.Helper()
	var o Options
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	all := []string{"--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0"}
	if err := fs.Parse(append(all, flags...)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	a, err := New(ctx, o, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	s := &consoleServer{t: t, app: a}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	for _, d := range a.listeners {
		switch d.name {
		case "https":
			s.https = "https://" + d.listener.Addr().String()
		case "admin":
			s.admin = "http://" + d.listener.Addr().String()
		}
	}
	testkit.Until(t, "the server is ready", a.seeded.Load)
	return s
}

// makeAccount makes a ServiceAccount and a token of it.
func (s *consoleServer) makeAccount() {
	s.t.Helper()
	s.account = "visitor"
	s.do(client.Request{Method: http.MethodPost, Resource: kinds.ServiceAccounts, Namespace: v1.NamespaceDefault,
		Body: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]string{"name": s.account}}}, nil)
	var made authenticationv1.TokenRequest
	s.do(client.Request{Method: http.MethodPost, Resource: kinds.ServiceAccounts, Namespace: v1.NamespaceDefault,
		Name: s.account, Subresource: "token", Body: &authenticationv1.TokenRequest{}}, &made)
	s.token = made.Status.Token
}

// revoke deletes all tokens.
func (s *consoleServer) revoke() {
	s.t.Helper()
	var list v1.TokenList
	s.do(client.Request{Resource: kinds.Tokens, Namespace: v1.NamespaceDefault}, &list)
	if len(list.Items) == 0 {
		s.t.Fatal("there is no token")
	}
	for i := range list.Items {
		s.do(client.Request{Method: http.MethodDelete, Resource: kinds.Tokens, Namespace: v1.NamespaceDefault,
			Name: list.Items[i].Name}, nil)
	}
}

// do sends a request of an administrator.
func (s *consoleServer) do(r client.Request, out any) {
	s.t.Helper()
	if _, err := s.app.own.Do(s.t.Context(), &r, out); err != nil {
		s.t.Fatal(err)
	}
}

// consoleUser is a browser that follows no redirect.
type consoleUser struct {
	t      *testing.T
	client *http.Client
}

func newConsoleUser(t *testing.T) *consoleUser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &consoleUser{t, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}}
}

// send sends a form if there is one, and returns the answer, whose body the caller closes.
func (u *consoleUser) send(method, at string, form url.Values, header ...string) *http.Response {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), method, at, strings.NewReader(form.Encode()))
	if err != nil {
		u.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := u.client.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	return answer
}

// status is the status of an answer, and its body.
func (u *consoleUser) status(method, at string, form url.Values, header ...string) (int, string) {
	u.t.Helper()
	answer := u.send(method, at, form, header...)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func (u *consoleUser) signIn(s *consoleServer) {
	u.t.Helper()
	if status, body := u.status(http.MethodPost, s.https+console.Prefix+"sign-in", url.Values{"token": {s.token}}); status !=
		http.StatusSeeOther {
		u.t.Fatalf("%d %s", status, body)
	}
}

// stream opens the stream of changes; ended is closed when it ends.
func (u *consoleUser) stream(s *consoleServer) (ended chan struct{}) {
	u.t.Helper()
	answer := u.send(http.MethodGet, s.https+console.Prefix+"events/stream", nil)
	if answer.StatusCode != http.StatusOK {
		u.t.Fatal(answer.Status)
	}
	begun := make([]byte, 1)
	if _, err := io.ReadFull(answer.Body, begun); err != nil {
		u.t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = answer.Body.Close() }()
		_, _ = io.Copy(io.Discard, answer.Body)
	}()
	return ended
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestARevokedTokenEndsTheConsole: within a second, its streams end and its pages are those of nobody.
func TestARevokedTokenEndsTheConsole(t *testing.T) {
	s := newConsoleServer(t)
	s.makeAccount()
	u := newConsoleUser(t)
	u.signIn(s)
	if status, body := u.status(http.MethodGet, s.https+console.Prefix, nil); status != http.StatusOK ||
		!strings.Contains(body, "system:serviceaccount:default:visitor") {
		t.Fatalf("%d %s", status, body)
	}
	ended := u.stream(s)
	s.revoke()
	testkit.Within(t, time.Second, "the stream of a revoked token ends", func() bool { return isClosed(ended) })
	if status, body := u.status(http.MethodGet, s.https+console.Prefix+"whoami", nil); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := u.status(http.MethodGet, s.https+console.Prefix, nil, "Sec-Fetch-Dest", "empty"); status !=
		http.StatusUnauthorized {
		t.Errorf("a page: %d", status)
	}
}

// TestSigningOutEndsTheConsole: within a second, the streams of the session end, and those of others do not.
func TestSigningOutEndsTheConsole(t *testing.T) {
	s := newConsoleServer(t)
	s.makeAccount()
	leaves, stays := newConsoleUser(t), newConsoleUser(t)
	leaves.signIn(s)
	stays.signIn(s)
	ended, open := leaves.stream(s), stays.stream(s)
	if status, body := leaves.status(http.MethodPost, s.https+console.Prefix+"sign-out", nil); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, body)
	}
	testkit.Within(t, time.Second, "the stream of a session ends with it", func() bool { return isClosed(ended) })
	if isClosed(open) {
		t.Error("the stream of another session of the same user ends")
	}
	if status, _ := stays.status(http.MethodGet, s.https+console.Prefix+"whoami", nil); status != http.StatusOK {
		t.Errorf("another session of the same user: %d", status)
	}
}

// TestAStopWaitsForNoPage: pages are open for hours, and open their streams at the server again after a restart.
func TestAStopWaitsForNoPage(t *testing.T) {
	s := newConsoleServer(t)
	s.makeAccount()
	u := newConsoleUser(t)
	u.signIn(s)
	ended := u.stream(s)
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > drainTimeout/2 {
		t.Errorf("the stop took %s", took)
	}
	<-ended
}

// TestPagesOfOtherSitesDoNotUseTheConsole: neither at HTTPS with the session of a browser, nor at the admin listener,
// whose user needs none: no write, no stream and nothing that a page reads.
func TestPagesOfOtherSitesDoNotUseTheConsole(t *testing.T) {
	s := newConsoleServer(t)
	s.makeAccount()
	u := newConsoleUser(t)
	u.signIn(s)
	host := func(at string) string { return at[strings.LastIndex(at, ":")+1:] }
	for name, at := range map[string]struct {
		url     string
		refusal int
	}{"https": {s.https, http.StatusForbidden}, "admin": {s.admin, http.StatusUnauthorized}} {
		otherPort := strings.TrimSuffix(at.url, host(at.url)) + "3000"
		for _, c := range []struct {
			method, path string
			header       []string
			isOwn        bool
		}{
			{"POST", "unknown/x/delete", []string{"Origin", at.url, "Sec-Fetch-Site", "same-origin"}, true},
			{"POST", "unknown/x/delete", []string{"Origin", at.url}, true},
			{"POST", "unknown/x/delete", []string{"Origin", otherPort}, false},
			{"POST", "unknown/x/delete", []string{"Origin", otherPort, "Sec-Fetch-Site", "same-site"}, false},
			{"POST", "unknown/x/delete", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
			{"POST", "unknown/x/delete", []string{"Origin", "null"}, false},
			{"POST", "sign-out", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
			{"POST", "sign-in", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, false},
			{"GET", "events/stream", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site",
				"Sec-Fetch-Mode", "cors"}, false},
			{"GET", "events/stream", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, false},
			{"GET", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
			{"GET", "whoami", []string{"Sec-Fetch-Site", "same-origin"}, true},
		} {
			var form url.Values
			if c.method == "POST" {
				form = url.Values{"confirm": {"yes"}}
			}
			status, body := u.status(c.method, at.url+console.Prefix+c.path, form, c.header...)
			if (status == at.refusal && !strings.Contains(body, "forbidden: User")) == c.isOwn {
				t.Errorf("%s: %s %s %q: %d %.300s", name, c.method, c.path, c.header, status, body)
			}
		}
	}
	if status, _ := u.status(http.MethodGet, s.https+console.Prefix+"whoami", nil); status != http.StatusOK {
		t.Errorf("a page of another site has signed the user out: %d", status)
	}
}

// TestSignInWithTheIssuerOfTheServer: the flags are enough for a user of the issuer to have a page.
func TestSignInWithTheIssuerOfTheServer(t *testing.T) {
	issuer := oidctest.New(t)
	dir := t.TempDir()
	issuers, secret := filepath.Join(dir, "authentication.yaml"), filepath.Join(dir, "secret")
	for path, content := range map[string]string{issuers: oidctest.File(issuer.Entry("")), secret: oidctest.ClientSecret + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newConsoleServer(t, "--authentication-config", issuers, "--console-oidc-client-id", oidctest.Audience,
		"--console-oidc-client-secret-file", secret, "--console-url", "https://boot.example:8443")
	u := newConsoleUser(t)
	testkit.Until(t, "the issuer is used", func() bool {
		status, _ := u.status(http.MethodGet, s.https+"/api/v1", nil, "Authorization", "Bearer "+issuer.Token(t, nil))
		return status == http.StatusOK
	})
	_, form := u.status(http.MethodGet, s.https+console.Prefix+"sign-in", nil)
	if !strings.Contains(form, `href="https://boot.example:8443/console/sign-in/oidc?next=%2Fconsole%2F"`) {
		t.Errorf("%s", form)
	}
	location := func(at string) string {
		t.Helper()
		answer := u.send(http.MethodGet, at, nil)
		defer func() { _ = answer.Body.Close() }()
		return answer.Header.Get("Location")
	}
	back, ok := strings.CutPrefix(location(location(s.https+console.Prefix+"sign-in/oidc")), "https://boot.example:8443")
	if !ok {
		t.Fatalf("the issuer leads to %q", back)
	}
	// As a browser does that comes from the site of the issuer.
	status, body := u.status(http.MethodGet, s.https+back, nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
		"Sec-Fetch-Dest", "document")
	if status != http.StatusOK || !strings.Contains(body, "oidc:ann") {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := u.status(http.MethodGet, s.https+console.Prefix, nil); status != http.StatusOK ||
		!strings.Contains(body, "oidc:ann") {
		t.Errorf("%d %s", status, body)
	}
	var who map[string]string
	if _, body := u.status(http.MethodGet, s.https+console.Prefix+"whoami", nil); json.Unmarshal([]byte(body), &who) != nil ||
		who["user"] != "oidc:ann" {
		t.Errorf("%s", body)
	}
}
