package console

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
	"time"

	"golang.org/x/oauth2"

	"glowplug/internal/egress"
	"glowplug/internal/serve/oidc"
)

const (
	// stateTime is how long a user may take at the issuer.
	stateTime = 10 * time.Minute
	// maxExchanges bounds the codes that the issuer is asked about at the same time.
	maxExchanges = 16
	// maxReason bounds what an issuer says of a refusal, in letters.
	maxReason = 200
)

// OIDC is the client that the console is for an OpenID Connect issuer.
type OIDC struct {
	ClientID string
	// Secret returns the secret of the client; nil: it has none.
	Secret func() (string, error)
	// URL is the address of the console, to which the issuer leads back. It ends with Prefix.
	URL string
	// Issuers are those whose tokens the API takes.
	Issuers *oidc.Issuers
}

// issuer signs users in with an OpenID Connect issuer. Nil signs nobody in.
type issuer struct {
	OIDC
	console   *Server
	exchanges chan struct{} // holds one for each question about a code
}

func newIssuer(console *Server, client *OIDC) *issuer {
	if client == nil {
		return nil
	}
	return &issuer{*client, console, make(chan struct{}, maxExchanges)}
}

// signInState is what the cookie of a browser has that is on the way to the issuer and back.
type signInState struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Until    time.Time `json:"until"`
}

// name is how the page for signing in names the issuer; "": nobody can sign in with one.
func (i *issuer) name() string {
	if i == nil {
		return ""
	}
	at, err := i.Issuers.IssuerFor(i.ClientID)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(at, "https://"), "/")
}

// link is where signing in with the issuer begins: at the address to which the issuer leads back, since the
// cookie of the state is of that host.
func (i *issuer) link(next string) string {
	return i.URL + "sign-in/oidc?next=" + url.QueryEscape(next)
}

// begin leads a browser to the issuer.
func (i *issuer) begin(w http.ResponseWriter, r *http.Request) {
	if !i.serves(w, r) {
		return
	}
	login, err := i.Issuers.LoginFor(r.Context(), i.ClientID)
	if err != nil {
		i.fail(w, r, http.StatusServiceUnavailable, "The issuer cannot be asked now.", err)
		return
	}
	begun := signInState{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Next: nextOf(r.URL.Query().Get("next")), Until: time.Now().Add(stateTime),
	}
	value, err := i.console.sessions.sealed(stateName(r), &begun)
	if err != nil {
		i.fail(w, r, http.StatusInternalServerError, "The way to the issuer cannot be made.", err)
		return
	}
	// Lax: the issuer leads back from its own site.
	http.SetCookie(w, ownCookie(stateName(r), value, stateTime, http.SameSiteLaxMode))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, i.oauth(login).AuthCodeURL(begun.State, oauth2.S256ChallengeOption(begun.Verifier),
		oauth2.SetAuthURLParam("nonce", begun.Nonce)), http.StatusSeeOther)
}

// stateName is that of the cookie of a browser on its way. A cookie of one name cannot take the place of the other.
func stateName(r *http.Request) string { return cookieName(r) + "-sign-in" }

// serves reports whether a request can sign in with an issuer, and answers it if not.
func (i *issuer) serves(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case i == nil:
		http.NotFound(w, r)
	case r.TLS == nil:
		i.console.showSignIn(w, r, http.StatusForbidden, "Nobody signs in over plain HTTP.")
	default:
		return true
	}
	return false
}

// oauth is the client for an issuer, without its secret.
func (i *issuer) oauth(login *oidc.Login) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if login.BasicAuth && i.Secret != nil {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: i.ClientID, RedirectURL: i.URL + "callback", Scopes: login.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: login.Authorization, TokenURL: login.Token, AuthStyle: style},
	}
}

