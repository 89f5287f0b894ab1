package iscsi

import (
	"strings"
	"sync"
)

// nexus is what makes a session the same as another: a new login with the same
// takes the place of the old session.
type nexus struct {
	initiator, target string
	isid              [6]byte
}

// sessions are those that have reached the full feature phase.
type sessions struct {
	mu    sync.Mutex
	last  uint16
	tsih  map[uint16]*conn
	nexus map[nexus]*conn
}

func newSessions() sessions {
	return sessions{tsih: map[uint16]*conn{}, nexus: map[nexus]*conn{}}
}

func (c *conn) nexus() nexus {
	return nexus{strings.ToLower(c.initiator), strings.ToLower(c.target.IQN), c.isid}
}

// add gives the connection a session number, and the connection whose session
// it replaces, if any. It is not ok where no number is free.
func (s *sessions) add(c *conn) (old *conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tsih) >= 1<<16-1 {
		return nil, false
	}
	for {
		s.last++
		if _, taken := s.tsih[s.last]; s.last != 0 && !taken {
			break
		}
	}
	c.tsih = s.last
	s.tsih[c.tsih] = c
	key := c.nexus()
	old = s.nexus[key]
	s.nexus[key] = c
	return old, true
}

// remove forgets a connection that add has taken.
func (s *sessions) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tsih, c.tsih)
	if key := c.nexus(); s.nexus[key] == c {
		delete(s.nexus, key)
	}
}

func (s *sessions) has(tsih uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tsih[tsih] != nil
}
