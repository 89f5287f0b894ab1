package machine

import (
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
