package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"glowplug/internal/egress"
	"glowplug/internal/serve/oidc"
)

const (
	// wayTime is how long a user may take at the issuer.
	wayTime = 10 * time.Minute
	// maxExchanges bounds the codes that the issuer is asked about at the same time.
	maxExchanges = 16
	// maxReason bounds what an issuer says of a refusal, in letters.
	maxReason = 200
)

// Client signs users in with an OpenID Connect issuer, of which it is a client.
type Client struct {
	ID string
	// Secret returns the secret of the client; nil: it has none.
	Secret func() (string, error)
	// URL is the address of the console, below which the issuer leads back to "callback". It ends with a slash.
	URL string
	// Issuers are those whose tokens the API takes.
	Issuers *oidc.Issuers

	exchanges atomic.Int64 // under way
}

// Refusal is why a browser is not signed in.
type Refusal struct {
	// Status is that of the answer, which tells the user what Says does.
	Status int
	Says   string
	// Reason is for the log; "": there is none. It may quote what a stranger has sent, and never has a secret.
	Reason string
}

// way is what the cookie of a browser has that is on the way to the issuer and back.
type way struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Former   string    `json:"former,omitempty"` // the session that the browser had
	Until    time.Time `json:"until"`
}

// wayName is that of the cookie of a way. A cookie of one name cannot take the place of the other.
func wayName(r *http.Request) string { return cookieName(r) + "-sign-in" }

// Name is how a page names the issuer; "": nobody can sign in with one.
func (c *Client) Name() string {
	if c == nil {
		return ""
	}
	at, _ := c.Issuers.IssuerFor(c.ID)
	return strings.TrimSuffix(strings.TrimPrefix(at, "https://"), "/")
}

// Begin returns the address at the issuer for a browser to go to, and the cookie that it takes along. next is the page
// to go on to when it has come back.
func (c *Client) Begin(s *Sessions, r *http.Request, next string) (at string, cookie *http.Cookie, refused *Refusal) {
	login, err := c.Issuers.LoginFor(r.Context(), c.ID)
	if err != nil {
		return "", nil, &Refusal{http.StatusServiceUnavailable, "The issuer cannot be asked now.", reasonOf(err)}
	}
	begun := way{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next,
		Until: time.Now().Add(wayTime),
	}
	if former := s.Of(r, time.Now()); former != nil {
		begun.Former = former.ID
	}
	at = c.oauth(login).AuthCodeURL(begun.State, oauth2.S256ChallengeOption(begun.Verifier),
		oauth2.SetAuthURLParam("nonce", begun.Nonce))
	// Lax: the issuer leads back from its own site.
	return at, ownCookie(wayName(r), s.sealed(wayName(r), begun), wayTime, http.SameSiteLaxMode), nil
}

// Back is the cookie that takes the place of the one of Begin once a browser is back.
func Back(r *http.Request) *http.Cookie { return ownCookie(wayName(r), "", 0, http.SameSiteLaxMode) }

// Finish takes a browser that the issuer leads back, and returns the cookie of its session and the page to go on to.
// isKnown reports whether the API knows the user of a request with the token of the issuer.
func (c *Client) Finish(s *Sessions, r *http.Request, isKnown func(asked *http.Request) bool) (
	cookie *http.Cookie, next string, refused *Refusal) {
	begun := s.begun(r)
	if begun == nil {
		return nil, "", &Refusal{Status: http.StatusBadRequest, Says: "This browser has not begun to sign in, has done so " +
			"more than 10 minutes ago, or has signed in already with this answer of the issuer. Begin again."}
	}
	query := r.URL.Query()
	if reason := cmp.Or(query.Get("error_description"), query.Get("error")); query.Has("error") {
		says := fmt.Sprintf("The issuer has refused: %.*s", maxReason, reason)
		return nil, "", &Refusal{Status: http.StatusForbidden, Says: says}
	}
	token, issuer, err := c.exchange(r.Context(), query, begun.Verifier)
	if err != nil {
		says := "The issuer has given no ID token for its answer. Begin again."
		return nil, "", &Refusal{http.StatusBadGateway, says, reasonOf(err)}
	}
	if !isKnown(WithToken(r, token)) {
		return nil, "", &Refusal{http.StatusUnauthorized, "The server does not accept the token of the issuer: " +
			"--authentication-config has the rules, and the log of the server the reason.",
			"the API does not know the user of the token"}
	}
	end, err := endOf(token, issuer, c.ID, begun.Nonce)
	if err != nil {
		says := "The token of the issuer is not for this sign-in. Begin again."
		return nil, "", &Refusal{http.StatusUnauthorized, says, err.Error()}
	}
	if cookie, err = s.Begin(r, token, end, time.Now()); err != nil {
		return nil, "", &Refusal{Status: http.StatusUnprocessableEntity, Says: "The token of the issuer cannot be used " +
			"here: " + err.Error() + ", or have the issuer put fewer claims, such as groups, into it."}
	}
	if begun.Former != "" { // the way back from the issuer does not bring its cookie
		s.end(begun.Former)
	}
	return cookie, begun.Next, nil
}

// begun returns the way that a browser comes back from, once; nil: there is none. Without it somebody could sign this
// browser in as himself, with an answer of the issuer for his own.
func (s *Sessions) begun(r *http.Request) *way {
	var found way
	given := []byte(r.URL.Query().Get("state"))
	if !s.open(r, wayName(r), &found) || found.State == "" || subtle.ConstantTimeCompare(given, []byte(found.State)) != 1 ||
		!time.Now().Before(found.Until) || !s.once(found.State) {
		return nil
	}
	return &found
}

// exchange asks the issuer for the ID token of its answer to a browser, and returns whose it is to be, too.
func (c *Client) exchange(ctx context.Context, answer url.Values, verifier string) (token, issuer string, err error) {
	defer c.exchanges.Add(-1)
	if c.exchanges.Add(1) > maxExchanges {
		return "", "", errors.New("too many sign in at the same time")
	}
	login, err := c.Issuers.LoginFor(ctx, c.ID)
	if err != nil {
		return "", "", err
	}
	if from := answer.Get("iss"); from != "" && from != login.Issuer { // RFC 9207
		return "", "", errors.New("another issuer has sent the answer")
	}
	client := c.oauth(login)
	if c.Secret != nil {
		if client.ClientSecret, err = c.Secret(); err != nil {
			return "", "", err
		}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, login.Client)
	given, err := client.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return "", "", err
	}
	if token, _ = given.Extra("id_token").(string); token == "" {
		return "", "", errors.New("the answer of the issuer has no id_token")
	}
	return token, login.Issuer, nil
}

// oauth is the client for an issuer, without its secret.
func (c *Client) oauth(login *oidc.Login) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if login.BasicAuth && c.Secret != nil {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: c.ID, RedirectURL: c.URL + "callback", Scopes: login.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: login.Authorization, TokenURL: login.Token, AuthStyle: style},
	}
}

// reasonOf is the text of an error without what an issuer answers with it, which may have a token.
func reasonOf(err error) string {
	var refused *oauth2.RetrieveError
	var asked *url.Error
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("the issuer answered %s, %.*q", refused.Response.Status, maxReason, refused.ErrorCode)
	case errors.As(err, &asked):
		return "the issuer: " + egress.Plain(err)
	}
	return err.Error()
}
