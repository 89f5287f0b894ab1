package iscsi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

// counted counts what begins and ends.
type counted struct {
	logins, logouts, released atomic.Int32
	cause                     atomic.Pointer[error]
}

func (n *counted) options(d Disk) Options {
	return Options{
		Resolve: func(l Login) (*Target, error) {
			return &Target{IQN: l.Target, Disk: d, Tag: n, Release: func() { n.released.Add(1) }}, nil
		},
		Hooks: Hooks{
			Login:  func(*Session) { n.logins.Add(1) },
			Logout: func(_ *Session, cause error) { n.cause.Store(&cause); n.logouts.Add(1) },
		},
	}
}

func (n *counted) over(t *testing.T, want error) {
	t.Helper()
	testkit.Until(t, "the sessions come to that", func() bool { return n.logouts.Load() > 0 && n.released.Load() == n.logins.Load() })
	if cause := *n.cause.Load(); !errors.Is(cause, want) || want == nil && cause != nil {
		t.Errorf("ended by %v, want %v", cause, want)
	}
}

func TestLogout(t *testing.T) {
	var n counted
	s, address := start(t, n.options(newMemory(make([]byte, blockSize))))
	c := dial(t, address)
	c.login(testTarget)
	if list := sessionsOf(s); len(list) != 1 || list[0].Tag != &n || list[0].Target != testTarget || list[0].ID == 0 {
		t.Errorf("sessions %v", list)
	}
	c.request(opLogout, flagFinal|1, 0, 99<<16, nil, nil) // a connection that is not there
	if head, _ := c.must(); head[0] != opLogoutDone || head[2] != 1 {
		t.Errorf("% x", head)
	}
	c.request(opLogout, flagFinal, 0, 0, nil, nil)
	if head, _ := c.must(); head[0] != opLogoutDone || head[2] != 0 {
		t.Errorf("% x", head)
	}
	c.closed()
	n.over(t, nil)
	if len(sessionsOf(s)) != 0 {
		t.Error("the session stays")
	}
}

func TestAbruptClose(t *testing.T) {
	var n counted
	_, address := start(t, n.options(newMemory(make([]byte, blockSize))))
	c := dial(t, address)
	c.login(testTarget)
	c.conn.Write(make([]byte, 20)) // half a header
	c.conn.Close()
	testkit.Until(t, "the sessions come to that", func() bool { return n.released.Load() == 1 && n.logouts.Load() == 1 })
	if cause := *n.cause.Load(); !errors.Is(cause, io.ErrUnexpectedEOF) {
		t.Errorf("ended by %v", cause)
	}
	c = dial(t, address)
	c.login(testTarget)
	c.conn.Close()
	testkit.Until(t, "the sessions come to that", func() bool { return n.released.Load() == 2 })
	n.over(t, ErrHungUp)
}

func TestGarbageEndsThatConnectionAlone(t *testing.T) {
	_, address := start(t, serving(newMemory(randomBytes(8*blockSize))))
	good := dial(t, address)
	good.login(testTarget)
	long := newHeader(opNopOut, flagFinal, 1)
	long.setLength(maxReceive + 1)
	broken := newHeader(opNopOut, flagFinal, 1)
	for _, test := range []struct {
		name  string
		login bool
		keys  pairs
		sent  []byte
	}{
		{"before the login", false, nil, []byte("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a browser\r\n\r\n")},
		{"ones", false, nil, bytes.Repeat([]byte{0xff}, 200)},
		{"a command before the login", false, nil, append([]byte{opCommand}, make([]byte, 47)...)},
		{"too long", true, nil, long[:]},
		{"wrong digest", true, pairs{{"HeaderDigest", "CRC32C"}}, append(broken[:], 1, 2, 3, 4)},
		{"login again", true, nil, append([]byte{opLogin | 0x40}, make([]byte, 47)...)},
		{"text without keys", true, nil, func() []byte {
			h := newHeader(opText|0x40, flagFinal, 1)
			h.put(20, noTag)
			return appendPDU(nil, &h, []byte("gibberish"), digests{})
		}()},
		{"a number skipped", true, nil, func() []byte {
			h := newHeader(opCommand, 0xc0, 1)
			h.put(24, 9)
			return h[:]
		}()},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, address)
			if c.isid = 1; test.login {
				c.login(testTarget, test.keys...)
			}
			c.conn.Write(test.sent)
			c.closed()
			if len(good.readBlocks(0, 8)) != 8*blockSize {
				t.Error("another session suffers")
			}
		})
	}
}

