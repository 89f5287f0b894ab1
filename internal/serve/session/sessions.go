// Package session keeps the sessions of browsers: sealed cookies, one-time links, and the way to an OpenID Connect
// issuer and back.
package session

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"glowplug/internal/limit"
)

const (
	// sessionTime is how long a session lasts.
	sessionTime = 12 * time.Hour
	// maxSignedOut bounds the sessions that are remembered as ended before their time.
	maxSignedOut = 10_000
	// maxUsed bounds the ids that are remembered as used once. A stranger can make ids, and push out those of others:
	// an issuer takes each code once, too.
	maxUsed = 1_000
)

// Session is what the cookie of a signed-in user has. It is sealed: a browser can neither read nor change it.
type Session struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
	// Token is the user's credential, which is authenticated again with each request.
	Token string `json:"token"`
}

// Sessions begins and ends sessions. There is no table of them: they survive a restart, and hold at each server with
// the same key.
type Sessions struct {
	seal cipher.AEAD

	mu        sync.Mutex
	signedOut limit.Table[string, struct{}]
	used      limit.Table[string, struct{}] // by once
	// followed has the requests that may last for hours, each with the function that ends it with a session.
	followed sync.Map // *http.Request to func(id string)
}

// New returns Sessions whose cookies are sealed with a key of 32 bytes.
func New(key []byte) (*Sessions, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	none := func() struct{} { return struct{}{} }
	return &Sessions{
		seal: seal, signedOut: limit.NewTable[string](maxSignedOut, none), used: limit.NewTable[string](maxUsed, none),
	}, nil
}

// Begin returns the cookie of a new session with a token, which ends with the token if that ends before. The session
// that the browser has ends.
func (s *Sessions) Begin(r *http.Request, token string, tokenEnd, now time.Time) (*http.Cookie, error) {
	until := now.Add(sessionTime)
	if !tokenEnd.IsZero() && tokenEnd.Before(until) {
		until = tokenEnd
	}
	name := cookieName(r)
	value := s.sealed(name, Session{ID: rand.Text(), Until: until, Token: token})
	if len(value) > maxCookie {
		return nil, fmt.Errorf("it has %d bytes, more than a cookie can hold: sign in with another one", len(token))
	}
	s.End(r, now)
	return ownCookie(name, value, until.Sub(now), http.SameSiteStrictMode), nil
}

// Of returns the session of a request; nil: it has none that is valid.
func (s *Sessions) Of(r *http.Request, now time.Time) *Session {
	var found Session
	if !s.open(r, cookieName(r), &found) || !now.Before(found.Until) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signedOut.Contains(found.ID) {
		return nil
	}
	return &found
}

// End ends the session of a request before its time, with what lasts of it, at this server, and returns the cookie that
// takes the place of its own.
func (s *Sessions) End(r *http.Request, now time.Time) *http.Cookie {
	if found := s.Of(r, now); found != nil {
		s.end(found.ID)
	}
	return ownCookie(cookieName(r), "", 0, http.SameSiteStrictMode)
}

func (s *Sessions) end(id string) {
	s.mu.Lock()
	s.signedOut.Of(id)
	s.mu.Unlock()
	s.followed.Range(func(_, endWith any) bool {
		endWith.(func(string))(id)
		return true
	})
}

// Follow has end called when the session of a request is ended before its time, until forget is called.
func (s *Sessions) Follow(r *http.Request, end context.CancelFunc) (forget func()) {
	if found := s.Of(r, time.Now()); found != nil {
		s.followed.Store(r, func(id string) {
			if id == found.ID {
				end()
			}
		})
	}
	return func() { s.followed.Delete(r) }
}

// once reports whether an id of a cookie is used for the first time at this server.
func (s *Sessions) once(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isUsed := s.used.Contains(id)
	s.used.Of(id)
	return !isUsed
}

// WithToken returns a copy of a request with a token as its only credential: a client certificate that the browser has
// beside it must not take the place of a token that is not valid any more.
func WithToken(r *http.Request, token string) *http.Request {
	asked := r.Clone(r.Context())
	asked.Header.Set("Authorization", "Bearer "+token)
	if r.TLS != nil {
		state := *r.TLS
		state.PeerCertificates, state.VerifiedChains = nil, nil
		asked.TLS = &state
	}
	return asked
}