// callback takes a browser that the issuer leads back. It answers with a page that goes on, and not with a redirect:
// a browser on the way from the site of the issuer would not send the cookie of the session.
func (i *issuer) callback(w http.ResponseWriter, r *http.Request) {
	if !i.serves(w, r) {
		return
	}
	begun := i.takeState(w, r)
	if begun == nil {
		i.console.showSignIn(w, r, http.StatusBadRequest, "This browser has not begun to sign in, has done so more than "+
			"10 minutes ago, or has signed in already with this answer of the issuer. Begin again.")
		return
	}
	query := r.URL.Query()
	if reason := cmp.Or(query.Get("error_description"), query.Get("error")); query.Has("error") {
		i.console.showSignIn(w, r, http.StatusForbidden, fmt.Sprintf("The issuer has refused: %.*s", maxReason, reason))
		return
	}
	token, err := i.exchange(r, begun, query)
	if err != nil {
		i.fail(w, r, http.StatusBadGateway, "The issuer has given no ID token for its answer. Begin again.", err)
		return
	}
	who := i.console.opts.User(withToken(r, token))
	claims, err := i.claimsOf(token, begun)
	switch {
	case who == nil:
		i.fail(w, r, http.StatusUnauthorized, "The server does not accept the token of the issuer: "+
			"--authentication-config has the rules, and the log of the server the reason.",
			errors.New("the API does not know the user of the token"))
		return
	case err != nil:
		i.fail(w, r, http.StatusUnauthorized, "The token of the issuer is not for this sign-in. Begin again.", err)
		return
	}
	cookie, err := i.console.sessions.cookie(r, token, time.Unix(int64(claims.Expires), 0), time.Now())
	if err != nil {
		i.console.showSignIn(w, r, http.StatusUnprocessableEntity, "The token of the issuer cannot be used here: "+err.Error()+
			", or have the issuer put fewer claims, such as groups, into it.")
		return
	}
	http.SetCookie(w, cookie)
	w.Header().Set("Cache-Control", "no-store")
	i.console.render(w, http.StatusOK, "signin", map[string]any{"IsDone": true, "Next": begun.Next, "User": who.GetName()})
}

// takeState returns what the browser has begun that a callback belongs to, once; nil: nothing. Without it somebody
// could sign this browser in as himself, with an answer of the issuer for his own.
func (i *issuer) takeState(w http.ResponseWriter, r *http.Request) *signInState {
	var begun signInState
	isOpen := i.console.sessions.open(r, stateName(r), &begun)
	http.SetCookie(w, ownCookie(stateName(r), "", 0, http.SameSiteLaxMode))
	given := r.URL.Query().Get("state")
	if !isOpen || subtle.ConstantTimeCompare([]byte(given), []byte(begun.State)) != 1 || !time.Now().Before(begun.Until) ||
		!i.console.sessions.once(begun.State) {
		return nil
	}
	return &begun
}

// exchange asks the issuer for the ID token of a callback.
func (i *issuer) exchange(r *http.Request, begun *signInState, query url.Values) (string, error) {
	select {
	case i.exchanges <- struct{}{}:
		defer func() { <-i.exchanges }()
	default:
		return "", errors.New("too many sign in at the same time")
	}
	login, err := i.Issuers.LoginFor(r.Context(), i.ClientID)
	if err != nil {
		return "", err
	}
	if from := query.Get("iss"); from != "" && from != login.Issuer { // RFC 9207
		return "", errors.New("the answer is of another issuer")
	}
	client := i.oauth(login)
	if i.Secret != nil {
		if client.ClientSecret, err = i.Secret(); err != nil {
			return "", err
		}
	}
	ctx := context.WithValue(r.Context(), oauth2.HTTPClient, login.Client)
	answer, err := client.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(begun.Verifier))
	if err != nil {
		return "", err
	}
	token, _ := answer.Extra("id_token").(string)
	if token == "" {
		return "", errors.New("the answer of the issuer has no id_token")
	}
	return token, nil
}

// fail tells a user what has failed and the log why: the text of an error may quote what a stranger has sent, and
// never has a secret.
func (i *issuer) fail(w http.ResponseWriter, r *http.Request, status int, what string, err error) {
	i.console.refuse(r, "OpenID Connect", reasonOf(err))
	i.console.showSignIn(w, r, status, what)
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
