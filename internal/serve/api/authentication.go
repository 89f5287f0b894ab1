package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/keyfile"
	"glowplug/internal/logs"
	"glowplug/internal/serve/oidc"
)

// Names of the callers that need no entry in a file.
const (
	adminUser    = "admin"
	localUser    = "local-admin"
	internalUser = "glowplug"
)

type internalKey struct{}

// isInternal reports whether a request is one of the server's own. A user may have the name internalUser.
func isInternal(ctx context.Context) bool { return ctx.Value(internalKey{}) != nil }

// guard authenticates callers by the rules of their listener and by their credentials.
type guard struct {
	credentials authenticator.Request
	// unloaded returns why tokens of ServiceAccounts cannot be known; nil: they are.
	unloaded func() error
}

// newGuard returns a guard that accepts the admin's token, client certificates of clientCAs and
// other tokens. The first two may be nil.
func newGuard(isAdminToken func(string) bool, clientCAs func() *x509.CertPool, others ...authenticator.Token) *guard {
	var tokens []authenticator.Token
	if isAdminToken != nil {
		tokens = append(tokens, adminToken(isAdminToken))
	}
	requests := []authenticator.Request{bearertoken.New(tokenunion.New(append(tokens, others...)...))}
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

// openGuard makes the guard from the options. The functions that it returns follow its files until
// Shutdown.
func (s *Server) openGuard() (follow []func(), err error) {
	tokens := []authenticator.Token{s.opts.Tokens}
	if file := s.opts.TokenFile; file != "" {
		static, err := openTokens(file, s.opts.Logger)
		if err != nil {
			return nil, fmt.Errorf("--token-auth-file: %w", err)
		}
		tokens = append(tokens, static)
		follow = append(follow, func() { static.Run(s.ctx, s.RecheckCallers) })
	}
	if file := s.opts.AuthenticationConfig; file != "" {
		limited := s.opts.Limiter.Handler(s.opts.Logger.Handler(), logs.Origin{Kind: logs.Library, Name: "oidc"})
		issuers, err := oidc.Open(s.ctx, file, s.opts.Logger, slog.New(limited))
		if err != nil {
			return nil, fmt.Errorf("--authentication-config: %w", err)
		}
		s.issuers, tokens = issuers, append(tokens, issuers)
		follow = append(follow, func() { issuers.Run(s.ctx, s.RecheckCallers) }, func() { issuers.Report(s.ctx) })
	}
	s.guard = newGuard(s.opts.IsAdminToken, s.opts.ClientCAs, tokens...)
	s.guard.unloaded = func() error {
		return cmp.Or(s.opts.Stores[kinds.ServiceAccounts].ReadinessCheck(), s.opts.Stores[kinds.Tokens].ReadinessCheck())
	}
	return follow, nil
}

// Issuers returns the OpenID Connect issuers whose tokens are taken; nil: there are none.
func (s *Server) Issuers() *oidc.Issuers { return s.issuers }

func adminToken(isAdminToken func(string) bool) authenticator.TokenFunc {
	return func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		return privileged(adminUser), isAdminToken(token), nil
	}
}

// AuthenticateRequest implements authenticator.Request. An invalid credential is not an
// error: the answer is 401.
func (g *guard) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if isInternal(r.Context()) {
		return privileged(internalUser), true, nil
	}
	if a := actorOf(r.Context()); a != nil {
		return &authenticator.Response{User: a.who}, true, nil
	}
	listener := listenerOf(r)
	if listener.Admin {
		return privileged(localUser), listener.refusal(r) == "", nil
	}
	if listener.NeedsLoopback && !isLoopback(r.RemoteAddr) {
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

// refuse answers 401 with a Status object that names a remedy, or 503 if the credential may be valid.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request) {
	reason := "no credential: use the admin.kubeconfig in the server's data directory, or a token or client " +
		"certificate that it knows"
	switch listener := listenerOf(r); {
	case listener.Admin:
		w.Header().Set("Connection", "close")
		reason = listener.refusal(r) + ": use the server's HTTPS address and a credential"
	case listener.NeedsLoopback && !isLoopback(r.RemoteAddr):
		reason = "the API is not served to other machines over plain HTTP: use the server's HTTPS address; " +
			"here it has only the paths for machines, such as /api/v1/ignition, /boot.ipxe and /iso/"
	case hasToken(r) && g.unloaded != nil && g.unloaded() != nil:
		w.Header().Set("Retry-After", "1")
		fail(w, r, apierrors.NewServiceUnavailable("the tokens are not loaded yet: try again"))
		return
	case bringsCredential(r):
		reason = "the credential is not valid here"
	}
	w.Header().Set("Cache-Control", "no-cache, private")
	fail(w, r, apierrors.NewUnauthorized(reason))
}

