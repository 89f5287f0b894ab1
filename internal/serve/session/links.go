package session

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"glowplug/internal/limit"
)

const (
	// LinkTime is how long a one-time link can be used.
	LinkTime = time.Minute
	// maxLinks bounds the links that wait.
	maxLinks = 100
)

// link signs in with a token once.
type link struct {
	token string
	until time.Time
}

// Links are the one-time links that wait.
type Links struct {
	mu     sync.Mutex
	byCode limit.Table[[sha256.Size]byte, link] // by the hash of a code: a look-up takes the same time for every code
}

// NewLinks returns Links.
func NewLinks() *Links {
	return &Links{byCode: limit.NewTable[[sha256.Size]byte](maxLinks, func() link { return link{} })}
}

// Add makes a link that signs in with a token, and returns its code.
func (l *Links) Add(token string, now time.Time) (code string) {
	code = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byCode.Add(sha256.Sum256([]byte(code)), link{token, now.Add(LinkTime)})
	return code
}

// Redeem returns the token of a code, which is then used up; "": there is none.
func (l *Links) Redeem(code string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, _ := l.byCode.Get(sha256.Sum256([]byte(code)))
	l.byCode.Remove(sha256.Sum256([]byte(code)))
	if now.After(found.until) {
		return ""
	}
	return found.token
}
