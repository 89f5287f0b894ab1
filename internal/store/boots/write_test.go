package boots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots/bootstest"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
)

// TestCompleteIsDurable: a boot-complete is answered once the bucket has it, and refused while the bucket is away; the
// machine's state is right meanwhile.
func TestCompleteIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := newHost("server1")
		r.script(host)
		if err := r.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		got := r.bucket.Stored(host.Ref)
		if got.Machine.State != v1.StateProvisioned || string(got.HostUID) != host.UID {
			t.Fatalf("in the bucket: %+v", got)
		}
		before := len(r.bucket.Log())
		if err := r.Complete(t.Context(), host); err != nil || len(r.bucket.Log()) > before+1 {
			t.Fatalf("said again: %v, %q", err, r.bucket.Log())
		}

		other := newHost("server2")
		r.bucket.Fail(errors.New("the disk is full"))
		began := time.Now()
		if err := r.Complete(t.Context(), other); err == nil || time.Since(began) > completeTimeout {
			t.Fatalf("with the bucket away: %v after %v", err, time.Since(began))
		}
		if err := r.Complete(t.Context(), other); err == nil || time.Since(began) > 2*completeTimeout {
			t.Fatalf("and again: %v after %v", err, time.Since(began))
		}
		if armed, _ := decide.Armed(other, r.Progress(other)); armed {
			t.Fatal("a machine that is done would install again")
		}
		r.bucket.Fail(nil)
		if err := r.Complete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if n := r.events.n["BootComplete g10/server2"]; n != 1 {
			t.Errorf("%d events of what was answered", n)
		}
	})
}

// TestOtherServerKnows: a machine that completes at one server and asks another one in the next moment boots its disk.
func TestOtherServerKnows(t *testing.T) {
	js := kvtest.JetStream(t)
	start := func() *rig { // no status ever says it to the other
		r := &rig{Tracker: New(Options{}), bucket: bootstest.New()}
		store := kvstore.New(objects.Stored(kinds.Of(kinds.Boots)), kvstore.Options{}, r.Observer())
		kvtest.Run(t, js, store)
		r.run(t, store)
		return r
	}
	a, b := start(), start()
	for i := range 50 {
		host := newHost(fmt.Sprint("h", i))
		a.script(host)
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

// TestUnknownOutcomeIsRepeated: a batch that was stored although its answer was an error is written again. That makes
// no second boot, and the history has none twice.
func TestUnknownOutcomeIsRepeated(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprint("exclusive=", exclusive), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rigOver(t, bootstest.New(), exclusive)
				host := newHost("server1")
				r.script(host)
				pass(time.Minute)
				r.script(host)
				pass(time.Minute) // the step is stored, and the next batch is that of the completion
				r.bucket.Next(func(store func() (uint64, error)) (uint64, error) {
					if _, err := store(); err != nil {
						t.Error(err)
					}
					return 0, apierrors.NewTimeoutError("no answer", 1)
				})
				if err := r.Complete(t.Context(), host); err == nil {
					t.Error("an unknown outcome was taken for a good one")
				}
				if err := r.Complete(t.Context(), host); err != nil {
					t.Error(err)
				}
				pass(time.Minute)
				r.wantState(t, host, v1.StateProvisioned, 2)
				r.wantLog(t, "stored g10/server1.1", "kept g10/server1.1",
					"stored g10/server1.2", "stored g10/server1.2", "stored g10/server1.2")
				if got := story(r.bucket.Stored(host.Ref)); got != "server1.2 Provisioned: Script, BootComplete" {
					t.Error(got)
				}
				if boots, _ := r.Pending(); boots != 0 {
					t.Errorf("%d boots are pending", boots)
				}
			})
		})
	}
}

// TestStepsThatDecideNothingWait: a step that does not decide the next boot is stored within latePause, and not at
// once: with the next step that does, or with others of its kind.
func TestStepsThatDecideNothingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := newHost("server1")
		r.script(host)
		pass(time.Second)
		r.TargetLogin(host, image, "iqn.a")
		pass(time.Second)
		r.KernelRead(host, image, "/vmlinuz")
		r.script(host) // iPXE asks again
		pass(latePause - time.Second - time.Millisecond)
		if n := len(r.bucket.Log()); n != 1 {
			t.Errorf("%d writes before latePause is over", n)
		}
		pass(time.Millisecond)
		if got, n := story(r.bucket.Stored(host.Ref)), len(r.bucket.Log()); n != 2 ||
			got != "server1.1 Booting: Script, TargetLogin, Kernel" {
			t.Errorf("after latePause: %s, %d writes", got, n)
		}
		r.InitrdRead(host, image, "/initrd")
		pass(time.Second)
		r.Served(host, config, hash, nil)
		pass(time.Second)
		if got, n := story(r.bucket.Stored(host.Ref)), len(r.bucket.Log()); n != 3 ||
			got != "server1.1 Provisioning: Script, TargetLogin, Kernel, Initrd, Config" {
			t.Errorf("with a step that decides: %s, %d writes", got, n)
		}
		pass(time.Minute)
		if n := len(r.bucket.Log()); n != 3 {
			t.Errorf("%d writes; nothing has changed", n)
		}
	})
}

