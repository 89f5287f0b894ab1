package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// signInWith signs a browser in with a token.
func (b *browser) signInWith(token string) *received {
	b.t.Helper()
	return b.post(Prefix+"sign-in", url.Values{"token": {token}})
}

// TestSignInWithAToken: over HTTPS, a token that the API knows begins a session, which leads on to a page of the
// console alone.
func TestSignInWithAToken(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		token, next, to string
		status          int
	}{
		"a token":            {"token-of-ann", "", Prefix, http.StatusSeeOther},
		"with blanks":        {" token-of-ann\n", "", Prefix, http.StatusSeeOther},
		"on to a page":       {"token-of-ann", Prefix + "hosts/a/b?x=y", Prefix + "hosts/a/b?x=y", http.StatusSeeOther},
		"on to another site": {"token-of-ann", "https://evil.example/console/", Prefix, http.StatusSeeOther},
		"without a scheme":   {"token-of-ann", "//evil.example/console/", Prefix, http.StatusSeeOther},
		"with a backslash":   {"token-of-ann", `/\evil.example/console/`, Prefix, http.StatusSeeOther},
		"a script":           {"token-of-ann", "javascript:alert(1)", Prefix, http.StatusSeeOther},
		"on to the API":      {"token-of-ann", "/api/v1", Prefix, http.StatusSeeOther},
		"on to signing in":   {"token-of-ann", Prefix + "sign-in?next=x", Prefix, http.StatusSeeOther},
		"on to an issuer":    {"token-of-ann", Prefix + "callback?code=x", Prefix, http.StatusSeeOther},
		"an unknown token":   {"token-of-eve", "", "", http.StatusUnauthorized},
		"no token":           {"", "", "", http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.browser()
			answer := b.post(Prefix+"sign-in", url.Values{"token": {c.token}, "next": {c.next}})
			isIn := c.status == http.StatusSeeOther
			if answer.status != c.status || answer.header.Get("Location") != c.to || answer.hasSession() != isIn {
				t.Errorf("%d %v", answer.status, answer.header)
			}
			if (b.user() == "ann") != isIn || strings.Contains(answer.body, "token-of-") {
				t.Errorf("the user is %q\n%s", b.user(), answer.body)
			}
		})
	}
	if !strings.Contains(s.logged(), `by="a token" client=127.0.0.1:`) {
		t.Errorf("a refused token leaves no line:\n%s", s.logged())
	}
	if strings.Contains(s.logged(), "token-of-") {
		t.Errorf("a token is logged:\n%s", s.logged())
	}
}

// TestNobodySignsInOverPlainHTTP: neither with a token nor with a link nor with an issuer; the page names the address
// that is for it.
func TestNobodySignsInOverPlainHTTP(t *testing.T) {
	s := newSite(t)
	plain := httptest.NewServer(s.console)
	t.Cleanup(plain.Close)
	b := s.browser()
	b.at = plain.URL
	answer := b.signInWith("token-of-ann")
	if answer.status != http.StatusForbidden || len(answer.cookies) > 0 ||
		!strings.Contains(answer.body, `href="https://boot.lan:8443/console/"`) || strings.Contains(answer.body, "<form") {
		t.Errorf("%d %v\n%s", answer.status, answer.cookies, answer.body)
	}
	if answer := b.post(Prefix+"link", nil, "Authorization", "Bearer token-of-ann"); answer.status != http.StatusForbidden {
		t.Errorf("a link: %d %s", answer.status, answer.body)
	}
}

// linkOf asks for a one-time link, and returns its code.
func (s *site) linkOf(token string) string {
	s.t.Helper()
	answer := s.browser().post(Prefix+"link", nil, "Authorization", "Bearer "+token)
	var made struct {
		Path    string
		Seconds int
	}
	if err := json.Unmarshal([]byte(answer.body), &made); err != nil || made.Seconds != 60 {
		s.t.Fatalf("%v: %d %s", err, answer.status, answer.body)
	}
	code, ok := strings.CutPrefix(made.Path, Prefix+"sign-in#")
	if !ok || answer.header.Get("Cache-Control") != "no-store" || strings.Contains(answer.body, token) {
		s.t.Fatalf("%v %s", answer.header, answer.body)
	}
	return code
}

// TestALinkSignsInOnce: as the user whose token made it, and whoever comes later with it is told.
func TestALinkSignsInOnce(t *testing.T) {
	s := newSite(t)
	code := s.linkOf("token-of-ann")
	first, second := s.browser(), s.browser()
	use := func(b *browser) *received { return b.post(Prefix+"sign-in", url.Values{"code": {code}}) }
	if answer := use(first); answer.status != http.StatusSeeOther || first.user() != "ann" {
		t.Errorf("%d: %q", answer.status, first.user())
	}
	if answer := use(second); answer.status != http.StatusUnauthorized || answer.hasSession() ||
		!strings.Contains(answer.body, "works once") {
		t.Errorf("a second time: %d %s", answer.status, answer.body)
	}
	revoked := s.linkOf("token-of-bob")
	s.revoke("token-of-bob")
	answer := second.post(Prefix+"sign-in", url.Values{"code": {revoked}})
	if answer.status != http.StatusUnauthorized || answer.hasSession() {
		t.Errorf("the link of a revoked token: %d", answer.status)
	}
}

