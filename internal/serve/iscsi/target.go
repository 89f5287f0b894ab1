package iscsi

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/iso"
)

// Disk is what a drive plays: an image of Size bytes. It is read by many
// goroutines at once. A last block that is not full reads as zero at its end.
type Disk interface {
	io.ReaderAt
	Size() int64
}

// Segmenter is a Disk that knows where its bytes are, so that those of files need not
// pass through this process. AppendSegments adds the segments that make up
// exactly the n bytes at off, all of them within Size, in their order. Their sources
// stay open until Target.Release.
type Segmenter interface {
	Disk
	AppendSegments(dst []iso.Segment, off, n int64) []iso.Segment
}

// Checker is a Disk whose bytes may cease to be its own, as those of a file that is
// written to. Check is asked once they have been read and before the initiator is told
// that they are good; also for many reads at once. Its error becomes that of the read.
type Checker interface {
	Check() error
}

// ErrNotReady is wrapped by the error of a read that may succeed later: the initiator
// is told so, and tries again. Any other error is a bad medium.
var ErrNotReady = errors.New("the disk is not ready")

// CHAP holds the secrets of one target. An empty Password: no authentication.
// With MutualPassword the target authenticates to initiators that ask it to.
type CHAP struct {
	Username, Password             string
	MutualUsername, MutualPassword string
}

// Target is what an initiator gets for the name it asked for.
type Target struct {
	// IQN is the target's name. Drives of the same IQN have the same serial number.
	IQN string
	// Disk is the image; it must not be nil.
	Disk Disk
	CHAP CHAP
	// AllowedInitiators are the names that may log in, in any case; empty: all.
	AllowedInitiators []string
	// Client names the machine that logs in, where the caller knows it by more than what
	// it says of itself; empty: its address stands for it. A login takes the place of an
	// older session of the same machine alone.
	Client string
	// Tag is the caller's own: Session hands it back.
	Tag any
	// Release is called once when the login has failed or the session is over.
	Release func()
}

func (t *Target) allows(initiator string) bool {
	return len(t.AllowedInitiators) == 0 || slices.ContainsFunc(t.AllowedInitiators, func(name string) bool {
		return strings.EqualFold(name, initiator)
	})
}

// Login is somebody at the door: who asks, from where, and for what.
type Login struct {
	// Initiator is the name it gives itself, which proves nothing.
	Initiator string
	// Target is the name asked for, empty for a discovery session.
	Target string
	// Remote is the peer, an IPv4 address always as such.
	Remote netip.AddrPort
	// Local is the address that it has reached.
	Local netip.AddrPort
}

// Session is an initiator that has logged in to a target.
type Session struct {
	Login
	// ID tells sessions of this process apart.
	ID uint64
	// Since is when the login was complete.
	Since time.Time
	// Tag is that of the target.
	Tag any

	read atomic.Int64
}

// BytesRead counts what the session has read from its disk so far.
func (s *Session) BytesRead() int64 { return s.read.Load() }

// Hooks tell what happens; each may be nil. They are called by the session's
// own goroutine, which waits for them: they must not block.
type Hooks struct {
	// Login: the session has begun.
	Login func(*Session)
	// Logout: it is over; cause is nil where the initiator has logged out.
	Logout func(s *Session, cause error)
	// Guessed: a login gave a wrong CHAP name or secret, the wrong-th of late from there;
	// tag is that of the target.
	Guessed func(l Login, tag any, wrong int)
	// Read: n bytes of the disk at off are about to be sent.
	Read func(s *Session, off, n int64)
}
