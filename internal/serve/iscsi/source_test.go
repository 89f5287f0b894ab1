package iscsi

import (
	"testing"

	"glowplug/internal/testkit"
)

// refused reports whether the server hangs up on a client at once.
func (c *client) refused() bool {
	c.t.Helper()
	h := newHeader(opLogin|0x40, operationalToFull, 1)
	h[13] = c.isid
	if _, err := c.conn.Write(appendPDU(nil, &h, named(testTarget).encode(), digests{})); err != nil {
		return true
	}
	_, _, err := c.receive()
	return err != nil
}

// A machine that holds all connections of its address leaves those of others alone,
// also where both have no other address than a link-local one.
func TestSources(t *testing.T) {
	options := serving(newMemory(make([]byte, blockSize)))
	options.MaxPerSource = 2
	s, _ := start(t, options)
	for i, c := range []struct {
		from    string
		refused bool
	}{
		{"fe80::66%eth0", false}, {"fe80::66%eth0", false}, {"fe80::66%eth0", true},
		{"fe80::1%eth0", false},                                                  // another machine of the network
		{"fe80::66%eth1", false},                                                 // another card of the server
		{"2001:db8::66", false}, {"2001:db8::67", false}, {"2001:db8::68", true}, // one machine can have them all
		{"2001:db8:0:1::66", false},
		{"192.0.2.66", false}, {"::ffff:192.0.2.66", false}, {"192.0.2.66", true}, {"192.0.2.67", false},
	} {
		machine := connect(t, s, c.from)
		machine.isid = byte(i)
		if machine.refused() != c.refused {
			t.Errorf("from %s: want refused %v", c.from, c.refused)
		}
	}
}

// Without an option of its own, a server takes 256 connections of one address.
func TestConnectionsOfASource(t *testing.T) {
	s, _ := start(t, serving(newMemory(make([]byte, blockSize))))
	for range 256 {
		connect(t, s, "192.0.2.66")
	}
	testkit.Until(t, "the sessions come to that", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 256 })
	if !connect(t, s, "192.0.2.66").refused() {
		t.Error("connection 257 is accepted")
	}
	if connect(t, s, "192.0.2.67").refused() {
		t.Error("another machine is refused")
	}
}