// TestHistoryIsDroppedFirst: where the history takes no boots, those of machines go on.
func TestHistoryIsDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := newHost("server1")
		boot := func() {
			t.Helper()
			r.script(host)
			if err := r.Complete(t.Context(), host); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
		}
		boot()
		r.bucket.FailHistory(errors.New("the disk is full"))
		boot()
		boot()
		r.wantState(t, host, v1.StateProvisioned, 3)
		r.bucket.FailHistory(nil)
		boot()
		if got, want := stories(r.bucket.History()...), []string{"server1.3 Provisioned: Script, BootComplete"}; !slices.Equal(
			got, want) {
			t.Errorf("the history has %q; want %q", got, want)
		}
		if got := r.bucket.Stored(host.Ref).Name; got != "server1.4" {
			t.Error(got)
		}
	})
}

// TestShutdownStoresTheRest: what waits is stored, also what decides nothing; later steps are ignored.
func TestShutdownStoresTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hosts := []*model.Host{}
		r.script(newHost("server1"))
		pass(time.Second)
		r.KernelRead(newHost("server1"), image, "/vmlinuz")
		pass(time.Second)
		r.stop()
		for i := range 2500 { // more than one batch
			hosts = append(hosts, newHost(fmt.Sprint("h", i)))
			r.script(hosts[i])
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := story(r.bucket.Stored(newHost("server1").Ref)); got != "server1.1 Booting: Script, Kernel" {
			t.Error(got)
		}
		for _, host := range hosts {
			if got := story(r.bucket.Stored(host.Ref)); got != host.Ref.Name+".1 Booting: Script" {
				t.Fatal(got)
			}
		}
		r.Served(hosts[0], config, hash, nil)
		if boots, _ := r.Pending(); boots != 0 {
			t.Errorf("%d boots are taken after Shutdown", boots)
		}
		if err := r.Complete(t.Context(), newHost("late")); err == nil {
			t.Error("a boot-complete after Shutdown is answered as if it were durable")
		}
	})
}

// TestFormerBootsOutliveAnOutage: boots that are superseded while the store is away are in the history afterwards.
func TestFormerBootsOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := newHost("server1")
		r.script(host)
		pass(time.Minute)
		away := errors.New("away")
		r.bucket.FailHistory(away)
		r.bucket.Fail(away)
		r.script(host)
		pass(time.Minute)
		r.bucket.Fail(nil)
		r.bucket.FailHistory(nil)
		pass(time.Minute)
		r.wantLog(t, "stored g10/server1.1", "kept g10/server1.1", "stored g10/server1.2")
	})
}

// slow is a history that takes a while, and nothing from a caller who goes away meanwhile.
type slow struct{ Archive }

func (s slow) Append(ctx context.Context, boots []*v1.Boot) error {
	time.Sleep(time.Second)
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Archive.Append(ctx, boots)
}

// TestStopKeepsFormerBoots: a server that stops while a former boot goes to the history does not give it up.
func TestStopKeepsFormerBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.stop()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx, r.bucket, slow{r.bucket}) })
		host := newHost("server1")
		r.script(host)
		pass(time.Minute)
		r.script(host)
		pass(time.Millisecond) // the former boot is under way
		cancel()
		running.Wait()
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantLog(t, "stored g10/server1.1", "kept g10/server1.1", "stored g10/server1.2")
	})
}

func BenchmarkServed(b *testing.B) {
	j := New(Options{})
	host := newHost("server1")
	b.ReportAllocs()
	for b.Loop() {
		j.Served(host, config, hash, nil)
	}
}

// retrying is a bucket during whose writes of a completed boot the machine asks again. An earlier one may still be
// under way when the machine completes its boot: a request that comes after that is no retry.
type retrying struct {
	Store
	again func()
}

func (b *retrying) PutAll(ctx context.Context, puts []kvstore.Put) (uint64, error) {
	time.Sleep(time.Millisecond)
	for _, put := range puts {
		if boot, ok := put.Object.(*v1.Boot); ok && boot.Machine.State == v1.StateProvisioned {
			b.again()
		}
	}
	return b.Store.PutAll(ctx, puts)
}

// TestRetriesDelayNoComplete: the answer of boot-complete waits for what was known by then, and for no later retry.
func TestRetriesDelayNoComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := newHost("server1")
		r.stop()
		r.run(t, &retrying{r.bucket, func() { r.ScriptServed(host, "image g10/live", true, nil) }})
		r.script(host)
		r.Served(host, config, hash, nil)
		if err := r.Complete(t.Context(), host); err != nil {
			t.Error(err)
		}
		if state := r.bucket.Stored(host.Ref).Machine.State; state != v1.StateProvisioned {
			t.Errorf("stored: %s", state)
		}
	})
}
