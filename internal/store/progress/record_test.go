package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/snapshot"
)

// TestCompleteIsDurable: a boot-complete is answered once the boot log has it, and
// refused while the log is away; the machine's state is right meanwhile.
func TestCompleteIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.hosts.fail(apierrors.NewServiceUnavailable("away")) // a status is not waited for
		if err := r.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		if got := r.log.messages[0].Records[0]; got.Progress.State != v1.StateProvisioned || got.UID != host.UID {
			t.Fatalf("in the boot log: %+v", got)
		}
		if err := r.Complete(t.Context(), host); err != nil || len(r.log.messages) != 1 {
			t.Fatalf("said again: %v, %d messages", err, len(r.log.messages))
		}

		other := r.add("server2")
		r.log.fail(errors.New("the disk is full"))
		began := time.Now()
		if err := r.Complete(t.Context(), other); err == nil || time.Since(began) > completeTimeout {
			t.Fatalf("with the log away: %v after %v", err, time.Since(began))
		}
		if err := r.Complete(t.Context(), other); err == nil || time.Since(began) > 2*completeTimeout {
			t.Fatalf("and again: %v after %v", err, time.Since(began))
		}
		if armed, _ := decide.Armed(other, r.Progress(other)); armed {
			t.Fatal("a machine that is done would install again")
		}
		r.log.fail(nil)
		if err := r.Complete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		r.hosts.fail(nil)
		settled(time.Minute)
		if e := r.allEvents()["BootComplete g10/server2"]; e == nil || e.Count != 1 {
			t.Errorf("the event of what was answered: %+v", e)
		}
	})
}

// TestStatesAreDurableWithinASecond: whatever events pile up, and however slow the
// statuses are.
func TestStatesAreDurableWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 100_000 {
			r.Record(v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: fmt.Sprint("h", i)}, v1.EventNormal, "Test", "a message")
		}
		hosts := make([]*snapshot.Host, 10_000)
		for i := range hosts {
			hosts[i] = r.add(fmt.Sprint("h", i))
			r.ScriptServed(hosts[i], "image g10/live", false)
			if i%2 == 0 {
				r.Served(hosts[i], config)
			}
		}
		settled(time.Second)
		again := New(Options{Hosts: r.hosts, Events: r.events})
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
		settled(time.Minute)
		restart := func() *Tracker {
			t.Helper()
			stored := r.stored("server1", 9)
			before := r.host("server1").Status
			again := New(Options{Hosts: r.hosts, Events: r.events, Log: r.log, Host: func(snapshot.Ref) *snapshot.Host { return stored }})
			r.log.replay(again, 0)
			if p := again.Progress(stored); p.State != before.State || p.Boots != before.BootCount {
				t.Errorf("the status says %+v, the decision %+v", before, p)
			}
			if err := again.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if after := r.host("server1").Status; after.State != before.State || after.BootCount != before.BootCount || after.BootRecord != before.BootRecord {
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
		again := restart()
		if upTo := again.included(); upTo != r.log.sequence {
			t.Errorf("included up to %d of %d", upTo, r.log.sequence)
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
		settled(trimInterval)
		if r.log.trimmed != 1 {
			t.Errorf("trimmed up to %d", r.log.trimmed)
		}
		r.hosts.fail(errors.New("damaged"))
		r.ScriptServed(two, "image g10/live", false)
		for range maxLag + 100 {
			settled(decide.ScriptGap + time.Second)
			r.ScriptServed(one, "image g10/live", false)
		}
		settled(time.Minute)
		if r.log.trimmed < 50 || r.log.trimmed >= r.log.sequence {
			t.Errorf("trimmed up to %d of %d", r.log.trimmed, r.log.sequence)
		}
		again := New(Options{Hosts: r.hosts, Events: r.events})
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
			Host: host.Ref, UID: host.UID, After: r.log.sequence, Progress: snapshot.Progress{State: v1.StateProvisioned, Seen: seen, Boots: 1},
		}}, false)
		r.log.mu.Unlock()
		r.Take(batch)
		if p := r.Progress(host); p.State != v1.StateProvisioned {
			t.Fatalf("%+v", p)
		}
		settled(otherGrace / 2)
		if s := r.host("server1").Status; s.State != v1.StateBooting {
			t.Fatalf("at once: %+v", s)
		}
		settled(otherGrace)
		if s := r.host("server1").Status; s.State != v1.StateProvisioned || s.BootRecord != 2 {
			t.Fatalf("after the grace: %+v", s)
		}
		settled(trimInterval)
		if r.log.trimmed != 2 {
			t.Errorf("trimmed up to %d", r.log.trimmed)
		}
	})
}

// TestOtherServerKnows: a machine that completes at one server and asks another one
// in the next moment boots its disk.
func TestOtherServerKnows(t *testing.T) {
	js := kvtest.JetStream(t)
	start := func() *Tracker {
		var j *Tracker
		log := bootlog.New(bootlog.Options{Taken: func(b bootlog.Batch) { j.Take(b) }})
		j = New(Options{Hosts: newMemory(), Events: newMemory(), Log: log}) // no status ever tells the other
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = log.Run(ctx, js) })
		running.Go(func() { _ = j.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		eventuallyReady(t, log)
		return j
	}
	a, b := start(), start()
	for i := range 50 {
		host := &snapshot.Host{Ref: snapshot.Ref{Namespace: "g10", Name: fmt.Sprint("h", i)}, UID: "u"}
		if err := a.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(time.Second)
		for b.Progress(host).State != v1.StateProvisioned {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the other server has %+v", host.Ref, b.Progress(host))
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func eventuallyReady(t *testing.T, log *bootlog.Log) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); log.ReadinessCheck() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(log.ReadinessCheck())
		}
	}
}
