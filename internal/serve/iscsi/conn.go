package iscsi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/iso"
)

// Why a connection ended, for Hooks.Logout and the log.
var (
	ErrIdle       = errors.New("nothing heard for too long")
	ErrStuck      = errors.New("initiator takes no data")
	ErrShutdown   = errors.New("target shuts down")
	ErrReinstated = errors.New("initiator has logged in again")
	ErrDropped    = errors.New("session dropped by the operator")
	ErrHungUp     = errors.New("initiator hung up without a logout")

	errLogout   = errors.New("logged out")
	errProtocol = errors.New("protocol error")
)

const (
	// readBuffer holds a batch of commands; a PDU that is longer makes it grow.
	readBuffer = 4 << 10
	// window is the number of commands that an initiator may have under way.
	window = 128
)

// nudge bits ask the connection's goroutine for something.
const (
	nudgePing = 1 << iota
	nudgeStop
)

// conn is one connection. All but the atomic fields and end belong to the
// goroutine that runs serve.
type conn struct {
	server *Server
	net    net.Conn
	remote netip.AddrPort
	local  netip.AddrPort

	buf       []byte // the read buffer; buf[from:to] is what has not been parsed
	from, to  int
	out       sender
	params    params
	stage     byte // stageSecurity, stageOperational or stageFull
	statSN    uint32
	expCmdSN  uint32
	session   *Session // nil in login and discovery
	target    *Target
	drive     *drive
	initiator string
	isid      [6]byte
	tsih, cid uint16
	discovery bool
	texts     texts
	segments  []iso.Segment
	scratch   []byte // for the data of small answers
	announced bool   // Hooks.Login has been called
	failed    sense  // of the last read that could not be answered

	active  atomic.Int64  // when a request came or data was taken, Unix nanoseconds
	busy    atomic.Bool   // a request is being answered
	nudges  atomic.Uint32 // nudge bits
	loginBy time.Time
	public  atomic.Pointer[Session] // session, from its last login response on
	ended   atomic.Pointer[error]   // why another goroutine ended it
	pinged  int64                   // of watch: the silence in which it sent a ping
	done    chan struct{}           // closed when the socket is
	gone    chan struct{}           // closed when the target is released as well
}

// serve runs the connection to its end, and returns the cause.
func (c *conn) serve() error {
	defer close(c.done)
	defer c.net.Close()
	err := c.login()
	if err == nil {
		if c.session != nil {
			c.server.announce(c)
		}
		err = c.fullFeature()
	}
	if other := c.ended.Load(); other != nil {
		err = *other
	}
	return err
}

// fullFeature answers requests until the connection ends.
func (c *conn) fullFeature() error {
	// A nudge during the login set a deadline that this overwrites.
	c.net.SetDeadline(time.Time{})
	if err := c.nudged(); err != nil {
		return err
	}
	for {
		r, err := c.next(c.params.digests)
		if err == io.EOF {
			return ErrHungUp
		}
		if err != nil {
			return err
		}
		c.active.Store(time.Now().UnixNano())
		c.busy.Store(true)
		err = c.handle(r)
		c.busy.Store(false)
		if err != nil {
			return err
		}
	}
}

// next returns the next PDU. It stays valid until next is called again.
func (c *conn) next(with digests) (request, error) {
	for {
		r, n, err := parse(c.buf[c.from:c.to], with)
		if err != nil {
			return r, err
		}
		if n <= c.to-c.from {
			c.from += n
			return r, nil
		}
		if err := c.fill(n); err != nil {
			return r, err
		}
	}
}

// fill reads until at least n bytes are buffered.
func (c *conn) fill(n int) error {
	if c.from == c.to {
		c.from, c.to = 0, 0
	}
	if c.from+n > len(c.buf) {
		to := c.buf
		if n > len(to) {
			to = make([]byte, n+headerLen)
		}
		c.to = copy(to, c.buf[c.from:c.to])
		c.buf, c.from = to, 0
	}
	for c.to-c.from < n {
		got, err := c.net.Read(c.buf[c.to:])
		c.to += got
		switch {
		case got > 0:
		case errors.Is(err, os.ErrDeadlineExceeded) && c.stage == stageFull:
			c.net.SetReadDeadline(time.Time{})
			if err := c.nudged(); err != nil {
				return err
			}
		case errors.Is(err, io.EOF) && c.to > c.from:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
	return nil
}

// nudge asks the goroutine to do something, by cutting its read short.
func (c *conn) nudge(what uint32) {
	c.nudges.Or(what)
	c.net.SetReadDeadline(time.Unix(1, 0))
}

// nudged acts on the nudges.
func (c *conn) nudged() error {
	what := c.nudges.Swap(0)
	if what&nudgeStop != 0 {
		return c.farewell()
	}
	if what&nudgePing != 0 {
		return c.ping()
	}
	return nil
}

// end ends the connection from outside.
func (c *conn) end(cause error) {
	c.ended.CompareAndSwap(nil, &cause)
	c.net.Close()
}

// handle answers one request of the full feature phase.
func (c *conn) handle(r request) error {
	var answer func(request) error
	switch r.opcode() {
	case opCommand:
		answer = scsi{c}.command
	case opTask:
		answer = c.taskManagement
	case opText:
		answer = textExchange{c}.text
	case opLogout:
		answer = c.logout
	case opNopOut:
		if r.tag() == noTag {
			return nil // the answer to a ping
		}
		answer = c.nop
	case opDataOut:
		return nil // of a write that has failed already
	case opLogin:
		_ = c.reject(r, rejectProtocol) // the connection ends either way
		return fmt.Errorf("%w: login in the full feature phase", errProtocol)
	default:
		return c.reject(r, rejectUnsupported)
	}
	if skip, err := c.sequence(r); skip || err != nil {
		return err
	}
	return answer(r)
}

// sequence checks a request's number (RFC 7143, section 4.2.2.1). Numbers out of the window
// are ignored; one that skips others breaks the connection, as those cannot follow.
func (c *conn) sequence(r request) (skip bool, err error) {
	ahead := int32(r.cmdSN() - c.expCmdSN)
	switch {
	case r.immediate():
		return false, nil
	case ahead < 0 || ahead >= window:
		return true, nil
	case ahead > 0:
		_ = c.reject(r, rejectProtocol) // the connection ends either way
		return true, fmt.Errorf("%w: command number %d where %d was due", errProtocol, r.cmdSN(), c.expCmdSN)
	}
	c.expCmdSN++
	return false, nil
}

// numbers sets the sequence numbers of an answer, and counts it.
func (c *conn) numbers(h *header) {
	c.window(h)
	h.put(24, c.statSN)
	c.statSN++
}

func (c *conn) window(h *header) {
	h.put(28, c.expCmdSN)
	h.put(32, c.expCmdSN+window-1)
}

// answer numbers and sends a PDU.
func (c *conn) answer(h *header, data []byte) error {
	c.numbers(h)
	return c.out.pdu(h, data, c.params.digests)
}
