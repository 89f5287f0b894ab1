package console

import (
	"sync"

	"glowplug/internal/limit"
)

// quota bounds what is open at the same time, in all and of each user.
type quota struct {
	all, ofUser int

	mu    sync.Mutex
	open  int
	users limit.Counts[string]
}

func newQuota(all, ofUser int) *quota {
	return &quota{all: all, ofUser: ofUser, users: limit.Counts[string]{}}
}

// begin counts one more of a user until end is called; nil: too many are open.
func (q *quota) begin(user string) (end func()) {
	if !q.add(user) {
		return nil
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.open--
		q.users.Add(user, -1)
	}
}

func (q *quota) add(user string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open >= q.all || q.users[user] >= q.ofUser {
		return false
	}
	q.open++
	q.users.Add(user, 1)
	return true
}
