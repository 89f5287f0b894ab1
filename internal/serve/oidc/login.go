package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// loginAge is how long the addresses of an issuer are used before its discovery document is read again.
const loginAge = 10 * time.Minute

// Login is where an issuer signs users of a browser in.
type Login struct {
	// Issuer is the claim iss of its tokens.
	Issuer string
	// Authorization and Token are the addresses of its endpoints.
	Authorization, Token string
	// Scopes are what a client asks for: those of claims that the issuer has.
	Scopes []string
	// BasicAuth is true if a client sends its secret in the header Authorization, and false if in the form.
	BasicAuth bool
	// Client sends requests to the issuer. It trusts the CAs of the issuer's entry and follows no redirect, and its
	// requests are bounded in time and in what they read.
	Client *http.Client
}

// ErrNoLogin says that no issuer, or more than one, issues tokens for a client.
var ErrNoLogin = errors.New("is not in issuer.audiences of exactly one issuer")

// IssuerFor returns the URL of the issuer whose tokens are for a client: the one that has it among its audiences.
func (i *Issuers) IssuerFor(clientID string) (string, error) {
	s, err := i.issuerFor(clientID)
	if err != nil {
		return "", err
	}
	return s.config.Issuer.URL, nil
}

func (i *Issuers) issuerFor(clientID string) (found *issuer, err error) {
	for _, s := range *i.current.Load() {
		if !slices.Contains(s.config.Issuer.Audiences, clientID) {
			continue
		}
		if found != nil {
			return nil, ErrNoLogin
		}
		found = s
	}
	if found == nil {
		return nil, ErrNoLogin
	}
	return found, nil
}

// LoginFor returns where the users of a client sign in. The issuer is asked for its discovery document at most once in
// some seconds, however many ask here.
func (i *Issuers) LoginFor(ctx context.Context, clientID string) (*Login, error) {
	s, err := i.issuerFor(clientID)
	if err != nil {
		return nil, err
	}
	return s.login.get(ctx, s)
}

// logins keeps the Login of an issuer.
type logins struct {
	mu      sync.Mutex
	last    *Login
	failure error
	at      time.Time // of the last request
}

func (l *logins) get(ctx context.Context, s *issuer) (*Login, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch age := time.Since(l.at); {
	case l.last != nil && age < loginAge:
		return l.last, nil
	case l.failure != nil && age < pause:
		return nil, l.failure
	}
	// One who goes away must not make it a failure for the others.
	l.last, l.failure = discover(context.WithoutCancel(ctx), s)
	l.at = time.Now()
	return l.last, l.failure
}

// discover reads the discovery document of an issuer.
func discover(ctx context.Context, s *issuer) (*Login, error) {
	client := s.fetcher.client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	at := strings.TrimSuffix(s.config.Issuer.URL, "/") + "/.well-known/openid-configuration"
	if other := s.config.Issuer.DiscoveryURL; other != "" {
		at = other
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", at, answer.Status)
	}
	var document struct {
		Issuer        string   `json:"issuer"`
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Scopes        []string `json:"scopes_supported"`
		Methods       []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&document); err != nil {
		return nil, fmt.Errorf("%s is no discovery document: %w", at, err)
	}
	switch {
	case document.Issuer != s.config.Issuer.URL:
		return nil, fmt.Errorf("%s is the discovery document of another issuer, %q", at, clip(document.Issuer))
	case !isHTTPS(document.Authorization):
		return nil, fmt.Errorf("%s has no authorization_endpoint with https: %q", at, clip(document.Authorization))
	case !isHTTPS(document.Token):
		return nil, fmt.Errorf("%s has no token_endpoint with https: %q", at, clip(document.Token))
	}
	return &Login{
		Issuer: document.Issuer, Authorization: document.Authorization, Token: document.Token,
		Scopes: scopesOf(document.Scopes), Client: client,
		// Without the list it is client_secret_basic (OpenID Connect Discovery 1.0, section 3).
		BasicAuth: len(document.Methods) == 0 || slices.Contains(document.Methods, "client_secret_basic"),
	}, nil
}

func isHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != ""
}

// scopesOf returns the scopes to ask for. Some issuers refuse a scope that they do not have, and some give the groups
// of a user for the scope groups alone.
func scopesOf(supported []string) []string {
	scopes := []string{"openid"}
	for _, scope := range []string{"profile", "email", "groups"} {
		if slices.Contains(supported, scope) || len(supported) == 0 && scope != "groups" {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
