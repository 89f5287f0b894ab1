package host

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/testkit"
)

// TestStatesAreDurableWithinASecond: whatever events pile up, and however slow the
// statuses are.
func TestStatesAreDurableWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range testkit.Few(20_000, 100_000) {
			r.Record(v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: fmt.Sprint("h", i)},
				v1.EventNormal, "Test", "a message")
		}
		hosts := make([]*model.Host, testkit.Few(2000, 10_000))
		for i := range hosts {
			hosts[i] = r.add(fmt.Sprint("h", i))
			r.ScriptServed(hosts[i], "image g10/live", false, nil)
			if i%2 == 0 {
				r.Served(hosts[i], config, hash, nil)
			}
		}
		pass(time.Second)
		again := r.restarted()
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

// TestRestartChangesNothing: a server that starts with the boots and the statuses of before decides as before and
// writes nothing, also where an administrator has corrected a status, or a host was made again.
func TestRestartChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.ScriptServed(host, "image g10/live", false, nil)
		r.Served(host, config, hash, nil)
		pass(time.Minute)
		restart := func() {
			t.Helper()
			if err := r.shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, stored := r.host("server1").Status, len(r.bucket.Log())
			_, writes := r.hosts.count()
			known := r.Progress(r.stored("server1"))
			r = rigOver(t, r.hosts, r.store, r.bucket)
			pass(time.Minute)
			p := r.Progress(r.stored("server1"))
			if diff := cmp.Diff(known, p); diff != "" || p.State != before.State || p.Boots != before.BootCount {
				t.Errorf("the status says %+v, the decision %+v; %s", before, p, diff)
			}
			if diff := cmp.Diff(before, r.host("server1").Status); diff != "" {
				t.Error(diff)
			}
			if _, now := r.hosts.count(); now != writes || len(r.bucket.Log()) != stored {
				t.Errorf("%d statuses were written, and %d boots", now-writes, len(r.bucket.Log())-stored)
			}
		}
		restart()
		for _, state := range []string{v1.StateProvisioned, v1.StateAvailable} {
			old := r.host("server1")
			edited := old.DeepCopy()
			edited.Status.State = state
			if err := r.SetStatus(t.Context(), edited, old); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if s := r.host("server1").Status; s.State != state {
				t.Fatalf("%+v", s)
			}
			restart()
		}
		// The host was deleted and made again: what its predecessor did is not its own.
		r.add("server1")
		r.hosts.mu.Lock()
		r.hosts.objects["/baremetalhosts/g10/server1"].(*v1.BareMetalHost).UID = "another"
		r.hosts.mu.Unlock()
		restart()
	})
}

// TestBootsOfOthers: the boot that another server stores counts at once; its status is left to that server for a while,
// and is written if that is gone.
func TestBootsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.ScriptServed(host, "image g10/live", false, nil)
		pass(time.Second)
		theirs := r.bucket.Stored(host.Ref)
		theirs.Outcome, theirs.Machine.State = v1.OutcomeProvisioned, v1.StateProvisioned
		theirs.Machine.LastSeen.Time = time.Now().Add(-time.Hour) // its clock is behind
		r.bucket.PutForeign(theirs)
		if p := r.Progress(host); p.State != v1.StateProvisioned {
			t.Fatalf("%+v", p)
		}
		pass(otherGrace / 2)
		if s := r.host("server1").Status; s.State != v1.StateBooting {
			t.Fatalf("at once: %+v", s)
		}
		pass(otherGrace)
		if s := r.host("server1").Status; s.State != v1.StateProvisioned {
			t.Fatalf("after the grace: %+v", s)
		}
	})
}
