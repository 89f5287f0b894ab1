// Package oidc authenticates the users of OpenID Connect issuers by their bearer tokens. The
// AuthenticationConfiguration of Kubernetes names the issuers, and its library verifies the tokens.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"glowplug/internal/keyfile"
)

// reserved begins the names of the server's own users and groups. No issuer may give one: the group
// system:masters may do everything.
const reserved = "system:"

// maxLogged bounds what an issuer wrote, in bytes of a log line.
const maxLogged = 256

// Issuers are the issuers of a file, which is read again when it changes.
type Issuers struct {
	*keyfile.Follower
	ctx      context.Context // ends the work of all issuers
	log      *slog.Logger
	refusals *slog.Logger // of tokens
	compiler cel.Compiler
	current  atomic.Pointer[[]*issuer] // nil: the file is read for the first time
}

// issuer is one authenticator of the file.
type issuer struct {
	config  apiserver.JWTAuthenticator
	tokens  oidc.AuthenticatorTokenWithHealthCheck
	fetcher *fetcher
	began   time.Time
	end     context.CancelFunc
	login   logins

	// told is when the log had the last line about a problem, and down is true until it had one
	// about its end. Only Report uses both.
	told time.Time
	down bool
}

// Open reads the file. It does not wait for the issuers, whose work ends with ctx. The lines of refusals
// are as many as the tokens that strangers send, so its logger should have a limit of its own.
func Open(ctx context.Context, path string, logger, refusals *slog.Logger) (*Issuers, error) {
	i := &Issuers{ctx: ctx, log: logger, refusals: refusals, compiler: cel.NewDefaultCompiler()}
	var err error
	i.Follower, err = keyfile.Follow(keyfile.Trusted, path, logger, func(content []byte) error {
		configs, err := parse(content, i.compiler)
		if err == nil {
			err = i.apply(configs)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	return i, err
}

// apply replaces the issuers by those of configs. One whose configuration is the same continues, so that
// its users notice nothing.
func (i *Issuers) apply(configs []apiserver.JWTAuthenticator) error {
	var former, next, added []*issuer
	if current := i.current.Load(); current != nil {
		former = *current
	}
	for _, config := range configs {
		at := slices.IndexFunc(former, func(s *issuer) bool { return reflect.DeepEqual(s.config, config) })
		if at >= 0 {
			next = append(next, former[at])
			continue
		}
		s, err := i.begin(config)
		if err != nil {
			end(added)
			return fmt.Errorf("issuer %s: %w", config.Issuer.URL, err)
		}
		next, added = append(next, s), append(added, s)
	}
	if i.current.Load() != nil {
		i.await(added)
	}
	i.current.Store(&next)
	removed := slices.DeleteFunc(slices.Clone(former), func(s *issuer) bool { return slices.Contains(next, s) })
	end(removed)
	for _, s := range removed {
		url := s.config.Issuer.URL
		if !slices.ContainsFunc(next, func(n *issuer) bool { return n.config.Issuer.URL == url }) {
			oidc.DeleteJWKSFetchMetrics(url, "")
		}
	}
	return nil
}

// begin makes the authenticator of an issuer, which asks for the discovery document in the background.
func (i *Issuers) begin(config apiserver.JWTAuthenticator) (*issuer, error) {
	fetcher, err := newFetcher(config.Issuer.CertificateAuthority)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(pacedContext(i.ctx))
	tokens, err := oidc.New(ctx, oidc.Options{
		JWTAuthenticator: config, Client: fetcher.client(), Compiler: i.compiler,
		SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(),
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return &issuer{config: config, tokens: tokens, fetcher: fetcher, began: time.Now(), end: cancel}, nil
}

func end(issuers []*issuer) {
	for _, s := range issuers {
		s.end()
	}
}

// await gives changed issuers time to answer, so that the requests and watches of their users go on. One
// that does not answer is used all the same: the file may have taken rights away.
func (i *Issuers) await(added []*issuer) {
	ctx, cancel := context.WithTimeout(i.ctx, fetchTimeout)
	defer cancel()
	tick := time.NewTicker(fetchTimeout / 100)
	defer tick.Stop()
	for slices.ContainsFunc(added, func(s *issuer) bool { return s.tokens.HealthCheck() != nil }) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// AuthenticateToken implements authenticator.Token. A token that is not valid is not an error.
func (i *Issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	for _, s := range *i.current.Load() {
		response, ok, err := s.tokens.AuthenticateToken(ctx, token)
		if err == nil && !ok {
			continue
		}
		if err == nil {
			err = checkUser(response.User)
		}
		if err != nil {
			i.refused(s, err)
			return nil, false, nil
		}
		return response, true, nil
	}
	return nil, false, nil
}

// checkUser refuses the names and groups of the server's own users.
func checkUser(who user.Info) error {
	if strings.HasPrefix(who.GetName(), reserved) {
		return fmt.Errorf("the user name %q begins with %q: change claimMappings.username of the issuer",
			who.GetName(), reserved)
	}
	for _, group := range who.GetGroups() {
		if strings.HasPrefix(group, reserved) && group != user.AllAuthenticated {
			return fmt.Errorf("the group %q begins with %q: change claimMappings.groups of the issuer", group, reserved)
		}
	}
	return nil
}

// refused logs why a token was refused. Report says when an issuer does not answer.
func (i *Issuers) refused(s *issuer, err error) {
	if s.tokens.HealthCheck() != nil || errors.Is(err, context.Canceled) {
		return
	}
	i.refusals.Warn("a token of an OpenID Connect issuer was refused", "issuer", s.config.Issuer.URL,
		"error", clip(err.Error()))
}

func clip(text string) string {
	if len(text) > maxLogged {
		return strings.ToValidUTF8(text[:maxLogged], "") + "…"
	}
	return text
}
