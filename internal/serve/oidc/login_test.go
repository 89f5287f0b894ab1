package oidc

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// answering returns the issuers of a file with one, whose discovery document an HTTP answer has. asked are the
// addresses that were asked for.
func answering(status int, document string) (issuers *Issuers, asked *[]string) {
	asked = &[]string{}
	f := answeredBy(func(r *http.Request) (*http.Response, error) {
		*asked = append(*asked, r.URL.String())
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Location": {"https://evil.example/"}},
			Body: io.NopCloser(strings.NewReader(document)),
		}, nil
	})
	return issuersOf(f, apiserver.Issuer{URL: "https://issuer.example/realm", Audiences: []string{"api", "console"}}), asked
}

func issuersOf(f *fetcher, configs ...apiserver.Issuer) *Issuers {
	var all []*issuer
	for _, config := range configs {
		all = append(all, &issuer{config: apiserver.JWTAuthenticator{Issuer: config}, fetcher: f})
	}
	issuers := &Issuers{}
	issuers.current.Store(&all)
	return issuers
}

const goodDocument = `{"issuer": "https://issuer.example/realm", "authorization_endpoint": "https://login.example/a",
	"token_endpoint": "https://issuer.example/t", "scopes_supported": ["openid", "email", "offline_access", "groups"],
	"token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"]}`

// TestWhereUsersSignIn: as the discovery document of the issuer says.
func TestWhereUsersSignIn(t *testing.T) {
	issuers, asked := answering(http.StatusOK, goodDocument)
	login, err := issuers.LoginFor(t.Context(), "console")
	if err != nil {
		t.Fatal(err)
	}
	if login.Authorization != "https://login.example/a" || login.Token != "https://issuer.example/t" || login.BasicAuth ||
		!slices.Equal(login.Scopes, []string{"openid", "email", "groups"}) || login.Issuer != "https://issuer.example/realm" {
		t.Errorf("%+v", login)
	}
	if !slices.Equal(*asked, []string{"https://issuer.example/realm/.well-known/openid-configuration"}) {
		t.Errorf("asked %q", *asked)
	}
	elsewhere, asked := answering(http.StatusOK, goodDocument)
	(*elsewhere.current.Load())[0].config.Issuer.DiscoveryURL = "https://inner.example/document"
	if _, err := elsewhere.LoginFor(t.Context(), "console"); err != nil ||
		!slices.Equal(*asked, []string{"https://inner.example/document"}) {
		t.Errorf("with a discoveryURL: %v, asked %q", err, *asked)
	}
	plain, _ := answering(http.StatusOK, strings.Replace(goodDocument, `,
	"token_endpoint": "https://issuer.example/t", "scopes_supported": ["openid", "email", "offline_access", "groups"],
	"token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"]`,
		`, "token_endpoint": "https://issuer.example/t"`, 1))
	login, err = plain.LoginFor(t.Context(), "console")
	if err != nil || !login.BasicAuth || !slices.Equal(login.Scopes, []string{"openid", "profile", "email"}) {
		t.Errorf("a short document: %+v %v", login, err)
	}
}

// TestDocumentsThatAreNotUsed: of another issuer, with addresses of plain HTTP, or that a redirect leads to.
func TestDocumentsThatAreNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		document string
		want     string
	}{
		"of another issuer": {http.StatusOK, strings.Replace(goodDocument, "realm", "other", 1), "of another issuer"},
		"with a form over plain HTTP": {http.StatusOK, strings.Replace(goodDocument, "https://login", "http://login", 1),
			"no authorization_endpoint with https"},
		"with tokens over plain HTTP": {http.StatusOK, strings.Replace(goodDocument, "https://issuer.example/t",
			"http://issuer.example/t", 1), "no token_endpoint with https"},
		"without addresses": {http.StatusOK, `{"issuer": "https://issuer.example/realm"}`, "with https"},
		"a redirect":        {http.StatusFound, goodDocument, "answered Found"},
		"an error":          {http.StatusServiceUnavailable, "down", "answered Service Unavailable"},
		"a page":            {http.StatusOK, "<html>", "no discovery document"},
		"without an end":    {http.StatusOK, strings.Repeat(" ", maxAnswer+1), "more than"},
	} {
		issuers, asked := answering(c.status, c.document)
		login, err := issuers.LoginFor(t.Context(), "console")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v %v", name, login, err)
		}
		if len(*asked) != 1 {
			t.Errorf("%s: asked %q", name, *asked)
		}
	}
}

// TestIssuersAreAskedSeldomForTheirAddresses: however many users begin to sign in, and however many strangers.
func TestIssuersAreAskedSeldomForTheirAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		every  time.Duration
	}{"that answers": {http.StatusOK, loginAge}, "that fails": {http.StatusServiceUnavailable, pause}} {
		synctest.Test(t, func(t *testing.T) {
			issuers, asked := answering(c.status, goodDocument)
			for range 3 {
				for range 100 {
					if login, err := issuers.LoginFor(t.Context(), "console"); (err == nil) != (c.status == http.StatusOK) {
						t.Fatalf("%+v %v", login, err)
					}
				}
				time.Sleep(c.every)
			}
			if len(*asked) != 3 {
				t.Errorf("an issuer %s is asked %d times", name, len(*asked))
			}
		})
	}
}

// TestTheIssuerOfAClient: the only one that has it among its audiences.
func TestTheIssuerOfAClient(t *testing.T) {
	issuers := issuersOf(nil, apiserver.Issuer{URL: "https://a.example", Audiences: []string{"a", "both"}},
		apiserver.Issuer{URL: "https://b.example", Audiences: []string{"b", "both"}})
	for client, want := range map[string]string{"a": "https://a.example", "b": "https://b.example", "both": "", "none": ""} {
		found, err := issuers.IssuerFor(client)
		if found != want || (want == "") != errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: %q %v", client, found, err)
		}
	}
	other := issuersOf(nil)
	if _, err := other.LoginFor(t.Context(), "a"); !errors.Is(err, ErrNoLogin) {
		t.Errorf("without issuers: %v", err)
	}
}
