package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/serve/console/live"
	"glowplug/internal/store/snapshot"
)

// site is a console over HTTPS, whose API knows some tokens.
type site struct {
	t       *testing.T
	console *Server
	url     string
	server  *httptest.Server
	logged  func() string

	mu     sync.Mutex
	tokens map[string]string // to users
}

func newSite(t *testing.T, change ...func(url string, opts *Options)) *site {
	t.Helper()
	s := &site{t: t, tokens: map[string]string{"token-of-ann": "ann", "token-of-bob": "bob"}}
	log, logged := logstest.Logger()
	s.logged = logged
	opts := Options{
		User: s.userOf, Lasting: func(*http.Request, context.CancelFunc) func() { return func() {} },
		IsLocal: func(*http.Request) bool { return false },
		Address: func(*http.Request) string { return "https://boot.lan:8443" + Prefix },
		Live:    live.New(live.Options{Inventory: snapshot.New(snapshot.Options{})}), Key: testKey(1), Logger: log,
	}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.console.ServeHTTP(w, r)
	}))
	s.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	s.url = s.server.URL
	for _, f := range change {
		f(s.url, &opts)
	}
	var err error
	if s.console, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return s
}

// testKey returns a key of which all bytes are the same.
func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// requestWith returns a request to the site with a cookie.
func (s *site) requestWith(cookie *http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, s.url+Prefix, nil)
	r.AddCookie(cookie)
	return r
}

// userOf knows the tokens of the site.
func (s *site) userOf(r *http.Request) user.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name := s.tokens[token]; name != "" {
		return &user.DefaultInfo{Name: name}
	}
	return nil
}

// revoke makes a token unknown.
func (s *site) revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, token)
}

// browser keeps cookies, and follows no redirect.
type browser struct {
	t      *testing.T
	at     string
	client *http.Client
}

func (s *site) browser() *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{s.t, s.url, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// It shows the pages of the issuer, too, whose certificate is another one.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}}
}

// received is what a browser has received.
type received struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
	body    string
}

// cookie is one that an answer sets; nil: it sets no such one.
func (a *received) cookie(nameEnd string) *http.Cookie {
	for _, c := range a.cookies {
		if strings.HasSuffix(c.Name, nameEnd) {
			return c
		}
	}
	return nil
}

// hasSession reports whether an answer begins a session.
func (a *received) hasSession() bool {
	for _, c := range a.cookies {
		if !strings.HasSuffix(c.Name, "-sign-in") && c.MaxAge > 0 {
			return true
		}
	}
	return false
}

// get opens an address, which is a path of the site or any URL.
func (b *browser) get(at string, header ...string) *received {
	b.t.Helper()
	return b.send(http.MethodGet, at, nil, header...)
}

// post sends a form.
func (b *browser) post(at string, form url.Values, header ...string) *received {
	b.t.Helper()
	return b.send(http.MethodPost, at, form, header...)
}

func (b *browser) send(method, at string, form url.Values, header ...string) *received {
	b.t.Helper()
	if strings.HasPrefix(at, "/") {
		at = b.at + at
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, at, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return &received{answer.StatusCode, answer.Header, answer.Cookies(), string(body)}
}

// user is who is signed in; "": nobody.
func (b *browser) user() string {
	b.t.Helper()
	answer := b.get(Prefix + "whoami")
	if answer.status != http.StatusOK {
		return ""
	}
	_, name, _ := strings.Cut(answer.body, `{"user":"`)
	name, _, _ = strings.Cut(name, `"`)
	return name
}
