package host

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/controller/events"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/boots/bootstest"
	"glowplug/internal/store/snapshot"
)

// stored gives a host as the inventory would have it from the store.
func (r *rig) stored(name string) *model.Host { return model.HostFrom(r.host(name)) }

// TestBoots is a machine with bootMode once that is booted again and again.
func TestBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		armed := func(want bool) {
			t.Helper()
			if got, why := decide.Armed(host, r.Progress(host)); got != want {
				t.Fatalf("armed: %v, %s", got, why)
			}
		}
		state := func(state string, boots int64) {
			t.Helper()
			pass(recordGap)
			if s := r.host("server1").Status; s.State != state || s.BootCount != boots {
				t.Fatalf("%+v; want %s, %d boots", s, state, boots)
			}
		}
		image := model.Ref{Namespace: "g10", Name: "live"}

		armed(true)
		r.ScriptServed(host, "image g10/live", false, nil)
		state(v1.StateBooting, 1)
		time.Sleep(time.Second)
		r.ScriptServed(host, "image g10/live", false, nil) // iPXE asks again
		r.TargetLogin(host, image, "iqn.a")
		r.TargetLogin(host, image, "iqn.a")
		r.KernelRead(host, image, "/vmlinuz")
		r.KernelRead(host, image, "/vmlinuz")
		r.InitrdRead(host, image, "/initrd")
		armed(true)
		time.Sleep(20 * time.Second)
		r.Served(host, config, hash, nil)
		state(v1.StateProvisioning, 1)
		armed(false)
		time.Sleep(10 * time.Minute)
		r.Served(host, config, hash, nil) // an installer asks much later, in the same boot
		pass(seenGap)
		state(v1.StateProvisioning, 1)

		r.LocalBoot(host, "it was given its config", nil)
		state(v1.StateProvisioned, 2)
		time.Sleep(time.Second)
		r.LocalBoot(host, "iPXE asks again", nil)
		armed(false)
		pass(time.Minute)
		state(v1.StateProvisioned, 2)
		r.Served(host, config, hash, nil) // of the installed system
		pass(seenGap)
		state(v1.StateProvisioned, 2)
		pass(time.Minute)
		r.LocalBoot(host, "it is provisioned", nil)
		pass(seenGap)
		state(v1.StateProvisioned, 3)

		host = r.stored("server1")
		host.Boot = &model.HostBoot{Rearm: "2026-11-20"}
		armed(true)
		r.ScriptServed(host, "image g10/live", false, nil)
		pass(seenGap)
		state(v1.StateBooting, 4)
		if s := r.host("server1").Status; s.Rearmed != "2026-11-20" {
			t.Fatalf("%+v", s)
		}
		r.TargetLogin(host, image, "iqn.a")
		armed(true) // until its config
		r.Served(host, config, hash, nil)
		armed(false)
		if err := r.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		pass(seenGap)
		state(v1.StateProvisioned, 4)

		pass(time.Minute)
		events := r.allEvents()
		for reason, count := range map[string]int32{
			boots.ReasonScriptServed: 3, boots.ReasonTargetLogin: 2, boots.ReasonKernelRead: 1,
			boots.ReasonInitrdRead: 1, boots.ReasonConfigServed: 3, boots.ReasonBootComplete: 1,
		} {
			if e := events[reason+" g10/server1"]; e == nil || e.Count != count || e.Type != v1.EventNormal {
				t.Errorf("%s: %+v, want %d", reason, e, count)
			}
		}
	})
}

