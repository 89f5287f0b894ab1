package iscsi

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"glowplug/internal/domain/iso"
)

// Disk is an image of Size bytes in a drive. It is read by many goroutines at once. A
// last block that is not full reads as zero at its end.
type Disk interface {
	Size() int64
	// AppendSegments adds the segments that make up exactly the n bytes at off, all of
	// them within Size, in order. The bytes of a file need not pass through this process.
	// The sources stay open until Target.Release.
	AppendSegments(dst []iso.Segment, off, n int64) []iso.Segment
	// Check returns an error if bytes that were read may not be the disk's own, as after a
	// write to its file. It is called after a read and before the initiator is told that
	// its data is good; also once for many reads. Its error becomes that of the read.
	Check() error
}

// ErrNotReady is wrapped by the error of a read that may succeed later: the initiator
// tries again. Any other error is a bad medium.
var ErrNotReady = errors.New("the disk is not ready")

// CHAP holds the secrets of one target. An empty Password: no authentication.
// With MutualPassword the target authenticates to initiators that ask it to.
type CHAP struct {
	Username, Password             string
	MutualUsername, MutualPassword string
}

// Target is the answer to an initiator's login with a name.
type Target struct {
	// IQN is the target's name. Drives of the same IQN have the same serial number.
	IQN string
	// Disk is the image; it must not be nil.
	Disk Disk
	CHAP CHAP
	// AllowedInitiators are the names that may log in, in any case; empty: all.
	AllowedInitiators []string
	// Client names the machine that logs in, where the caller knows it by more than its
	// own claims; empty: its address is used. A login ends an older session of the
	// same machine only.
	Client string
	// Tag is the caller's own, and that of the Session.
	Tag any
	// Release is called once when the login has failed or the session is over.
	Release func()
}

func (t *Target) allows(initiator string) bool {
	return len(t.AllowedInitiators) == 0 || slices.ContainsFunc(t.AllowedInitiators, func(name string) bool {
		return strings.EqualFold(name, initiator)
	})
}

// Login is an initiator's request.
type Login struct {
	// Initiator is the name in the request, which proves nothing.
	Initiator string
	// Target is the requested name, empty for a discovery session.
	Target string
	// Remote is the initiator's address; an IPv4 address is always one of four bytes.
	Remote netip.AddrPort
	// Local is the address of the server in this connection.
	Local netip.AddrPort
}

// Session is an initiator that has logged in to a target.
type Session struct {
	Login
	// ID is unique in this process.
	ID uint64
	// Tag is that of the target.
	Tag any

	read atomic.Int64
}

// BytesRead returns the number of bytes that the session has read from its disk so far.
func (s *Session) BytesRead() int64 { return s.read.Load() }

// Hooks are called at events; each may be nil. They run in the session's own
// goroutine and must not block.
type Hooks struct {
	// Login: the session has begun.
	Login func(*Session)
	// Logout: it is over; cause is nil where the initiator has logged out.
	Logout func(s *Session, cause error)
	// Refused: a login to a target that Resolve has found was refused; tag is that of the target.
	Refused func(l Login, tag any, cause error)
	// Guessed: a login had a wrong CHAP name or secret, the wrong-th recent one from there;
	// tag is that of the target.
	Guessed func(l Login, tag any, wrong int)
	// Read: n bytes of the disk at off are about to be sent.
	Read func(s *Session, off, n int64)
}

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
