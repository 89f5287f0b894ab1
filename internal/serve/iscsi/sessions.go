package iscsi

import (
	"net/netip"
	"strings"
	"sync"
)

// nexus identifies a session: a new login with the same nexus replaces the old session.
// Any machine can claim an initiator's name and ISID, so the machine is a part of it.
type nexus struct {
	initiator, target string
	isid              [6]byte
	peer              peer
}

// peer is the machine behind a connection: the caller's name for it, else its address,
// a link-local one with its interface.
type peer struct {
	client string
	addr   netip.Addr
}

func (c *conn) peer() peer {
	if c.target.Client != "" {
		return peer{client: c.target.Client}
	}
	return peer{addr: c.remote.Addr()}
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
	return nexus{strings.ToLower(c.initiator), strings.ToLower(c.target.IQN), c.isid, c.peer()}
}

// add returns the connection a session number, and the connection whose session
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

// remove removes a connection that add has added.
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
