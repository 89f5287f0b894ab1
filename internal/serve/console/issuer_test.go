package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/serve/oidc"
	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/serve/session"
	"glowplug/internal/testkit"
)

// newIssuerSite returns a console whose users sign in with an issuer, and the issuer.
func newIssuerSite(t *testing.T) (*site, *oidctest.Issuer) {
	t.Helper()
	issuer := oidctest.New(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	// The API takes tokens for others than the console, too.
	entry := strings.Replace(issuer.Entry(""), "audiences: ["+oidctest.Audience+"]",
		"audiences: ["+oidctest.Audience+", other]\n    audienceMatchPolicy: MatchAny", 1)
	if err := os.WriteFile(file, []byte(oidctest.File(entry)), 0o600); err != nil {
		t.Fatal(err)
	}
	log, _ := logstest.Logger()
	issuers, err := oidc.Open(t.Context(), file, log, log)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(url string, opts *Options) {
		opts.OIDC = &session.Client{
			ID: oidctest.Audience, URL: url + Prefix, Issuers: issuers,
			Secret: func() (string, error) { return oidctest.ClientSecret, nil },
		}
		known := opts.User
		opts.User = func(r *http.Request) user.Info {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if response, ok, err := issuers.AuthenticateToken(r.Context(), token); err == nil && ok {
				return response.User
			}
			return known(r)
		}
	})
	testkit.Until(t, "the issuer is used", func() bool {
		_, ok, err := issuers.AuthenticateToken(t.Context(), issuer.Token(t, nil))
		return err == nil && ok
	})
	return s, issuer
}

// begin leads a browser to the issuer, which leads it back: the address of that is returned, not opened.
func (b *browser) begin(next string) (callback string) {
	b.t.Helper()
	asked := b.get(Prefix + "sign-in/oidc?next=" + url.QueryEscape(next))
	if asked.status != http.StatusSeeOther {
		b.t.Fatalf("%d %s", asked.status, asked.body)
	}
	back := b.get(asked.header.Get("Location"))
	if back.status != http.StatusFound {
		b.t.Fatalf("the issuer: %d %s", back.status, back.body)
	}
	return back.header.Get("Location")
}

// TestSignInWithAnIssuer: the page offers it; the issuer gets a request of the code flow with PKCE; its answer begins a
// session of its user, which ends with his token.
func TestSignInWithAnIssuer(t *testing.T) {
	s, issuer := newIssuerSite(t)
	end := time.Now().Add(30 * time.Minute)
	issuer.SayOfUsers(map[string]any{"exp": end.Unix()})
	b := s.browser()
	form := b.get(Prefix + "sign-in?next=" + Prefix + "unknown")
	link := s.url + Prefix + "sign-in/oidc?next=%2Fconsole%2Funknown"
	name := strings.TrimPrefix(issuer.URL, "https://")
	if !strings.Contains(form.body, `href="`+link+`">Sign in with `+name+`<`) {
		t.Errorf("%s", form.body)
	}

	asked := b.get(link)
	at, err := url.Parse(asked.header.Get("Location"))
	if err != nil || asked.status != http.StatusSeeOther || !strings.HasPrefix(at.String(), issuer.URL+"/authorize?") {
		t.Fatalf("%d %v", asked.status, asked.header)
	}
	query := at.Query()
	for key, want := range map[string]string{
		"response_type": "code", "client_id": oidctest.Audience, "redirect_uri": s.url + Prefix + "callback",
		"scope": "openid groups", "code_challenge_method": "S256",
	} {
		if query.Get(key) != want {
			t.Errorf("%s is %q, want %q", key, query.Get(key), want)
		}
	}
	for _, key := range []string{"state", "nonce", "code_challenge"} {
		if len(query.Get(key)) < 20 {
			t.Errorf("%s is %q", key, query.Get(key))
		}
	}
	state := asked.cookie("-sign-in")
	if state == nil || state.SameSite != http.SameSiteLaxMode || state.MaxAge != 600 || !state.Secure || !state.HttpOnly ||
		!strings.HasPrefix(state.Name, "__Host-") || state.Path != "/" || asked.hasSession() {
		t.Fatalf("%v", asked.cookies)
	}

	done := b.get(b.get(at.String()).header.Get("Location"))
	begun := done.cookie(strings.TrimSuffix(state.Name, "-sign-in"))
	if done.status != http.StatusOK || begun == nil || begun.SameSite != http.SameSiteStrictMode {
		t.Fatalf("%d %v\n%s", done.status, done.cookies, done.body)
	}
	if lasts := time.Until(end); begun.MaxAge > int(lasts.Seconds())+1 || begun.MaxAge < int(lasts.Seconds())-60 {
		t.Errorf("the session lasts %d s, the token %s", begun.MaxAge, lasts)
	}
	if removed := done.cookie("-sign-in"); removed == nil || removed.MaxAge >= 0 {
		t.Errorf("the state stays: %v", removed)
	}
	for _, want := range []string{`href="/console/unknown" id="go-on"`, "static/signin.js", "oidc:ann"} {
		if !strings.Contains(done.body, want) {
			t.Errorf("no %s in\n%s", want, done.body)
		}
	}
	if b.user() != "oidc:ann" {
		t.Errorf("the user is %q", b.user())
	}
}