// withEnd lets Shutdown end watches and uploads, whose clients begin them again, and lets
// RecheckCallers end those of a credential. It precedes the authentication, which removes the
// credential from the request.
func (s *Server) withEnd(h http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && longRunning(r, info) {
			ctx, end := context.WithCancel(r.Context())
			defer end()
			stop := context.AfterFunc(s.ctx, end)
			defer stop()
			r = r.WithContext(ctx)
			if bringsCredential(r) {
				defer s.Lasting(r.Clone(ctx), end)()
			}
		}
		h.ServeHTTP(w, r)
	})
}

// Lasting has a request with a credential ended by end when the credential is not valid any more, until forget is
// called.
func (s *Server) Lasting(r *http.Request, end context.CancelFunc) (forget func()) {
	s.lasting.Store(r, end)
	return func() { s.lasting.Delete(r) }
}

// RecheckCallers ends the watches and uploads whose credential is not valid any more.
// Call it when tokens or the CAs of client certificates have changed.
func (s *Server) RecheckCallers() { s.recheck(func(*http.Request) bool { return true }) }

// recheck ends the watches and uploads that match and whose credential is not valid any more.
func (s *Server) recheck(matches func(*http.Request) bool) {
	s.lasting.Range(func(r, end any) bool {
		if !matches(r.(*http.Request)) {
			return true
		}
		if _, ok, err := s.guard.AuthenticateRequest(r.(*http.Request)); err != nil || !ok {
			end.(context.CancelFunc)()
		}
		return true
	})
}

// tokenFile is a file of static tokens, in the CSV of Kubernetes: token, user, uid,
// "group,group". It is read again when it changes.
type tokenFile struct {
	*keyfile.Follower
	users atomic.Pointer[map[tokenHash]*user.DefaultInfo]
}

// tokenHash is the key of a token: a look-up takes the same time for every token.
type tokenHash [sha256.Size]byte

func openTokens(path string, logger *slog.Logger) (*tokenFile, error) {
	f := &tokenFile{}
	var err error
	f.Follower, err = keyfile.Follow(keyfile.Secret, path, logger, func(content []byte) error {
		users, err := parseTokens(content)
		if err != nil {
			return fmt.Errorf("token file %s: %w", path, err)
		}
		f.users.Store(&users)
		return nil
	})
	return f, err
}

// parseTokens parses the CSV. Its errors have the numbers of lines, never their text.
func parseTokens(content []byte) (map[tokenHash]*user.DefaultInfo, error) {
	users := map[tokenHash]*user.DefaultInfo{}
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return users, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d has %d columns: want token, user name, user id", line, len(record))
		}
		if record[0] == "" {
			return nil, fmt.Errorf("line %d has an empty token", line)
		}
		hash := tokenHash(sha256.Sum256([]byte(record[0])))
		if users[hash] != nil {
			return nil, fmt.Errorf("line %d has a token that stands above it already", line)
		}
		who := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			who.Groups = strings.Split(record[3], ",")
		}
		users[hash] = who
	}
}

// AuthenticateToken implements authenticator.Token.
func (f *tokenFile) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	who, ok := (*f.users.Load())[sha256.Sum256([]byte(token))]
	return &authenticator.Response{User: who}, ok, nil
}
