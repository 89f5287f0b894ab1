package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/testkit"
)

// TestLastConfigOfTheSameBoot: neither a config that replaces the one before, in the same boot
// and second, nor a report that changes no state is left out of the status.
func TestLastConfigOfTheSameBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(host, config, hash, nil)
		synctest.Wait()
		r.Served(host, model.Ref{Namespace: "g10", Name: "other"}, "sha256:def", nil)
		pass(seenGap)
		if s := r.host("server1").Status; s.LastConfig != "g10/other" || s.LastConfigHash != "sha256:def" {
			t.Errorf("after the second: %+v", s)
		}
		for range 2 {
			time.Sleep(time.Hour)
			if err := r.Complete(t.Context(), host); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			pass(seenGap)
			if s := r.host("server1").Status; !s.LastSeen.Time.Equal(now) || s.State != v1.StateProvisioned {
				t.Errorf("after the report: %+v", s)
			}
		}
	})
}

func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		start := time.Now()
		r.Served(host, config, hash, nil)
		synctest.Wait()
		s := r.host("server1").Status
		if s.BootCount != 1 || !s.LastBoot.Time.Equal(start) || !s.LastSeen.Time.Equal(start) ||
			s.LastConfig != "g10/builder" || s.LastConfigHash != "sha256:abc" || s.State != v1.StateProvisioning {
			t.Fatalf("after the first: %+v", s)
		}

		// Retries are one boot, and one write every so often.
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			r.Served(host, config, hash, nil)
		}
		pass(seenGap)
		s = r.host("server1").Status
		if s.BootCount != 1 || !s.LastBoot.Time.Equal(start) || s.LastSeen.Sub(start) != 10*time.Second {
			t.Fatalf("after retries: %+v", s)
		}
		if _, writes := r.hosts.count(); writes > 4 {
			t.Fatalf("%d writes for 101 requests in 10 s", writes)
		}

		// A run goes on while its requests are less than the gap apart.
		for range 3 {
			pass(decide.ConfigGap - 10*time.Second)
			r.Served(host, config, hash, nil)
		}
		pass(seenGap)
		if s = r.host("server1").Status; s.BootCount != 1 {
			t.Fatalf("a slow run: %+v", s)
		}
		pass(decide.ConfigGap + time.Second)
		second := time.Now()
		r.Served(host, model.Ref{Namespace: "g10", Name: "other"}, "sha256:def", nil)
		pass(seenGap)
		s = r.host("server1").Status
		if s.BootCount != 2 || !s.LastBoot.Time.Equal(second) || s.LastConfig != "g10/other" ||
			s.LastConfigHash != "sha256:def" {
			t.Fatalf("after the second boot: %+v", s)
		}
		if h := r.host("server1"); h.Spec.IP != "192.168.10.10" || h.Generation != 3 {
			t.Fatalf("the rest of the object: %+v", h)
		}
	})
}

// What an administrator says of a boot stands until the next one.
func TestStateIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(host, config, hash, nil)
		synctest.Wait()
		old := r.host("server1")
		edited := old.DeepCopy()
		edited.Status.State = v1.StateProvisioned
		if err := r.SetStatus(t.Context(), edited, old); err != nil {
			t.Fatal(err)
		}
		r.Served(host, config, hash, nil)
		pass(seenGap)
		if s := r.host("server1").Status; s.State != v1.StateProvisioned {
			t.Errorf("in the same boot: %+v", s)
		}
		pass(2 * decide.ConfigGap)
		r.Served(host, config, hash, nil)
		pass(seenGap)
		if s := r.host("server1").Status; s.State != v1.StateProvisioning || s.BootCount != 2 {
			t.Errorf("in the next boot: %+v", s)
		}
	})
}

// Requests that come at once are one boot, and none is seen later than it came.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		now := time.Now()
		for range 1000 {
			r.Served(host, config, hash, nil)
		}
		pass(seenGap)
		if s := r.host("server1").Status; s.BootCount != 1 || !s.LastSeen.Time.Equal(now) {
			t.Errorf("%+v", s)
		}
	})
}

