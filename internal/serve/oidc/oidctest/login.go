package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"

	"gopkg.in/go-jose/go-jose.v2"
)

// ClientSecret is the secret of the client Audience.
const ClientSecret = "the secret of the client"

const (
	authorizePath = "/authorize"
	tokenPath     = "/token"
)

// login is the code flow of an issuer, whose users are all signed in already.
type login struct {
	codes     map[string]url.Values // the request of each code that was not used
	claims    map[string]any
	exchanges int
}

// SayOfUsers has the ID tokens of the code flow have further or other claims.
func (i *Issuer) SayOfUsers(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.login.claims = claims
}

// Exchanges is how many codes clients have asked to exchange.
func (i *Issuer) Exchanges() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.login.exchanges
}

// authorize sends the browser back with a code. The caller holds i.mu.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	back, err := url.Parse(query.Get("redirect_uri"))
	if err != nil || query.Get("client_id") != Audience || query.Get("response_type") != "code" ||
		query.Get("code_challenge_method") != "S256" {
		http.Error(w, "not a request of the client", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	if i.login.codes == nil {
		i.login.codes = map[string]url.Values{}
	}
	i.login.codes[code] = query
	back.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")}, "iss": {i.URL}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// exchange answers with the ID token for a code, once. The caller holds i.mu.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	i.login.exchanges++
	asked, isKnown := i.login.codes[r.PostFormValue("code")]
	delete(i.login.codes, r.PostFormValue("code"))
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	client, secret, _ := r.BasicAuth()
	secret, err := url.QueryUnescape(secret)
	switch {
	case err != nil || client != Audience || secret != ClientSecret:
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	case !isKnown || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri"),
		base64.RawURLEncoding.EncodeToString(challenge[:]) != asked.Get("code_challenge"):
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	claims := map[string]any{"nonce": asked.Get("nonce")}
	maps.Copy(claims, i.login.claims)
	token, err := i.signed(jose.RS256, jose.JSONWebKey{Key: i.rsa, KeyID: "rsa"}, claims)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error")
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "id_token": token})
}

func refuse(w http.ResponseWriter, status int, reason string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": reason})
}