// TestWhoMakesALink: a token does, and neither a session nor a stranger.
func TestWhoMakesALink(t *testing.T) {
	s := newSite(t)
	ann := s.browser()
	ann.signInWith("token-of-ann")
	for name, answer := range map[string]*received{
		"a session":        ann.post(Prefix+"link", nil),
		"nobody":           s.browser().post(Prefix+"link", nil),
		"an unknown token": s.browser().post(Prefix+"link", nil, "Authorization", "Bearer token-of-eve"),
	} {
		if answer.status != http.StatusUnauthorized || strings.Contains(answer.body, "sign-in#") {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
}

// TestALinkOfAnotherIsNotUsedUnasked: an attacker may make a link for himself, for others to work as him. The page that
// a link of another site leads to asks first.
func TestALinkOfAnotherIsNotUsedUnasked(t *testing.T) {
	s := newSite(t)
	for from, foreign := range map[string]bool{"": false, "none": false, "same-origin": false, "cross-site": true,
		"same-site": true} {
		answer := s.browser().get(Prefix+"sign-in", "Sec-Fetch-Site", from)
		if strings.Contains(answer.body, ` data-user="" data-foreign>`) != foreign {
			t.Errorf("%q: %s", from, answer.body)
		}
	}
}

// TestALinkDoesNotReplaceASessionUnasked: the page does not lead on to another one, which would take the code along in
// its address; it names the user of the session, and its script asks.
func TestALinkDoesNotReplaceASessionUnasked(t *testing.T) {
	b := newSite(t).browser()
	b.signInWith("token-of-ann")
	answer := b.get(Prefix + "sign-in?next=" + Prefix + "unknown")
	if answer.status != http.StatusOK || !strings.Contains(answer.body, "You are signed in as <b>ann</b>") ||
		!strings.Contains(answer.body, ` data-user="ann">`) || !strings.Contains(answer.body, `href="/console/unknown"`) || !strings.Contains(answer.body, `id="ask" hidden`) {
		t.Errorf("%d %s", answer.status, answer.body)
	}
}

// TestSigningInBeginsANewSession: a session that an attacker has put into a browser is not the one of the user who
// signs in, and ends.
func TestSigningInBeginsANewSession(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	planted := b.signInWith("token-of-bob").cookies[0]
	fresh := b.signInWith("token-of-ann").cookies[0]
	if s.console.sessions.Of(s.requestWith(planted), time.Now()) != nil {
		t.Error("the former session goes on")
	}
	found := s.console.sessions.Of(s.requestWith(fresh), time.Now())
	if found == nil || found.Token != "token-of-ann" || b.user() != "ann" {
		t.Errorf("%v", found)
	}
}

// TestSignOut ends the session also for whoever has a copy of its cookie, and what lasts of it.
func TestSignOut(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	cookie := b.signInWith("token-of-ann").cookies[0]
	r := s.requestWith(cookie)
	ended := make(chan struct{})
	forget := s.console.sessions.Follow(r, func() { close(ended) })
	defer forget()
	answer := b.post(Prefix+"sign-out", nil)
	removed := answer.cookies[0]
	if answer.header.Get("Location") != Prefix+"sign-in" || removed.Name != cookie.Name || removed.MaxAge >= 0 {
		t.Errorf("%d %v", answer.status, answer.header)
	}
	<-ended
	if b.user() != "" || s.console.sessions.Of(r, time.Now()) != nil {
		t.Error("the session goes on")
	}
}

// TestARevokedTokenEndsItsSession at the next request, whose answer says so.
func TestARevokedTokenEndsItsSession(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	b.signInWith("token-of-ann")
	s.revoke("token-of-ann")
	if b.user() != "" {
		t.Error("the session goes on")
	}
	asked := b.get(Prefix+"hosts/a/b?x=y", "Sec-Fetch-Dest", "document")
	if asked.status != http.StatusSeeOther ||
		asked.header.Get("Location") != Prefix+"sign-in?next="+url.QueryEscape(Prefix+"hosts/a/b?x=y") {
		t.Errorf("%d %v", asked.status, asked.header)
	}
	for name, answer := range map[string]*received{
		"a script": b.get(Prefix+"events/stream", "Sec-Fetch-Dest", "empty"),
		"a write":  b.post(Prefix+"unknown/x/delete", url.Values{}),
	} {
		if answer.status != http.StatusUnauthorized || !strings.Contains(answer.body, "sign in again") {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
}

// TestWhatLastsEndsWithItsSession, also if the session ends just before.
func TestWhatLastsEndsWithItsSession(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		name string
		end  func(r *http.Request)
	}{
		{"signed out", func(r *http.Request) { s.console.sessions.End(r, time.Now()) }},
		{"revoked", func(*http.Request) { s.revoke("token-of-ann") }}, // the last: nobody signs in with it any more
	} {
		cookie := s.browser().signInWith("token-of-ann").cookies[0]
		r := s.requestWith(cookie)
		who, asked, until := s.console.authenticate(r)
		if who == nil || until.IsZero() {
			t.Fatal("the session is not there")
		}
		test.end(r)
		ended := false
		forget := (&page{server: s.console, request: r, asked: asked, until: until}).whileSignedIn(func() { ended = true })
		forget()
		if !ended {
			t.Errorf("%s: what begins a moment later goes on", test.name)
		}
	}
}

// TestNoPageOfAnotherSiteShowsTheConsole: each answer forbids frames, scripts from elsewhere and forms to elsewhere.
func TestNoPageOfAnotherSiteShowsTheConsole(t *testing.T) {
	b := newSite(t).browser()
	for _, path := range []string{"", "sign-in", "whoami", "callback", "static/console.css", "static/none", "none"} {
		header := b.get(Prefix + path).header
		policy := header.Get("Content-Security-Policy")
		for _, part := range []string{"frame-ancestors 'none'", "default-src 'none'", "form-action 'self'", "base-uri 'none'",
			"script-src 'self';", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy has no %s: %s", path, part, policy)
			}
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cross-Origin-Opener-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, header)
		}
	}
}