func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hosts.fail(apierrors.NewServiceUnavailable("away"))
		r.store.fail(apierrors.NewTimeoutError("away", 1))
		host := r.add("server1")
		start := time.Now()
		r.Served(host, config, hash, nil)
		r.Notice(decide.Notice{Reason: decide.ReasonClaimRefused, Host: host, Key: "mac", Message: "one"})
		pass(10 * time.Minute)
		r.Served(host, config, hash, nil)
		r.Notice(decide.Notice{Reason: decide.ReasonClaimRefused, Host: host, Key: "mac", Message: "two"})
		pass(10 * time.Minute)
		last := time.Now()
		r.Served(host, config, hash, nil)
		pass(time.Minute)
		if _, states := r.Tracker.Pending(); states != 1 || r.Recorder.Pending() != 2 {
			t.Fatalf("%d statuses and %d events are pending", states, r.Recorder.Pending())
		}
		r.hosts.fail(nil)
		r.store.fail(nil)
		pass(controller.AwayMax + seenGap)
		s := r.host("server1").Status
		if s.BootCount != 3 || !s.LastBoot.Time.Equal(last) || !s.LastSeen.Time.Equal(last) {
			t.Errorf("three boots while the store was away: %+v (began %v)", s, start)
		}
		e := r.allEvents()["ClaimRefused g10/server1"]
		if e == nil || e.Count != 2 || e.Message != "(combined from similar events): two" ||
			!e.FirstTimestamp.Time.Equal(start) || e.LastTimestamp.Sub(start) != 10*time.Minute {
			t.Errorf("event: %+v", e)
		}
	})
}

// TestNoStateIsDropped has the stores away while more hosts boot than there may be
// pending events.
func TestNoStateIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := testkit.Few(4000, 20_000)
		r := newRig(t)
		r.bucket.Fail(errors.New("away"))
		r.hosts.fail(apierrors.NewServiceUnavailable("away"))
		for i := range many {
			r.Served(r.add(fmt.Sprintf("h%d", i)), config, hash, nil)
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		synctest.Wait()
		if boots, _ := r.Tracker.Pending(); boots != many {
			t.Errorf("%d are pending", boots)
		}
		r.bucket.Fail(nil)
		pass(2 * time.Second)
		for i := range many {
			host := model.Ref{Namespace: "g10", Name: fmt.Sprintf("h%d", i)}
			if b := r.bucket.Stored(host); b == nil || b.Machine.State != v1.StateProvisioning {
				t.Fatalf("%s: %+v", host, b)
			}
		}
		r.hosts.fail(nil)
		pass(controller.AwayMax + time.Duration(many)/perSecond*time.Second)
		for i := range many {
			if s := r.host(fmt.Sprintf("h%d", i)).Status; s.State != v1.StateProvisioning {
				t.Fatalf("h%d: %+v", i, s)
			}
		}
	})
}

// TestStatusesFollow: fewer statuses are written while machines boot.
func TestStatusesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 4000 { // in 4 s
			if i%20 == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			r.Served(r.add(fmt.Sprintf("h%d", i)), config, hash, nil)
		}
		// Those of the first 40 hosts may come before the storm is noticed.
		if _, writes := r.hosts.count(); writes > 40+5*inStorm || writes < 3*inStorm {
			t.Errorf("%d writes in 4 s of a storm", writes)
		}
		pass(10 * time.Second)
		if _, writes := r.hosts.count(); writes != 4000 {
			t.Errorf("%d writes for 4000 hosts", writes)
		}
	})
}

