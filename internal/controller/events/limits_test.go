package events

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

func sourceN(n int) netaddr.Source {
	mac := netaddr.MAC{2}
	binary.BigEndian.PutUint32(mac[2:], uint32(n))
	return netaddr.Source{MAC: mac}
}

func notice(reason string, host *model.Host, from netaddr.Source, key any) decide.Notice {
	message := fmt.Sprintf("%s by %v: %v", reason, from.MAC, key)
	return decide.Notice{Reason: reason, Host: host, From: from, Key: fmt.Sprint(key), Message: message}
}

// TestAlarmsAreNotSuppressed has an attacker make all the noise that it can before it
// steals.
func TestAlarmsAreNotSuppressed(t *testing.T) {
	for name, noise := range map[string]func(r *rig, victim *model.Host){
		"200 refused claims": func(r *rig, victim *model.Host) {
			for i := range 200 {
				r.Notice(notice(decide.ReasonClaimRefused, victim, sourceN(1), i))
			}
		},
		"refused claims of spoofed hardware addresses": func(r *rig, victim *model.Host) {
			for i := range 3 * maxSources {
				r.Notice(notice(decide.ReasonClaimRefused, victim, sourceN(100+i), i))
			}
		},
		"what else there is": func(r *rig, _ *model.Host) {
			for i := range 10_000 {
				for _, reason := range []string{
					decide.ReasonUnknownHost, decide.ReasonClaimIgnored, decide.ReasonDuplicate, decide.ReasonImageUnavailable,
				} {
					r.Notice(notice(reason, nil, sourceN(100+i), i))
				}
			}
		},
		"thefts from another host": func(r *rig, victim *model.Host) {
			for i := range 10_000 {
				r.Notice(notice(decide.ReasonNeighborMismatch, victim, sourceN(100+i), i))
				r.Notice(notice(decide.ReasonNeighborChanged, victim, sourceN(100+i), i))
			}
		},
		"thefts by itself": func(r *rig, victim *model.Host) {
			for i := range 10_000 {
				r.Notice(notice(decide.ReasonNeighborMismatch, victim, sourceN(1), i))
				r.Notice(notice(decide.ReasonNeighborChanged, victim, sourceN(1), i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				noise(r, r.host("noisy"))
				for _, host := range []string{"one", "two"} {
					r.Notice(notice(decide.ReasonNeighborMismatch, r.host(host), sourceN(1), "192.0.2.1"))
					r.Notice(notice(decide.ReasonNeighborChanged, r.host(host), sourceN(1), "192.0.2.1"))
				}
				pass(5 * time.Minute)
				events := r.all()
				for _, host := range []string{"one", "two"} {
					for _, reason := range []string{decide.ReasonNeighborMismatch, decide.ReasonNeighborChanged} {
						e := events[reason+" g10/"+host]
						if e == nil || e.Type != v1.EventWarning || !strings.HasPrefix(e.Message, reason+" by 02:") {
							t.Errorf("%s of host %s: %+v", reason, host, e)
						}
					}
				}
				if objects, _ := r.store.count(); objects > 2*(ofAlarms.Burst+ofHosts.Burst+ofStrangers.Burst+10)+10 {
					t.Errorf("the noise made %d events", objects)
				}
			})
		})
	}
}

// TestLoudClient has one client leave the others their events.
func TestLoudClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		loud, quiet := r.host("loud"), r.host("quiet")
		for i := range 1000 {
			r.Notice(notice(decide.ReasonClaimRefused, loud, sourceN(1), i))
		}
		r.Notice(notice(decide.ReasonClaimRefused, quiet, sourceN(2), "mac"))
		r.Notice(notice(decide.ReasonImageUnavailable, loud, netaddr.Source{}, "image"))
		pass(time.Second)
		events := r.all()
		if events["ClaimRefused g10/quiet"] == nil || events["ImageUnavailable g10/loud"] == nil {
			t.Errorf("events: %v", events)
		}
		if n := r.limits.sources.Len(); n != 2 {
			t.Errorf("%d limiters", n)
		}
		for i := range 3 * maxSources {
			r.Notice(notice(decide.ReasonClaimRefused, loud, sourceN(i), i))
		}
		if n := r.limits.sources.Len(); n > maxSources {
			t.Errorf("%d limiters", n)
		}
	})
}

// TestOmissions: what is left out is reported once a minute, with the number.
func TestOmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.host("server1")
		reported := func() (event *v1.Event, lines int) {
			event = r.all()["EventsLeftOut /default"]
			return event, strings.Count(r.logged(), "level=WARN msg=\"events were left out")
		}
		refuse := func(n int) {
			for i := range n {
				r.Notice(notice(decide.ReasonClaimRefused, host, sourceN(1), i))
			}
		}
		pass(30 * time.Second) // the writer sleeps
		refuse(200)
		pass(omissionPeriod - time.Second)
		if e, lines := reported(); e != nil || lines != 0 {
			t.Errorf("reported too early: %+v, %d lines", e, lines)
		}
		pass(2 * time.Second)
		e, lines := reported()
		if e == nil {
			t.Fatal("what was left out is not reported")
		}
		if e.Count != 1 || e.Type != v1.EventWarning || lines != 1 ||
			!strings.HasPrefix(e.Message, fmt.Sprint(200-ofSource.Burst, " events ClaimRefused were left out")) ||
			!strings.Contains(e.Message, "199") ||
			!strings.Contains(r.logged(), fmt.Sprint("reason=ClaimRefused count=", 200-ofSource.Burst)) {
			t.Errorf("event %+v\nlog %s", e, r.logged())
		}
		pass(time.Hour)
		if e, lines = reported(); e.Count != 1 || lines != 1 {
			t.Errorf("reported again although nothing was left out: %+v, %d lines", e, lines)
		}
		for i := range 100 {
			r.Notice(notice(decide.ReasonClaimRefused, host, sourceN(1), 1000+i))
			r.Notice(notice(decide.ReasonClaimIgnored, nil, sourceN(1), i))
			r.Notice(notice(decide.ReasonUnknownHost, nil, sourceN(1), i)) // their list has all
		}
		r.stop()
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, lines = reported(); lines != 3 {
			t.Errorf("%d lines after the end of the server:\n%s", lines, r.logged())
		}
	})
}
