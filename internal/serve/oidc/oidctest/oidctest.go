// Package oidctest has an OpenID Connect issuer for tests.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
)

// Audience is the audience of the tokens.
const Audience = "glowplug"

// Issuer is an issuer with a discovery document and keys.
type Issuer struct {
	// URL is the issuer's, and CA the PEM of the certificate that it presents.
	URL, CA string
	// Down makes it answer 503.
	Down atomic.Bool
	// Fetches counts the requests for the keys.
	Fetches atomic.Int64

	mu   sync.Mutex
	rsa  *rsa.PrivateKey
	ec   *ecdsa.PrivateKey
	keys string // the URL of the keys
	name string // the issuer in the discovery document

	login login
}

// New starts an issuer for the time of the test.
func New(t *testing.T) *Issuer {
	t.Helper()
	i := &Issuer{}
	server := i.start(t, nil)
	i.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

// NewAt is New at a name of this machine, with a certificate of a CA for it.
func NewAt(t *testing.T, name string, certificate tls.Certificate, ca string) *Issuer {
	t.Helper()
	i := &Issuer{CA: ca}
	i.start(t, &tls.Config{Certificates: []tls.Certificate{certificate}})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(i.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	i.URL = "https://" + net.JoinHostPort(name, port)
	i.Say(i.URL, i.URL+"/keys")
	return i
}

func (i *Issuer) start(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	i.Rotate(t)
	server := httptest.NewUnstartedServer(i)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust the certificate
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.Say(i.URL, i.URL+"/keys")
	return server
}

// Rotate replaces the keys.
func (i *Issuer) Rotate(t *testing.T) {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	second, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ec, i.rsa = ec, second
}

// Say changes the issuer and the URL of the keys in the discovery document.
func (i *Issuer) Say(name, keys string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name, i.keys = name, keys
}

// ServeHTTP answers with the discovery document, the keys, or as an endpoint of the code flow.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.Down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.name, "jwks_uri": i.keys,
			"authorization_endpoint": i.URL + authorizePath, "token_endpoint": i.URL + tokenPath,
			"scopes_supported": []string{"openid", "groups"}})
	case "/keys":
		i.Fetches.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: i.rsa.Public(), KeyID: "rsa", Algorithm: "RS256", Use: "sig"},
			{Key: i.ec.Public(), KeyID: "ec", Algorithm: "ES256", Use: "sig"},
		}})
	case authorizePath:
		i.authorize(w, r)
	case tokenPath:
		i.exchange(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Token returns a token of RS256 that is valid for an hour, with further or other claims.
func (i *Issuer) Token(t *testing.T, claims map[string]any) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(t, jose.RS256, jose.JSONWebKey{Key: i.rsa, KeyID: "rsa"}, claims)
}

// ECToken is Token with ES256.
func (i *Issuer) ECToken(t *testing.T, claims map[string]any) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(t, jose.ES256, jose.JSONWebKey{Key: i.ec, KeyID: "ec"}, claims)
}

// StrangersToken is Token with a key that the issuer does not have.
func (i *Issuer) StrangersToken(t *testing.T, keyID string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return i.sign(t, jose.RS256, jose.JSONWebKey{Key: key, KeyID: keyID}, nil)
}

func (i *Issuer) sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	token, err := i.signed(algorithm, key, claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *Issuer) signed(algorithm jose.SignatureAlgorithm, key any, claims map[string]any) (string, error) {
	all := map[string]any{
		"iss": i.URL, "aud": Audience, "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"ops"},
	}
	maps.Copy(all, claims)
	payload, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		return "", err
	}
	signature, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signature.CompactSerialize()
}

// Entry returns an entry of the list jwt of an AuthenticationConfiguration. Users and groups have the prefix
// oidc:, and extra is further YAML of the entry, without indentation.
func (i *Issuer) Entry(extra string) string {
	entry := "issuer:\n  url: " + i.URL + "\n  audiences: [" + Audience + "]\n  certificateAuthority: |\n" +
		indent(i.CA, "    ")
	if !strings.Contains(extra, "claimMappings:") {
		extra += "claimMappings:\n  username: {claim: sub, prefix: 'oidc:'}\n  groups: {claim: groups, prefix: 'oidc:'}\n"
	}
	return "-" + indent(entry+extra, "  ")[1:]
}

// File returns an AuthenticationConfiguration with entries.
func File(entries ...string) string {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:"
	if len(entries) == 0 {
		return head + " []\n"
	}
	return head + "\n" + strings.Join(entries, "")
}

func indent(text, by string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(by + line)
	}
	return lines.String()
}
