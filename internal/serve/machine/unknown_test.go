package machine

import (
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"glowplug/internal/domain/decide"
	"glowplug/internal/serve/sources"
)

// TestEventsOfUnknownMachineNameItsObject: the object of a machine may be from an earlier
// request, which had its hardware address.
func TestEventsOfUnknownMachineNameItsObject(t *testing.T) {
	s := newStreet(t, decide.Policy{})
	s.journal.name = "52-54-00-00-00-09"
	s.want(404, stranger, PathIgnition+"?hostname=nobody")
	if got := s.journal.machines; len(got) == 0 || slices.ContainsFunc(got, func(name string) bool {
		return name != s.journal.name
	}) {
		t.Errorf("the events are on %q", got)
	}
}

// TestCountOfUnknownMachine has the requests of status.count of an UnknownMachine, as
// api/v1 describes it.
func TestCountOfUnknownMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		for _, c := range []struct {
			path   string
			status int
			counts bool
		}{
			{PathIPXE, 200, true},
			{PathIgnition, 404, true},
			{PathKickstart + "?hostname=nobody", 404, true},
			{PathComplete, 404, true},
			{PathIgnition + "?role=builder", 403, true},
			{PathIgnition + "?mac=52:54:00:00:00:02", 403, false},
			{PathIgnition + "?ip=10.9.9.9", 403, false},
			{PathIgnition + "?mac=x", 400, false},
			{PathScript, 200, false},
			{PathISO + "g10/live.iso", 200, false},
		} {
			s.journal.unknown = nil
			s.want(c.status, stranger, c.path)
			if counts := len(s.journal.unknown) > 0; counts != c.counts {
				t.Errorf("%s: it counts: %v", c.path, counts)
			}
			endpoint, _, _ := strings.Cut(path.Base(c.path), "?")
			if c.counts && s.journal.unknown[0].Request != endpoint {
				t.Errorf("%s: it is called %s", c.path, s.journal.unknown[0].Request)
			}
		}
		for range sources.Limit {
			s.ask(stranger, PathIgnition+"?hostname=nobody")
		}
		s.journal.unknown = nil
		if s.want(503, stranger, PathIgnition+"?hostname=nobody"); len(s.journal.unknown) > 0 {
			t.Error("a request that is over the limit of claims counts")
		}
	})
}

// TestRequestsOfKnownHosts: the journal has the address of each machine that is recognised as a
// host, and not that of an administrator who asks about one.
func TestRequestsOfKnownHosts(t *testing.T) {
	s := newStreet(t, decide.Policy{})
	const behindNAT, itsMAC = "203.0.113.7", "?mac=52:54:00:00:01:01"
	for _, c := range []struct {
		from, path string
		believed   bool
		status     int
		known      bool
	}{
		{"10.1.0.1", PathIgnition, false, 404, true}, // there are no configs
		{"10.1.0.1", PathIPXE, false, 200, true},
		{behindNAT, PathIPXE, false, 200, false},
		{behindNAT, PathIPXE + itsMAC, false, 200, true},
		{behindNAT, PathIPXE + itsMAC, true, 200, false},
		{stranger, PathIPXE + itsMAC, false, 403, false},
	} {
		s.journal.known, s.believe = nil, c.believed
		s.want(c.status, c.from, c.path)
		if known := slices.Equal(s.journal.known, []netip.Addr{netip.MustParseAddr(c.from)}); known != c.known {
			t.Errorf("%s from %s: %v; want known %v", c.path, c.from, s.journal.known, c.known)
		}
	}
}
