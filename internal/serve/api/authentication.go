package api

import (
	"context"
	"crypto/x509"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Names of the callers that need no entry in a file.
const (
	adminUser    = "admin"
	localUser    = "local-admin"
	internalUser = "glowplug"
)

type internalKey struct{}

// guard authenticates callers by the rules of their door and by their credentials.
type guard struct {
	credentials authenticator.Request
}

// newGuard returns a guard that accepts the admin's token, static tokens and client
// certificates of clientCAs. Each of them may be nil.
func newGuard(isAdminToken func(string) bool, static *tokenFile, clientCAs func() *x509.CertPool) *guard {
	var tokens []authenticator.Token
	if isAdminToken != nil {
		tokens = append(tokens, adminToken(isAdminToken))
	}
	if static != nil {
		tokens = append(tokens, static)
	}
	requests := []authenticator.Request{}
	if len(tokens) > 0 {
		requests = append(requests, bearertoken.New(tokenunion.New(tokens...)))
	}
	if clientCAs != nil {
		verify := func() (x509.VerifyOptions, bool) {
			opts := requestx509.DefaultVerifyOptions()
			opts.Roots = clientCAs()
			return opts, true
		}
		requests = append(requests, requestx509.NewDynamic(verify, requestx509.CommonNameUserConversion))
	}
	return &guard{credentials: group.NewAuthenticatedGroupAdder(union.New(requests...))}
}

func adminToken(isAdminToken func(string) bool) authenticator.TokenFunc {
	return func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		if !isAdminToken(token) {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{
			Name: adminUser, Groups: []string{user.SystemPrivilegedGroup},
		}}, true, nil
	}
}

// AuthenticateRequest implements authenticator.Request. An invalid credential is not an
// error: the answer is 401.
func (g *guard) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.Context().Value(internalKey{}) != nil {
		return privileged(internalUser), true, nil
	}
	door := doorOf(r)
	if door.Admin {
		return privileged(localUser), door.refusal(r) == "", nil
	}
	if door.NeedsLoopback && !isLoopback(r.RemoteAddr) {
		return nil, false, nil
	}
	if bringsCredential(r) {
		// The library removes the token from the request, which may be authenticated again.
		if response, ok, err := g.credentials.AuthenticateRequest(r.Clone(r.Context())); err == nil && ok {
			return response, true, nil
		}
	}
	return nil, false, nil
}

func bringsCredential(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || (r.TLS != nil && len(r.TLS.PeerCertificates) > 0)
}

func privileged(name string) *authenticator.Response {
	return &authenticator.Response{User: &user.DefaultInfo{
		Name: name, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
	}}
}

// refuse answers 401 with a Status object that names a remedy.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request) {
	reason := "no credential: use the admin.kubeconfig in the server's data directory, or a token or client " +
		"certificate that it knows"
	switch door := doorOf(r); {
	case door.Admin:
		w.Header().Set("Connection", "close")
		reason = door.refusal(r) + ": use the server's HTTPS address and a credential"
	case door.NeedsLoopback && !isLoopback(r.RemoteAddr):
		reason = "the API is not served to other machines over plain HTTP: use the server's HTTPS address"
	case bringsCredential(r):
		reason = "the credential is not valid here"
	}
	w.Header().Set("Cache-Control", "no-cache, private")
	fail(w, r, apierrors.NewUnauthorized(reason))
}
