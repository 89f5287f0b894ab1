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
	// maxLinks bounds the links that wait, and maxOfUser those of one user.
	maxLinks  = 1000
	maxOfUser = 5
)

// link signs in with a token once.
type link struct {
	user, token string
	until       time.Time
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

// Add makes a link that signs in with the token of a user, and returns its code. The oldest of too many links of the
// user is not valid any more.
func (l *Links) Add(user, token string, now time.Time) (code string) {
	code = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	var own [][sha256.Size]byte
	for _, hash := range l.byCode.Keys() { // the oldest first
		switch waits, _ := l.byCode.Peek(hash); {
		case now.After(waits.until):
			l.byCode.Remove(hash)
		case waits.user == user:
			own = append(own, hash)
		}
	}
	if len(own) >= maxOfUser {
		l.byCode.Remove(own[0])
	}
	l.byCode.Add(sha256.Sum256([]byte(code)), link{user, token, now.Add(LinkTime)})
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