// TestAttacksOnTheCallback: no answer of an issuer begins a session but the one to what this browser has begun, for
// this client, once and in time.
func TestAttacksOnTheCallback(t *testing.T) {
	s, issuer := newIssuerSite(t)
	with := func(at, key, value string) string {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		query.Set(key, value)
		u.RawQuery = query.Encode()
		return u.String()
	}
	partOf := func(at, key string) string {
		u, _ := url.Parse(at)
		return u.Query().Get(key)
	}
	for name, c := range map[string]struct {
		callback func(victim *browser) string
		claims   map[string]any
		status   int
		says     string
		asksNone bool // of the issuer
	}{
		"an attacker's answer, in a browser that has begun nothing": {
			func(*browser) string { return s.browser().begin("") }, nil, http.StatusBadRequest, "has not begun", true},
		"an attacker's answer, in a browser that has begun": {
			func(victim *browser) string { victim.begin(""); return s.browser().begin("") }, nil, http.StatusBadRequest,
			"has not begun", true},
		"an attacker's code with the victim's state": {
			func(victim *browser) string {
				return with(victim.begin(""), "code", partOf(s.browser().begin(""), "code"))
			}, nil, http.StatusBadGateway, "no ID token", false},
		"another state": {func(victim *browser) string { return with(victim.begin(""), "state", "x") }, nil,
			http.StatusBadRequest, "has not begun", true},
		"no state": {func(victim *browser) string { return with(victim.begin(""), "state", "") }, nil,
			http.StatusBadRequest, "has not begun", true},
		"a second time": {func(victim *browser) string {
			at := victim.begin("")
			cookies := victim.client.Jar.Cookies(mustParse(t, s.url))
			if s.browser().withCookies(s.url, cookies).get(at).status != http.StatusOK {
				t.Error("not even once")
			}
			return at
		}, nil, http.StatusBadRequest, "has signed in already", false},
		"an answer of another issuer": {func(victim *browser) string {
			return with(victim.begin(""), "iss", "https://evil.example")
		}, nil, http.StatusBadGateway, "no ID token", true},
		"a made-up code": {func(victim *browser) string { return with(victim.begin(""), "code", "x") }, nil,
			http.StatusBadGateway, "no ID token", false},
		"a token for another client": {(*browser).beginAnywhere, map[string]any{"aud": "other"}, http.StatusUnauthorized,
			"not for this sign-in", false},
		"a token for others, asked for by another client": {(*browser).beginAnywhere,
			map[string]any{"aud": []string{oidctest.Audience, "other"}, "azp": "other"}, http.StatusUnauthorized,
			"not for this sign-in", false},
		"a token that the API refuses": {(*browser).beginAnywhere, map[string]any{"aud": "third"}, http.StatusUnauthorized,
			"does not accept", false},
		"a token of a user of the system": {(*browser).beginAnywhere, map[string]any{"sub": "x", "iss": "https://a.example"},
			http.StatusUnauthorized, "does not accept", false},
		"a token of another sign-in": {(*browser).beginAnywhere, map[string]any{"nonce": "x"}, http.StatusUnauthorized,
			"not for this sign-in", false},
		"a token without a nonce": {(*browser).beginAnywhere, map[string]any{"nonce": nil}, http.StatusUnauthorized,
			"not for this sign-in", false},
		"a token that has ended": {(*browser).beginAnywhere, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()},
			http.StatusUnauthorized, "does not accept", false},
		"a token that no cookie can hold": {(*browser).beginAnywhere, map[string]any{"groups": manyGroups()},
			http.StatusUnprocessableEntity, "fewer claims", false},
		"a refusal": {func(victim *browser) string {
			return with(with(victim.begin(""), "error", "access_denied"), "error_description", "<script>alert(1)</script>")
		}, nil, http.StatusForbidden, "&lt;script&gt;alert(1)", true},
	} {
		t.Run(name, func(t *testing.T) {
			issuer.SayOfUsers(c.claims)
			victim := s.browser()
			at := c.callback(victim)
			before := issuer.Exchanges()
			answer := victim.get(at)
			if answer.status != c.status || !strings.Contains(answer.body, c.says) {
				t.Errorf("%d %s", answer.status, answer.body)
			}
			if answer.hasSession() || victim.user() != "" {
				t.Errorf("a session of %q begins: %v", victim.user(), answer.cookies)
			}
			if c.asksNone && issuer.Exchanges() != before {
				t.Error("the issuer is asked about the code")
			}
		})
	}
	for _, secret := range []string{oidctest.ClientSecret, "eyJ"} {
		if strings.Contains(s.logged(), secret) {
			t.Errorf("a secret is logged:\n%s", s.logged())
		}
	}
}