func TestReinstatement(t *testing.T) {
	var n counted
	s, address := start(t, n.options(newMemory(randomBytes(8*blockSize))))
	first := dial(t, address)
	first.login(testTarget)
	other := dial(t, address)
	other.isid = 1 // a session of its own
	other.login(testTarget)
	again := dial(t, address)
	again.login(testTarget)
	first.closed()
	testkit.Until(t, "the sessions come to that", func() bool { return n.released.Load() == 1 })
	if cause := *n.cause.Load(); !errors.Is(cause, ErrReinstated) {
		t.Errorf("ended by %v", cause)
	}
	again.readBlocks(0, 8)
	other.readBlocks(0, 8)
	if len(sessionsOf(s)) != 2 {
		t.Errorf("%d sessions", len(sessionsOf(s)))
	}
}

func TestControl(t *testing.T) {
	_, address := start(t, serving(newMemory(randomBytes(8*blockSize))))
	c := dial(t, address)
	c.login(testTarget)

	c.request(opNopOut, flagFinal, 0, noTag, nil, []byte("are you there"))
	if head, data := c.must(); head[0] != opNopIn || string(data) != "are you there" {
		t.Errorf("ping: opcode %#x, %q", head[0], data)
	}
	for _, test := range []struct {
		function byte
		lun      uint64
		response byte
	}{
		{taskAbort, 0, taskUnknown}, {taskAbortSet, 0, taskComplete}, {taskClearSet, 0, taskComplete},
		{taskResetUnit, 0, taskComplete}, {taskResetUnit, 1 << 48, taskNoUnit}, {taskResetWarm, 0, taskComplete},
		{taskReassign, 0, taskNoReassign}, {3, 0, taskUnsupported}, {77, 0, taskUnsupported},
	} {
		c.request(opTask, flagFinal|test.function, test.lun, noTag, nil, nil)
		if head, _ := c.must(); head[0] != opTaskDone || head[2] != test.response {
			t.Errorf("task management %d: opcode %#x, response %d", test.function, head[0], head[2])
		}
	}
	c.request(opSnack|0x40, flagFinal, 0, noTag, nil, nil)
	c.cmdSN-- // it takes no number
	if head, data := c.must(); head[0] != opReject || head[2] != rejectUnsupported || data[0] != opSnack|0x40 {
		t.Errorf("SNACK: % x, % x", head, data)
	}
	// A number outside of the window is ignored, on both sides.
	for _, number := range []uint32{c.cmdSN - 1, c.cmdSN + window} {
		h := newHeader(opNopOut, flagFinal, 99)
		h.put(24, number)
		c.send(&h, nil)
	}
	c.readBlocks(0, 8)
	// Data of a write that has failed is ignored.
	c.request(opDataOut, flagFinal, 0, noTag, nil, make([]byte, 4096))
	c.cmdSN--
	c.readBlocks(0, 8)
	// A cold reset ends the session.
	c.request(opTask, flagFinal|taskResetCold, 0, noTag, nil, nil)
	if head, _ := c.must(); head[2] != taskComplete {
		t.Errorf("cold reset: %d", head[2])
	}
	c.closed()
}

func TestLimits(t *testing.T) {
	options := serving(newMemory(make([]byte, blockSize)))
	options.MaxPerSource = 3
	s, address := start(t, options)
	for range 2 {
		dial(t, address)
	}
	last := dial(t, address)
	testkit.Until(t, "the sessions come to that", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 3 })
	dial(t, address).closed()
	last.conn.Close() // which gives its place to another
	testkit.Until(t, "the sessions come to that", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 2 })
	dial(t, address).login(testTarget)

	options.MaxPerSource, options.MaxConnections = 0, 2
	s, address = start(t, options)
	first := dial(t, address)
	dial(t, address)
	testkit.Until(t, "the sessions come to that", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 2 })
	dial(t, address).closed()
	first.conn.Close()
	testkit.Until(t, "the sessions come to that", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 1 && len(s.sources) == 1 })
	dial(t, address).login(testTarget)
}