func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, b := r.add("a"), r.add("b")
		mac := netaddr.MAC{2, 0, 0, 0, 0, 1}
		r.observe("a", mac.String())
		r.observe("b", mac.String())
		pass(time.Second)
		for _, name := range []string{"a", "b"} {
			c := meta.FindStatusCondition(r.host(name).Status.Conditions, v1.ConditionIdentityUnique)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "DuplicateIdentity" ||
				!strings.Contains(c.Message, mac.String()) || c.ObservedGeneration != 3 {
				t.Errorf("%s: %+v", name, c)
			}
			if e := r.allEvents()["DuplicateIdentity g10/"+name]; e == nil || e.Count != 1 ||
				e.Type != v1.EventWarning || e.Message != c.Message || e.InvolvedObject.UID != "uid-"+name {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if s := r.host("a").Status; s.LastSeen != nil || s.BootCount != 0 || s.State != "" {
			t.Errorf("a was not served: %+v", s)
		}

		// Serving leaves the condition alone; a replica's report of the same makes no event.
		r.Served(a, config, hash, nil)
		r.observe("b", mac.String())
		pass(time.Minute)
		if !meta.IsStatusConditionFalse(r.host("a").Status.Conditions, v1.ConditionIdentityUnique) ||
			r.allEvents()["DuplicateIdentity g10/b"].Count != 1 {
			t.Error("serving changed the condition, or the same conflict was reported twice")
		}

		// One that ends while this server does not know of it is corrected when the host is served.
		forget := func() {
			r.statuses.mu.Lock()
			delete(r.statuses.findings, b.Ref)
			r.statuses.mu.Unlock()
		}
		forget()
		r.observe("a", "02:00:00:00:00:0a")
		synctest.Wait()
		forget()
		pass(time.Minute)
		if !meta.IsStatusConditionTrue(r.host("a").Status.Conditions, v1.ConditionIdentityUnique) ||
			r.allEvents()["IdentityUnique g10/a"] == nil {
			t.Errorf("after the conflict: %+v", r.host("a").Status.Conditions)
		}

		r.Served(b, config, hash, nil)
		pass(time.Minute)
		if !meta.IsStatusConditionTrue(r.host("b").Status.Conditions, v1.ConditionIdentityUnique) {
			t.Errorf("b: %+v", r.host("b").Status.Conditions)
		}

		// Hosts without a conflict have no condition.
		r.add("c")
		r.observe("c", "02:00:00:00:00:0c")
		pass(time.Minute)
		if c := r.host("c").Status.Conditions; len(c) > 0 {
			t.Errorf("c: %+v", c)
		}
	})
}

func TestGoneAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(&model.Host{Ref: model.Ref{Namespace: "g10", Name: "deleted"}, UID: "u"}, config, hash, nil)
		r.Served(&model.Host{Ref: host.Ref, UID: "of its predecessor"}, config, hash, nil)
		pass(time.Minute)
		if s := r.host("server1").Status; s.BootCount != 0 {
			t.Errorf("the news of another object: %+v", s)
		}
		r.hosts.fail(errors.New("damaged"))
		other := r.add("server2")
		r.statuses.Condition(other, isReadable("host g10/server2 boots an old image"))
		r.Served(host, config, hash, nil)
		pass(5 * time.Minute)
		if _, states := r.Tracker.Pending(); states != 1 || r.statuses.Pending() != 1 {
			t.Errorf("%d and %d are pending; what the store refuses is tried for ever", states, r.statuses.Pending())
		}
		r.hosts.fail(nil)
		pass(controller.DefaultRetryMax)
		if s := r.host("server1").Status; s.State != v1.StateProvisioning {
			t.Errorf("once the store takes it: %+v", s)
		}
		if !meta.IsStatusConditionFalse(r.host("server2").Status.Conditions, v1.ConditionConfigReadable) {
			t.Errorf("once the store takes it: %+v", r.host("server2").Status.Conditions)
		}
	})
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(host, config, hash, nil)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		r.Served(host, config, hash, nil) // not due yet
		synctest.Wait()
		r.stop()
		for i := range 500 {
			r.Served(r.add(fmt.Sprintf("h%d", i)), config, hash, nil)
			r.Record(v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: "server1"}, v1.EventNormal,
				"Test", fmt.Sprint(i))
		}
		if err := r.shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		written := 0
		for _, object := range r.hosts.objects {
			if status := &object.(*v1.BareMetalHost).Status; status.LastConfigHash == hash {
				written++
			}
		}
		if written != 501 {
			t.Errorf("%d statuses are written; want 501", written)
		}
		if seen := r.host("server1").Status.LastSeen; seen == nil || time.Since(seen.Time) > time.Second {
			t.Errorf("server1 was last seen at %v by its status", seen)
		}
		if objects, _ := r.store.count(); objects != 1001 {
			t.Errorf("%d events", objects)
		}
		r.Served(host, config, hash, nil)
		if boots, states := r.Tracker.Pending(); boots+states+r.Recorder.Pending() != 0 {
			t.Error("something is taken after Shutdown")
		}

		late := newRig(t)
		late.stop()
		late.Served(late.add("server1"), config, hash, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := late.shutdown(ctx); !errors.Is(err, context.Canceled) ||
			!strings.Contains(err.Error(), "1 hosts could not be stored") {
			t.Errorf("Shutdown out of time: %v", err)
		}
	})
}

func TestConfigReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		readable := func() *metav1.Condition {
			return meta.FindStatusCondition(r.host("server1").Status.Conditions, v1.ConditionConfigReadable)
		}
		r.statuses.Condition(host, isReadable(""))
		pass(time.Minute)
		if c := readable(); c != nil {
			t.Errorf("a host that never had the trouble: %+v", c)
		}
		r.statuses.Condition(host, isReadable("host g10/server1 boots an old image"))
		pass(time.Minute)
		c := readable()
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "IgnitionTooOld" ||
			c.Message != "host g10/server1 boots an old image" || c.ObservedGeneration != 3 {
			t.Errorf("%+v", c)
		}
		if e := r.allEvents()["IgnitionTooOld g10/server1"]; e == nil || e.Type != v1.EventWarning {
			t.Errorf("%+v", e)
		}
		r.Served(host, config, hash, nil) // leaves it alone
		r.add("server2")
		r.observe("server1", "02:00:00:00:00:01")
		r.observe("server2", "02:00:00:00:00:01")
		pass(time.Minute)
		if c := readable(); c == nil || c.Status != metav1.ConditionFalse {
			t.Errorf("%+v", c)
		}
		r.statuses.Condition(host, isReadable(""))
		pass(time.Minute)
		if c := readable(); c == nil || c.Status != metav1.ConditionTrue ||
			r.allEvents()["ConfigReadable g10/server1"] == nil {
			t.Errorf("%+v", c)
		}
	})
}

// isReadable is the condition ConfigReadable: False with a message, or True with none.
func isReadable(message string) explain.Condition {
	c := explain.ConfigReadable(nil)
	if message != "" {
		c.Met, c.Reason, c.Message = false, "IgnitionTooOld", message
	}
	return c
}

// TestConflictsFollowTheHosts makes random changes of hosts, and loads. Each time the conflicts that the writer knows
// are those of the inventory, also after it has missed changes.
func TestConflictsFollowTheHosts(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		inv := snapshot.New(snapshot.Options{})
		w := NewStatusWriter(StatusOptions{Boots: boots.New(boots.Options{}), Inventory: inv})
		item := func(name string) kvstore.Item {
			return kvstore.Item{Key: "g10/" + name, Revision: 1, Value: fmt.Appendf(nil, `{"metadata":{"uid":"%d"},"spec":`+
				`{"bootMACAddress":"02:00:00:00:00:%02d","ip":"10.0.0.%d"}}`, r.IntN(2), r.IntN(5), r.IntN(5))}
		}
		for step := range 60 {
			switch name := fmt.Sprint("h", r.IntN(8)); r.IntN(6) {
			case 0:
				inv.Hosts().Delete("g10/"+name, 2)
			case 1:
				inv.Hosts().Load([]kvstore.Item{item("h0"), item("h1"), item("h2")})
			default:
				inv.Hosts().Put(item(name))
			}
			changes := w.changes.Take()
			if r.IntN(3) == 0 {
				changes = []snapshot.Change{{All: true, Reload: true}}
			}
			for _, change := range changes {
				w.changed(change)
			}
			for _, h := range inv.View().Hosts() {
				var known []string
				if f := w.findingsOf(h.Ref); f != nil && f.uid == h.UID {
					known = f.conflicts
				}
				if want := conflictsOf(inv.View(), h.Ref); !slices.Equal(known, want) {
					t.Fatalf("seed %d, step %d: %s has %v, want %v", seed, step, h.Ref, known, want)
				}
			}
		}
	}
}
