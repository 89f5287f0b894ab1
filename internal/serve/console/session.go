package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

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

// session is what the cookie of a signed-in user has. It is sealed: a browser can neither read nor change it.
type session struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
	// Token is the user's credential, which is authenticated again with each request.
	Token string `json:"token"`
}

// sessions seals and opens cookies. There is no table of sessions: they survive a restart, and hold at each server.
type sessions struct {
	seal cipher.AEAD

	mu        sync.Mutex
	signedOut limit.Table[string, struct{}]
	used      limit.Table[string, struct{}] // by once
	// lasting are the requests that may last for hours, by the session, each with the function that ends it.
	lasting sync.Map // *http.Request to lasting
}

type lasting struct {
	session string
	end     context.CancelFunc
}

func newSessions(key []byte) (*sessions, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	none := func() struct{} { return struct{}{} }
	return &sessions{
		seal: seal, signedOut: limit.NewTable[string](maxSignedOut, none), used: limit.NewTable[string](maxUsed, none),
	}, nil
}

// once reports whether an id of a cookie is used for the first time at this server.
func (s *sessions) once(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isUsed := s.used.Contains(id)
	s.used.Of(id)
	return !isUsed
}

// cookie returns the cookie of a new session with a token, which ends with the token if that ends before.
func (s *sessions) cookie(r *http.Request, token string, tokenEnd, now time.Time) (*http.Cookie, error) {
	until := now.Add(sessionTime)
	if !tokenEnd.IsZero() && tokenEnd.Before(until) {
		until = tokenEnd
	}
	name := cookieName(r)
	value, err := s.sealed(name, session{ID: rand.Text(), Until: until, Token: token})
	if err != nil {
		return nil, err
	}
	if len(value) > maxCookie {
		return nil, tooLongError{len(token)}
	}
	return ownCookie(name, value, until.Sub(now), http.SameSiteStrictMode), nil
}

// of returns the session of a request; nil: it has none that is valid.
func (s *sessions) of(r *http.Request, now time.Time) *session {
	var found session
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

// end ends a session before its time, with what lasts of it, at this server.
func (s *sessions) end(ended *session) {
	s.mu.Lock()
	s.signedOut.Of(ended.ID)
	s.mu.Unlock()
	s.lasting.Range(func(_, l any) bool {
		if l := l.(lasting); l.session == ended.ID {
			l.end()
		}
		return true
	})
}

// follow has end called when the session of a request is ended before its time, until forget is called.
func (s *sessions) follow(r *http.Request, end context.CancelFunc) (forget func()) {
	found := s.of(r, time.Now())
	if found == nil {
		return func() {}
	}
	s.lasting.Store(r, lasting{found.ID, end})
	return func() { s.lasting.Delete(r) }
}

// authenticate returns the user of a request: by the cookie of his session, else by a client certificate or by the
// listener. asked is the request with the credential, and until the end of the session; zero: it has none.
func (s *Server) authenticate(r *http.Request) (who user.Info, asked *http.Request, until time.Time) {
	if found := s.sessions.of(r, time.Now()); found != nil && !s.opts.IsLocal(r) {
		asked = withToken(r, found.Token)
		return s.opts.User(asked), asked, found.Until
	}
	if r.Header.Get("Authorization") != "" { // a page is not for programs; a browser sends none of its own accord
		return nil, r, time.Time{}
	}
	return s.opts.User(r), r, time.Time{}
}

// whileSignedIn has end called when the user is not signed in any more, until forget is called: what lasts is not
// authenticated again with a request.
func (p *page) whileSignedIn(end context.CancelFunc) (forget func()) {
	forgetToken := p.server.opts.Lasting(p.asked, end)
	forgetSession := p.server.sessions.follow(p.request, end)
	if p.HasSession() && p.server.sessions.of(p.request, time.Now()) == nil || p.server.opts.User(p.asked) == nil {
		end() // since a moment ago
	}
	return func() {
		forgetToken()
		forgetSession()
	}
}

// withToken returns a copy of a request with a token as its only credential: a client certificate that the browser has
// beside it must not take the place of a token that is not valid any more.
func withToken(r *http.Request, token string) *http.Request {
	asked := r.Clone(r.Context())
	asked.Header.Set("Authorization", "Bearer "+token)
	if r.TLS != nil {
		state := *r.TLS
		state.PeerCertificates, state.VerifiedChains = nil, nil
		asked.TLS = &state
	}
	return asked
}