func TestLoginTimeout(t *testing.T) {
	options := serving(newMemory(make([]byte, blockSize)))
	options.LoginTimeout = 50 * time.Millisecond
	_, address := start(t, options)
	c := dial(t, address)
	c.exchange(0x00, named(testTarget)) // begins, and does not go on
	c.closed()
}

func TestPingAndIdleTimeout(t *testing.T) {
	var n counted
	options := n.options(newMemory(make([]byte, blockSize)))
	options.PingAfter, options.IdleTimeout = 30*time.Millisecond, 400*time.Millisecond
	_, address := start(t, options)
	c := dial(t, address)
	c.login(testTarget)
	head, _ := c.must()
	if head[0] != opNopIn || binary.BigEndian.Uint32(head[16:]) != noTag || binary.BigEndian.Uint32(head[20:]) == noTag {
		t.Fatalf("no ping: % x", head)
	}
	h := newHeader(opNopOut|0x40, flagFinal, noTag)
	copy(h[20:24], head[20:24])
	h.put(24, c.cmdSN)
	c.send(&h, nil)
	if head, _ := c.must(); head[0] != opNopIn { // the next silence, the next ping
		t.Fatalf("opcode %#x", head[0])
	}
	c.closed()
	n.over(t, ErrIdle)
}

// demand asks for 8 MiB several times, at once, and takes nothing.
func (c *client) demand(times int) {
	var all []byte
	for range times {
		h := newHeader(opCommand, 0xc0, 1)
		h.put(20, 4096*blockSize)
		h.put(24, c.cmdSN)
		c.cmdSN++
		copy(h[32:], cdbRead10(0, 4096))
		all = append(all, h[:]...)
	}
	c.conn.Write(all)
}

func TestStuckInitiator(t *testing.T) {
	var n counted
	options := n.options(newMemory(make([]byte, 4096*blockSize)))
	options.SendTimeout = 100 * time.Millisecond
	_, address := start(t, options)
	c := dial(t, address)
	c.login(testTarget)
	c.demand(20)
	n.over(t, ErrStuck)
}

func TestShutdown(t *testing.T) {
	var n counted
	s, address := start(t, n.options(newMemory(randomBytes(8*blockSize))))
	c := dial(t, address)
	c.login(testTarget)
	dial(t, address) // in its login
	c.readBlocks(0, 8)
	if err := s.Shutdown(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if head, _ := c.must(); head[0] != opAsync || head[36] != asyncDropAll {
		t.Errorf("farewell: % x", head)
	}
	c.closed()
	n.over(t, ErrShutdown)
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("still listens")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); !errors.Is(err, ErrServerClosed) {
		t.Errorf("serving after the end: %v", err)
	}
}

func TestShutdownOfStuckInitiator(t *testing.T) {
	var n counted
	s, address := start(t, n.options(newMemory(make([]byte, 4096*blockSize))))
	c := dial(t, address)
	c.login(testTarget)
	c.demand(20)
	testkit.Until(t, "the sessions come to that", func() bool { list := sessionsOf(s); return len(list) == 1 && list[0].BytesRead() > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	if n.released.Load() != 1 {
		t.Error("target not released")
	}
}

func TestDrop(t *testing.T) {
	var n counted
	s, address := start(t, n.options(newMemory(make([]byte, blockSize))))
	one, two := dial(t, address), dial(t, address)
	one.login("iqn.x:one")
	two.login("iqn.x:two")
	if dropped := s.Drop(func(s *Session) bool { return s.Target == "iqn.x:one" }); dropped != 1 {
		t.Errorf("dropped %d", dropped)
	}
	one.closed()
	testkit.Until(t, "the sessions come to that", func() bool { return n.released.Load() == 1 && len(sessionsOf(s)) == 1 })
	two.scsi(0, 0, 0)
	if list := sessionsOf(s); len(list) != 1 || list[0].Target != "iqn.x:two" {
		t.Errorf("left: %v", list)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no Resolve, no error")
	}
	if _, err := New(Options{Resolve: serving(nil).Resolve, IdleTimeout: -1}); err == nil {
		t.Error("negative timeout, no error")
	}
}
