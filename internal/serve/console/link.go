package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"glowplug/internal/limit"
)

const (
	// linkTime is how long a one-time link can be used, and maxLinks bounds those that wait.
	linkTime = time.Minute
	maxLinks = 100
)

// link signs in with a token once.
type link struct {
	token string
	until time.Time
}

// links are the one-time links that wait.
type links struct {
	mu     sync.Mutex
	byCode limit.Table[string, *link] // by the hash of their code
}

func newLinks() *links {
	return &links{byCode: limit.NewTable[string](maxLinks, func() *link { return nil })}
}

// add makes a link, and returns its code.
func (l *links) add(token string, now time.Time) (code string) {
	code = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byCode.Add(hashed(code), &link{token, now.Add(linkTime)})
	return code
}

// redeem returns the token of a code, which is then used up; "": there is none.
func (l *links) redeem(code string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.byCode.Get(hashed(code))
	l.byCode.Remove(hashed(code))
	if !ok || now.After(found.until) {
		return ""
	}
	return found.token
}

// hashed is the key of a code: a look-up takes the same time for every code.
func hashed(code string) string {
	sum := sha256.Sum256([]byte(code))
	return string(sum[:])
}

// makeLink answers a request with a token with the address of a page that signs in with it once.
func (s *Server) makeLink(w http.ResponseWriter, r *http.Request) {
	_, token, isBearer := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case r.TLS == nil:
		http.Error(w, "a link is made over HTTPS alone: name the server's HTTPS address", http.StatusForbidden)
		return
	case !isBearer || s.opts.User(r) == nil:
		http.Error(w, "a link needs a token that the server knows; a client certificate signs in by itself, in a browser "+
			"that has it", http.StatusUnauthorized)
		return
	}
	code := s.links.add(strings.TrimSpace(token), time.Now())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"path": Prefix + "sign-in#" + code, "seconds": int(linkTime.Seconds())})
}