// beginAnywhere begins, with no page to go on to.
func (b *browser) beginAnywhere() (callback string) { return b.begin("") }

// withCookies gives a browser the cookies of another one.
func (b *browser) withCookies(at string, cookies []*http.Cookie) *browser {
	for _, c := range cookies {
		c.Path, c.Secure = "/", true
	}
	b.client.Jar.SetCookies(mustParse(b.t, at), cookies)
	return b
}

func mustParse(t *testing.T, at string) *url.URL {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// manyGroups are the groups of a user whose token is too long.
func manyGroups() []string {
	groups := make([]string, 400)
	for i := range groups {
		groups[i] = strings.Repeat(string(rune('a'+i%26))+string(rune('a'+i/26)), 8) + time.Now().String()
	}
	return groups
}

// TestWhereSigningInLeads: to a page of the console alone, whatever the link to it has said.
func TestWhereSigningInLeads(t *testing.T) {
	s, _ := newIssuerSite(t)
	for next, want := range map[string]string{
		Prefix + "unknown?a=b":             Prefix + "unknown?a=b",
		"https://evil.example/console/":    Prefix,
		"//evil.example/console/":          Prefix,
		"javascript:alert(1)":              Prefix,
		Prefix + strings.Repeat("a", 9000): Prefix,
		Prefix + "callback?code=x&state=y": Prefix,
	} {
		b := s.browser()
		answer := b.get(b.begin(next))
		if !strings.Contains(answer.body, `href="`+strings.ReplaceAll(want, "&", "&amp;")+`" id="go-on"`) {
			t.Errorf("%.100s: %.900s", next, answer.body)
		}
	}
}

// TestTheSecretStaysOut: a wrong secret of the client is a refusal of the issuer, and neither the log nor the page has
// it, the code or the verifier.
func TestTheSecretStaysOut(t *testing.T) {
	s, _ := newIssuerSite(t)
	s.console.opts.OIDC.Secret = func() (string, error) { return "a wrong secret", nil }
	b := s.browser()
	at := b.begin("")
	answer := b.get(at)
	if answer.status != http.StatusBadGateway || answer.hasSession() {
		t.Errorf("%d %s", answer.status, answer.body)
	}
	if !strings.Contains(s.logged(), "invalid_client") {
		t.Errorf("the log does not say why:\n%s", s.logged())
	}
	for _, text := range []string{answer.body, s.logged()} {
		if strings.Contains(text, "a wrong secret") || strings.Contains(text, mustParse(t, at).Query().Get("code")) {
			t.Errorf("a secret is in\n%s", text)
		}
	}
}

// TestAnIssuerThatDoesNotAnswer: users are told, the log says it seldom, and tokens go on to work.
func TestAnIssuerThatDoesNotAnswer(t *testing.T) {
	s, issuer := newIssuerSite(t)
	issuer.Down.Store(true)
	b := s.browser()
	for range 50 {
		answer := b.get(Prefix + "sign-in/oidc")
		if answer.status != http.StatusServiceUnavailable || len(answer.cookies) > 0 {
			t.Fatalf("%d %s", answer.status, answer.body)
		}
	}
	if lines := strings.Count(s.logged(), "could not sign in"); lines == 0 || lines > 10 {
		t.Errorf("%d lines", lines)
	}
	if b.signInWith("token-of-ann"); b.user() != "ann" {
		t.Error("a token does not work")
	}
}

// TestWithoutAnIssuer: nothing offers it, and its addresses are not there.
func TestWithoutAnIssuer(t *testing.T) {
	b := newSite(t).browser()
	if page := b.get(Prefix + "sign-in"); strings.Contains(page.body, "Sign in with") {
		t.Errorf("%s", page.body)
	}
	for _, path := range []string{"sign-in/oidc", "callback?code=x&state=y"} {
		if answer := b.get(Prefix + path); answer.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, answer.status)
		}
	}
	s, _ := newIssuerSite(t)
	plain := httptest.NewServer(s.console)
	t.Cleanup(plain.Close)
	if answer := s.browser().get(plain.URL + Prefix + "sign-in/oidc"); answer.status != http.StatusForbidden {
		t.Errorf("over plain HTTP: %d", answer.status)
	}
}
