package iscsi

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"glowplug/internal/testkit"
)

// An attacker that knows a machine's initiator name and ISID logs in, resets, logs out
// and hangs up: the machine's session goes on.
func TestReinstatementFromElsewhere(t *testing.T) {
	var n counted
	s, address := start(t, n.options(newMemory(randomBytes(8*blockSize))))
	victim := dialFrom(t, "127.0.0.1", address)
	victim.login(testTarget)
	victim.scsi(0, 0, 0x1b, 0, 0, 0, 2) // eject, which is of this session
	for _, end := range []func(*client){
		func(c *client) {
			c.request(opTask, flagFinal|taskResetCold, 0, noTag, nil, nil)
			c.must()
			c.closed()
		},
		func(c *client) {
			for _, function := range []byte{taskResetUnit, taskResetWarm} {
				c.request(opTask, flagFinal|function, 0, noTag, nil, nil)
				c.must()
			}
			c.conn.Close()
		},
		func(c *client) {
			c.request(opLogout, flagFinal, 0, 0, nil, nil) // close the session
			c.must()
			c.closed()
		},
		func(c *client) { c.conn.Close() },
	} {
		over := n.logouts.Load() + 1
		attacker := dialFrom(t, "127.0.0.66", address)
		attacker.login(testTarget)
		attacker.readBlocks(0, 8)
		if list := sessionsOf(s); len(list) != 2 {
			t.Fatalf("%d sessions", len(list))
		}
		end(attacker)
		testkit.Until(t, "the sessions come to that", func() bool { return n.logouts.Load() == over })
	}
	if o := victim.scsi(0, 0, 0); o.status == statusGood {
		t.Error("somebody has put the disc into its drive")
	}
	if list := sessionsOf(s); len(list) != 1 || list[0].Remote.Addr().String() != "127.0.0.1" {
		t.Errorf("sessions %v", list)
	}

	// The machine itself comes again, from another port.
	again := dialFrom(t, "127.0.0.1", address)
	again.login(testTarget)
	victim.closed()
	again.readBlocks(0, 8)
	testkit.Until(t, "the sessions come to that", func() bool { return n.logouts.Load() == 5 }) // the end of the first one takes nothing from the second
	third := dialFrom(t, "127.0.0.1", address)
	third.login(testTarget)
	again.closed()
	third.readBlocks(0, 8)
	if list := sessionsOf(s); len(list) != 1 {
		t.Errorf("%d sessions after the reinstatement", len(list))
	}
}

// Who is the same machine: a known one wherever it comes from, any other one by its
// whole address.
func TestReinstatementByPeer(t *testing.T) {
	options := serving(newMemory(make([]byte, blockSize)))
	plain := options.Resolve
	known := map[string]string{"192.0.2.1": "host rack/one", "192.0.2.11": "host rack/one", "192.0.2.2": "host rack/two"}
	options.Resolve = func(l Login) (*Target, error) {
		target, err := plain(l)
		target.Client = known[l.Remote.Addr().String()]
		return target, err
	}
	s, _ := start(t, options)
	for _, c := range []struct {
		first, second string
		same          bool
	}{
		{"192.0.2.1", "192.0.2.11", true}, // after a boot with another address
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "192.0.2.66", false},
		{"192.0.2.66", "192.0.2.1", false},
		{"192.0.2.66", "192.0.2.66", true},
		{"192.0.2.66", "::ffff:192.0.2.66", true},
		{"192.0.2.66", "192.0.2.67", false},
		{"2001:db8::66", "2001:db8::66", true},
		{"2001:db8::66", "2001:db8::67", false}, // a neighbour in the same /64
		{"fe80::66%eth0", "fe80::66%eth0", true},
		{"fe80::66%eth0", "fe80::67%eth0", false},
		{"fe80::66%eth0", "fe80::66%eth1", false},
	} {
		first, second := connect(t, s, c.first), connect(t, s, c.second)
		first.login(testTarget)
		first.readBlocks(0, 1)
		second.login(testTarget)
		second.readBlocks(0, 1)
		if c.same {
			first.closed()
		} else {
			first.readBlocks(0, 1)
		}
		first.conn.Close()
		second.conn.Close()
		testkit.Until(t, "the sessions come to that", func() bool { return len(sessionsOf(s)) == 0 })
	}
}

// A machine that nobody knows comes again with another address, and its first session
// has nobody behind it any more: it is pinged, and ended when it has been silent for
// too long.
func TestOrphanEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := serving(newMemory(randomBytes(8 * blockSize)))
		options.Logger = slog.New(slog.DiscardHandler)
		s, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		orphan := connect(t, s, "192.0.2.66")
		orphan.conn.SetDeadline(time.Time{})
		orphan.login(testTarget)
		orphan.readBlocks(0, 8)
		again := connect(t, s, "192.0.2.67")
		again.conn.SetDeadline(time.Time{})
		again.login(testTarget)
		again.readBlocks(0, 8)
		began := time.Now()
		ended := make(chan time.Duration)
		go func() {
			for {
				if _, _, err := orphan.receive(); err != nil {
					ended <- time.Since(began)
					return
				}
			}
		}()
		for len(sessionsOf(s)) == 2 {
			time.Sleep(time.Minute)
			again.readBlocks(0, 8)
		}
		if took := <-ended; took < 30*time.Minute || took > 30*time.Minute+2*time.Second {
			t.Errorf("the orphan lives for %v", took)
		}
		if !slices.ContainsFunc(sessionsOf(s), func(s *Session) bool { return s.Remote.Addr().String() == "192.0.2.67" }) {
			t.Error("the machine's session is gone")
		}
	})
}