// TestFailedBoots is a machine whose image cannot be had for a while.
func TestFailedBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		state := func(state string, boots int64) {
			t.Helper()
			pass(recordGap)
			if s := r.host("server1").Status; s.State != state || s.BootCount != boots {
				t.Fatalf("%+v; want %s, %d boots", s, state, boots)
			}
			if armed, why := decide.Armed(host, r.Progress(host)); !armed {
				t.Fatal(why)
			}
		}
		r.Failed(host, "its image is missing", nil)
		state(v1.StateError, 0)
		time.Sleep(5 * time.Second)
		r.Failed(host, "its image is missing", nil) // it asks again for a minute
		pass(seenGap)
		state(v1.StateError, 0)
		r.ScriptServed(host, "image g10/live", false, nil)
		state(v1.StateBooting, 1)
		pass(time.Minute)
		r.Failed(host, "its image is missing", nil)
		state(v1.StateError, 1)
		if p := r.restarted().Progress(host); p.State != v1.StateError {
			t.Fatalf("after a restart: %+v", p)
		}
	})
}

// restarted is the tracker of a server that has read the boots again.
func (r *rig) restarted() *boots.Tracker {
	tracker := boots.New(boots.Options{})
	r.bucket.Load(tracker.Observer())
	return tracker
}

// TestProgressIsRemembered has the store away, and a restart in between.
func TestProgressIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.hosts.fail(apierrors.NewServiceUnavailable("away"))
		r.ScriptServed(host, "image g10/live", false, nil)
		r.Served(host, config, hash, nil)
		pass(time.Minute)
		if p := r.Progress(host); p.State != v1.StateProvisioning {
			t.Fatalf("with the store away: %+v", p)
		}
		r.hosts.fail(nil)
		pass(controller.AwayMax)
		for _, p := range []model.Progress{
			r.restarted().Progress(host),                             // by the boot
			boots.New(boots.Options{}).Progress(r.stored("server1")), // by the status, where there is no boot
		} {
			if p.State != v1.StateProvisioning || p.Script.IsZero() {
				t.Fatalf("after a restart: %+v", p)
			}
		}

		// What an administrator sets counts from then on; another object of the same name has done nothing.
		old := r.host("server1")
		edited := old.DeepCopy()
		edited.Status.State = v1.StateAvailable
		if err := r.SetStatus(t.Context(), edited, old); err != nil {
			t.Fatal(err)
		}
		for _, p := range []model.Progress{r.Progress(host), r.restarted().Progress(host)} {
			if p.State != v1.StateAvailable || p.Boots != 1 {
				t.Fatalf("an edited status: %+v", p)
			}
		}
		pass(time.Minute)
		if s := r.host("server1").Status; s.State != v1.StateAvailable || s.LastConfig != "g10/builder" {
			t.Fatalf("%+v", s)
		}
		other := &model.Host{Ref: host.Ref, UID: "another"}
		if p := r.Progress(other); p != (model.Progress{}) {
			t.Fatalf("another: %+v", p)
		}
	})
}

// BenchmarkBoots is what a boot costs of a fleet that boots all the time: a script and
// a config are noted, stored, and recorded as events.
func BenchmarkBoots(b *testing.B) {
	bucket := bootstest.New()
	recorder := events.New(events.Options{})
	tracker := boots.New(boots.Options{Events: recorder, Stored: bucket.Stored, Exclusive: true})
	bucket.Observe(tracker.Observer())
	statuses := NewStatusWriter(StatusOptions{
		Boots: tracker, Inventory: snapshot.New(snapshot.Options{}), Events: recorder,
	})
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { tracker.Run(ctx, bucket, bucket) })
	running.Go(func() { statuses.Run(ctx, newMemory()) })
	running.Go(func() { recorder.Run(ctx, newMemory(), tracker.Storm) })
	defer running.Wait()
	defer cancel()
	hosts := make([]*model.Host, 100_000)
	for i := range hosts {
		hosts[i] = &model.Host{Ref: model.Ref{Namespace: "fleet", Name: fmt.Sprint("h", i)},
			UID: fmt.Sprint("uid", i)}
	}
	i := 0
	for b.Loop() {
		host := hosts[i%len(hosts)]
		tracker.ScriptServed(host, "image g10/live", false, nil)
		tracker.Served(host, config, hash, nil)
		i++
	}
}
