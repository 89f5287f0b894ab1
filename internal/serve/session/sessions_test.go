package session

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// testKey returns a key of which all bytes are the same.
func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func sessionsOf(t *testing.T, key []byte) *Sessions {
	t.Helper()
	s, err := New(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requestTo returns a request to a host with cookies.
func requestTo(host string, cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://"+host+"/console/", nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

// TestCookieOfASession: a browser sends it over HTTPS to this host and port alone, and to no page of another site; no
// script and no reader of it sees the token.
func TestCookieOfASession(t *testing.T) {
	s, now := sessionsOf(t, testKey(1)), time.Now()
	cookie, err := s.Begin(requestTo("boot.lan:8443"), "the-token-of-ann", time.Time{}, now)
	if err != nil {
		t.Fatal(err)
	}
	header := cookie.String()
	if header == "" || cookie.Name != "__Host-glowplug-8443" {
		t.Errorf("%q", header)
	}
	for _, want := range []string{"Path=/", "Max-Age=43200", "HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(header, "; "+want) {
			t.Errorf("without %s: %s", want, header)
		}
	}
	if strings.Contains(header, "Domain") || strings.Contains(header, "the-token-of-ann") {
		t.Error(header)
	}
	other, err := s.Begin(requestTo("boot.lan:8443"), "the-token-of-ann", time.Time{}, now)
	if err != nil || other.Value == cookie.Value {
		t.Errorf("%v: two sessions have the same cookie", err)
	}
}

// TestWhichCookiesAreASession: no other than those that the server has made for this port, until they end.
func TestWhichCookiesAreASession(t *testing.T) {
	s, now := sessionsOf(t, testKey(1)), time.Now()
	made := func(host string, tokenEnd time.Time) *http.Cookie {
		t.Helper()
		cookie, err := s.Begin(requestTo(host), "token", tokenEnd, now)
		if err != nil {
			t.Fatal(err)
		}
		return cookie
	}
	good := made("boot.lan:8443", time.Time{})
	with := func(change func(*http.Cookie)) *http.Cookie {
		c := *good
		change(&c)
		return &c
	}
	state := s.sealed(good.Name+"-sign-in", Session{ID: "x", Until: now.Add(time.Hour), Token: "token"})
	for name, c := range map[string]struct {
		cookie *http.Cookie
		host   string
		after  time.Duration
		valid  bool
	}{
		"its own":                   {good, "boot.lan:8443", 0, true},
		"at the end":                {good, "boot.lan:8443", sessionTime - time.Second, true},
		"after 12 hours":            {good, "boot.lan:8443", sessionTime, false},
		"of a token that has ended": {made("boot.lan:8443", now.Add(time.Minute)), "boot.lan:8443", time.Minute, false},
		"of a token that lasts":     {made("boot.lan:8443", now.Add(time.Minute)), "boot.lan:8443", 59 * time.Second, true},
		"of a token of a day":       {made("boot.lan:8443", now.Add(24*time.Hour)), "boot.lan:8443", sessionTime, false},
		"at another port":           {good, "boot.lan:9443", 0, false},
		"renamed for another port": {with(func(c *http.Cookie) { c.Name = "__Host-glowplug-9443" }), "boot.lan:9443", 0,
			false},
		"changed": {with(func(c *http.Cookie) {
			sealed, _ := base64.RawURLEncoding.DecodeString(c.Value)
			sealed[len(sealed)/2] ^= 1
			c.Value = base64.RawURLEncoding.EncodeToString(sealed)
		}), "boot.lan:8443", 0, false},
		"of nobody":            {with(func(c *http.Cookie) { c.Value = "e30" }), "boot.lan:8443", 0, false},
		"the state of a login": {with(func(c *http.Cookie) { c.Value = state }), "boot.lan:8443", 0, false},
	} {
		found := s.Of(requestTo(c.host, c.cookie), now.Add(c.after))
		if (found != nil) != c.valid || found != nil && found.Token != "token" {
			t.Errorf("%s: %v", name, found)
		}
	}
	if sessionsOf(t, testKey(2)).Of(requestTo("boot.lan:8443", good), now) != nil {
		t.Error("a cookie that was sealed with another key is a session")
	}
	if sessionsOf(t, testKey(1)).Of(requestTo("boot.lan:8443", good), now) == nil {
		t.Error("a session does not survive a restart of the server, or ends at another server")
	}
	removed := s.End(requestTo("boot.lan:8443", good), now)
	if removed.Name != good.Name || removed.MaxAge >= 0 || s.Of(requestTo("boot.lan:8443", good), now) != nil {
		t.Error("a session that was ended goes on")
	}
}

// TestLongTokens: a cookie holds tokens of 3,500 letters, such as those of issuers with many groups; a longer one is
// refused with a sentence, since browsers would drop the cookie.
func TestLongTokens(t *testing.T) {
	s := sessionsOf(t, testKey(1))
	for letters, want := range map[int]bool{3500: true, 6000: false} {
		random := make([]byte, letters*3/4)
		if _, err := rand.Read(random); err != nil {
			t.Fatal(err)
		}
		token := base64.RawURLEncoding.EncodeToString(random)
		r := requestTo("boot.lan:8443")
		cookie, err := s.Begin(r, token, time.Time{}, time.Now())
		switch {
		case want && (err != nil || s.Of(requestTo(r.Host, cookie), time.Now()).Token != token):
			t.Errorf("%d letters: %v", letters, err)
		case !want && (err == nil || !strings.Contains(err.Error(), "more than a cookie can hold")):
			t.Errorf("%d letters: %v", letters, err)
		}
	}
}

// TestEndedSessionsAreBounded: whoever signs in and out for ever takes no more memory, nor does a stranger who begins
// to sign in with an issuer for ever.
func TestEndedSessionsAreBounded(t *testing.T) {
	s := sessionsOf(t, testKey(1))
	for range maxSignedOut + 10 {
		id := rand.Text()
		s.end(id)
		if !s.once(id) || s.once(id) {
			t.Fatal("once is not once")
		}
	}
	if s.signedOut.Len() != maxSignedOut || s.used.Len() != maxUsed {
		t.Errorf("%d sessions and %d states are remembered", s.signedOut.Len(), s.used.Len())
	}
}

// TestWhatLastsIsFollowed: until it is forgotten it ends with its session, and with no other.
func TestWhatLastsIsFollowed(t *testing.T) {
	s, now := sessionsOf(t, testKey(1)), time.Now()
	ended := map[string]int{}
	requests := map[string]*http.Request{}
	forget := map[string]func(){}
	for _, name := range []string{"ended", "another", "forgotten"} {
		cookie, err := s.Begin(requestTo("boot.lan:8443"), "token", time.Time{}, now)
		if err != nil {
			t.Fatal(err)
		}
		requests[name] = requestTo("boot.lan:8443", cookie)
		forget[name] = s.Follow(requests[name], func() { ended[name]++ })
	}
	forget["forgotten"]()
	s.End(requests["forgotten"], now)
	s.End(requests["ended"], now)
	s.Follow(requestTo("boot.lan:8443"), func() { t.Error("a request without a session ends") })
	if len(ended) != 1 || ended["ended"] != 1 {
		t.Errorf("ended: %v", ended)
	}
	forget["ended"]()
	forget["another"]()
	s.followed.Range(func(any, any) bool {
		t.Error("what was forgotten is still followed")
		return true
	})
}

// TestANewSessionEndsTheFormerOne of the browser.
func TestANewSessionEndsTheFormerOne(t *testing.T) {
	s, now := sessionsOf(t, testKey(1)), time.Now()
	former, err := s.Begin(requestTo("boot.lan:8443"), "token", time.Time{}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Begin(requestTo("boot.lan:8443", former), "another", time.Time{}, now); err != nil {
		t.Fatal(err)
	}
	if s.Of(requestTo("boot.lan:8443", former), now) != nil {
		t.Error("the former session goes on")
	}
}

// TestACertificateDoesNotReplaceAToken: the browser of a user with a token may have a client certificate of another
// user. When the token is not valid any more, the session is not that user's.
func TestACertificateDoesNotReplaceAToken(t *testing.T) {
	r := requestTo("boot.lan:8443")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	asked := WithToken(r, "token")
	if len(asked.TLS.PeerCertificates) > 0 || asked.Header.Get("Authorization") != "Bearer token" {
		t.Errorf("%v", asked)
	}
	if len(r.TLS.PeerCertificates) != 1 || r.Header.Get("Authorization") != "" {
		t.Errorf("the request itself has changed: %v", r)
	}
}
