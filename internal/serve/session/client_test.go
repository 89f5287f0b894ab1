package session

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"glowplug/internal/serve/oidc"
	"glowplug/internal/serve/oidc/oidctest"
	"glowplug/internal/testkit"
)

// backWith is the request of a browser that comes back from an issuer with a cookie.
func backWith(cookie *http.Cookie, query string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://boot.lan:8443/console/callback?"+query, nil)
	r.AddCookie(cookie)
	return r
}

// TestAStateOfEarlier: the way to the issuer and back may take 10 minutes and is taken once, and its cookie is of this
// server. The issuer is not asked otherwise: this client has none.
func TestAStateOfEarlier(t *testing.T) {
	s, name := sessionsOf(t, testKey(1)), wayName(requestTo("boot.lan:8443"))
	made := func(by *Sessions, name, state string, until time.Time) *http.Cookie {
		return &http.Cookie{Name: name, Value: by.sealed(name, way{State: state, Nonce: "n", Verifier: "v", Until: until})}
	}
	later := time.Now().Add(wayTime)
	good := made(s, name, "good", later)
	for _, c := range []struct {
		name   string
		cookie *http.Cookie
		state  string
		status int // 403: the answer of the issuer is read, which is a refusal
	}{
		{"its own", good, "good", http.StatusForbidden},
		{"a second time", good, "good", http.StatusBadRequest},
		{"over", made(s, name, "a", time.Now()), "a", http.StatusBadRequest},
		{"of another server", made(sessionsOf(t, testKey(2)), name, "b", later), "b", http.StatusBadRequest},
		{"of another port", made(s, strings.Replace(name, "8443", "9443", 1), "c", later), "c", http.StatusBadRequest},
		{"of another browser", made(s, name, "d", later), "good", http.StatusBadRequest},
	} {
		_, _, refused := (&Client{}).Finish(s, backWith(c.cookie, "error=x&state="+c.state), nil)
		if refused == nil || refused.Status != c.status {
			t.Errorf("%s: %v", c.name, refused)
		}
	}
}

// TestFewCodesAreExchangedAtOnce: strangers can begin to sign in, and the server asks the issuer for them.
func TestFewCodesAreExchangedAtOnce(t *testing.T) {
	issuer, log := oidctest.New(t), slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, []byte(oidctest.File(issuer.Entry(""))), 0o600); err != nil {
		t.Fatal(err)
	}
	issuers, err := oidc.Open(t.Context(), file, log, log)
	if err != nil {
		t.Fatal(err)
	}
	s := sessionsOf(t, testKey(1))
	c := &Client{ID: oidctest.Audience, URL: "https://boot.lan:8443/console/", Issuers: issuers}
	finish := func() *Refusal {
		at, cookie, refused := c.Begin(s, requestTo("boot.lan:8443"), "")
		if refused != nil {
			t.Fatal(refused)
		}
		to, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		_, _, refused = c.Finish(s, backWith(cookie, "code=made-up&state="+to.Query().Get("state")), nil)
		return refused
	}
	testkit.Until(t, "the issuer is used", func() bool { return c.Name() != "" })
	c.exchanges.Add(maxExchanges)
	if refused := finish(); refused.Status != http.StatusBadGateway || issuer.Exchanges() != 0 {
		t.Errorf("%v, %d exchanges", refused, issuer.Exchanges())
	}
	c.exchanges.Add(-1)
	for n := range 2 { // each makes room for the next
		if refused := finish(); refused.Status != http.StatusBadGateway || issuer.Exchanges() != n+1 {
			t.Errorf("%v, %d exchanges", refused, issuer.Exchanges())
		}
	}
}

// TestIDTokens: of the issuer that was asked, for this client and this sign-in alone.
func TestIDTokens(t *testing.T) {
	good := map[string]any{"iss": "https://a.example", "aud": "console", "nonce": "n", "exp": 2e9}
	for name, c := range map[string]struct {
		change map[string]any
		says   string
	}{
		"its own":                    {nil, ""},
		"for several clients":        {map[string]any{"aud": []string{"other", "console"}}, ""},
		"asked for by this client":   {map[string]any{"azp": "console"}, ""},
		"of another issuer":          {map[string]any{"iss": "https://b.example"}, "another issuer"},
		"for another client":         {map[string]any{"aud": "other"}, "another client"},
		"for other clients":          {map[string]any{"aud": []string{"other", "third"}}, "another client"},
		"for nobody":                 {map[string]any{"aud": nil}, "another client"},
		"for an object":              {map[string]any{"aud": map[string]any{"console": "console"}}, "another client"},
		"asked for by another":       {map[string]any{"azp": "other"}, "another client"},
		"of another sign-in":         {map[string]any{"nonce": "m"}, "another sign-in"},
		"without a nonce":            {map[string]any{"nonce": nil}, "another sign-in"},
		"without an end":             {map[string]any{"exp": nil}, "no end"},
		"with claims of other types": {map[string]any{"nonce": 1}, "no claims that can be read"},
	} {
		claims := maps.Clone(good)
		maps.Copy(claims, c.change)
		payload, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		end, err := endOf("e30."+base64.RawURLEncoding.EncodeToString(payload)+".x", "https://a.example", "console", "n")
		switch {
		case c.says == "" && (err != nil || !end.Equal(time.Unix(2e9, 0))):
			t.Errorf("%s: %v %v", name, end, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, token := range []string{"", "opaque", "e30.!.x", "e30..x"} {
		if _, err := endOf(token, "https://a.example", "console", "n"); err == nil {
			t.Errorf("%q is an ID token", token)
		}
	}
}

// TestReasonsHaveNoToken: the log has none that an issuer answers with, nor what stands in an address.
func TestReasonsHaveNoToken(t *testing.T) {
	for want, err := range map[string]error{
		`the issuer answered 400 Bad Request, "invalid_grant"`: &oauth2.RetrieveError{
			Response: &http.Response{Status: "400 Bad Request"}, ErrorCode: "invalid_grant", ErrorDescription: "eyJ"},
		`the issuer answered 200 OK, ""`: &oauth2.RetrieveError{
			Response: &http.Response{Status: "200 OK"}, Body: []byte(`{"access_token":"eyJ`)},
		"the issuer: its answer cannot be read": &url.Error{Op: "Post", URL: "https://a.example/?code=eyJ", Err: errors.New("eyJ")},
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
