package host

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/progress"
)

// TestStatesAreDurableWithinASecond: whatever events pile up, and however slow the
// statuses are.
func TestStatesAreDurableWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 100_000 {
			r.Record(v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: fmt.Sprint("h", i)},
				v1.EventNormal, "Test", "a message")
		}
		hosts := make([]*model.Host, 10_000)
		for i := range hosts {
			hosts[i] = r.add(fmt.Sprint("h", i))
			r.ScriptServed(hosts[i], "image g10/live", false)
			if i%2 == 0 {
				r.Served(hosts[i], config)
			}
		}
		pass(time.Second)
		again := progress.New(progress.Options{})
		r.log.replay(again, 0)
		for i, host := range hosts {
			want := v1.StateBooting
			if i%2 == 0 {
				want = v1.StateProvisioning
			}
			if p := again.Progress(host); p.State != want || p.Boots != 1 {
				t.Fatalf("%s: %+v; want %s", host.Ref, p, want)
			}
		}
	})
}

// TestReplayChangesNothing: a record that a status includes is read once more, as
// after a kill -9, which brings removed messages back. An admin may have corrected
// the status meanwhile.
func TestReplayChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.ScriptServed(host, "image g10/live", false)
		r.Served(host, config)
		pass(time.Minute)
		restart := func() *rig {
			t.Helper()
			stored := r.stored("server1", 9)
			before := r.host("server1").Status
			again := rigOver(t, r.hosts, r.store, func(model.Ref) *model.Host { return stored })
			r.log.replay(again.Tracker, 0)
			if p := again.Progress(stored); p.State != before.State || p.Boots != before.BootCount {
				t.Errorf("the status says %+v, the decision %+v", before, p)
			}
			pass(trimInterval)
			if err := again.shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			after := r.host("server1").Status
			if after.State != before.State || after.BootCount != before.BootCount ||
				after.BootRecord != before.BootRecord {
				t.Errorf("the status was %+v and is %+v", before, after)
			}
			return again
		}
		restart()
		for _, state := range []string{v1.StateProvisioned, v1.StateAvailable} {
			r.hosts.mu.Lock()
			r.hosts.objects["/baremetalhosts/g10/server1"].(*v1.BareMetalHost).Status.State = state
			r.hosts.mu.Unlock()
			restart()
		}
		// The host was deleted and made again: what its predecessor did is not its own.
		other := r.add("server1")
		other.UID = "another"
		r.hosts.mu.Lock()
		r.hosts.objects["/baremetalhosts/g10/server1"].(*v1.BareMetalHost).UID = "another"
		r.hosts.mu.Unlock()
		if again := restart(); again.log.trimmed != r.log.sequence {
			t.Errorf("trimmed up to %d of %d", again.log.trimmed, r.log.sequence)
		}
	})
}

// TestTrimming: the boot log is trimmed up to the first message that a status lacks,
// and a host whose status cannot be written does not keep it for ever.
func TestTrimming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		one, two := r.add("one"), r.add("two")
		r.ScriptServed(one, "image g10/live", false)
		pass(trimInterval)
		if r.log.trimmed != 1 {
			t.Errorf("trimmed up to %d", r.log.trimmed)
		}
		r.hosts.fail(errors.New("damaged"))
		r.ScriptServed(two, "image g10/live", false)
		for range maxLag + 100 {
			pass(decide.ScriptGap + time.Second)
			r.ScriptServed(one, "image g10/live", false)
		}
		pass(time.Minute)
		if r.log.trimmed < 50 || r.log.trimmed >= r.log.sequence {
			t.Errorf("trimmed up to %d of %d", r.log.trimmed, r.log.sequence)
		}
		again := progress.New(progress.Options{})
		r.log.replay(again, r.log.trimmed)
		if p := again.Progress(two); p.State != v1.StateBooting {
			t.Errorf("what was trimmed is lost: %+v", p)
		}
	})
}

// TestRecordsOfOthers: the record of another server counts at once, its status is
// left to that server for a while, and is written if that is gone.
func TestRecordsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		seen := time.Now().Add(-time.Hour) // its clock is behind
		r.ScriptServed(host, "image g10/live", false)
		synctest.Wait()
		r.log.mu.Lock()
		batch := r.log.add([]bootlog.Record{{
			Host: host.Ref, UID: host.UID, After: r.log.sequence,
			Progress: model.Progress{State: v1.StateProvisioned, Seen: seen, Boots: 1},
		}}, false)
		r.log.mu.Unlock()
		r.Apply(batch)
		if p := r.Progress(host); p.State != v1.StateProvisioned {
			t.Fatalf("%+v", p)
		}
		pass(otherGrace / 2)
		if s := r.host("server1").Status; s.State != v1.StateBooting {
			t.Fatalf("at once: %+v", s)
		}
		pass(otherGrace)
		if s := r.host("server1").Status; s.State != v1.StateProvisioned || s.BootRecord != 2 {
			t.Fatalf("after the grace: %+v", s)
		}
		pass(trimInterval)
		if r.log.trimmed != 2 {
			t.Errorf("trimmed up to %d", r.log.trimmed)
		}
	})
}
