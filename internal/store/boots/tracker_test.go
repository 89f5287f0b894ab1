package boots

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

// TestBootsAreSuperseded is the table of what boots become: each has its steps, its outcome and its reason, goes into
// the history when the next one begins, and is there before the next one is stored.
func TestBootsAreSuperseded(t *testing.T) {
	host := newHost("server1")
	forever := newHost("server1")
	forever.Boot = &model.HostBoot{Forever: true}
	for name, c := range map[string]struct {
		do   func(t *testing.T, r *rig)
		want []string // the newest boot last
	}{
		"every step": {func(t *testing.T, r *rig) {
			r.script(host)
			for range 2 {
				r.TargetLogin(host, image, "iqn.a")
				r.KernelRead(host, image, "/vmlinuz")
				r.InitrdRead(host, image, "/initrd")
				r.Served(host, config, hash, nil)
			}
			if err := r.Complete(t.Context(), host); err != nil {
				t.Error(err)
			}
		}, []string{"server1.1 Provisioned: Script, TargetLogin, Kernel, Initrd, Config, BootComplete"}},
		"abandoned": {func(_ *testing.T, r *rig) {
			r.script(host)
			pass(time.Minute)
			r.script(host)
			r.Served(host, config, hash, nil)
			pass(time.Minute)
			r.script(host)
		}, []string{"server1.1 Abandoned: Script", "server1.2 Abandoned: Script, Config", "server1.3 Booting: Script"}},
		"the next begins before anything is stored": {func(_ *testing.T, r *rig) {
			r.script(host)
			r.Served(host, config, hash, nil)
			r.script(host)
		}, []string{"server1.1 Abandoned: Script, Config", "server1.2 Booting: Script"}},
		"installed, and then its disk": {func(_ *testing.T, r *rig) {
			r.script(host)
			r.Served(host, config, hash, nil)
			pass(time.Minute)
			r.LocalBoot(host, "it was given its config", nil)
			r.LocalBoot(host, "it was given its config", nil)
			pass(time.Minute)
			r.LocalBoot(host, "it is provisioned", nil)
		}, []string{"server1.1 Provisioned: Script, Config", "server1.2 LocalBoot (it was given its config): Script",
			"server1.3 LocalBoot (it is provisioned): Script"}},
		"boots its disk and completes": {func(t *testing.T, r *rig) {
			r.script(host)
			r.Served(host, config, hash, nil)
			pass(time.Minute)
			r.LocalBoot(host, "it was given its config", nil)
			pass(time.Minute)
			if err := r.Complete(t.Context(), host); err != nil {
				t.Error(err)
			}
		}, []string{"server1.1 Provisioned: Script, Config", "server1.2 Provisioned: Script, BootComplete"}},
		"failed again and again": {func(_ *testing.T, r *rig) {
			for range 5 {
				r.Failed(host, "its image is missing", nil)
				pass(time.Minute)
			}
			r.script(host)
		}, []string{"server1.1 Failed (its image is missing)", "server1.2 Booting: Script"}},
		"fails while it boots, for two reasons": {func(_ *testing.T, r *rig) {
			r.script(host)
			r.Failed(host, "its image is missing", nil)
			pass(time.Minute)
			r.Failed(host, "its image is damaged", nil)
			pass(time.Minute)
			r.Failed(host, "its image is damaged", nil)
		}, []string{"server1.1 Failed (its image is damaged): Script"}},
		"fails after a good boot": {func(t *testing.T, r *rig) {
			r.script(forever)
			if err := r.Complete(t.Context(), forever); err != nil {
				t.Error(err)
			}
			pass(time.Minute)
			r.Failed(forever, "its image is missing", nil)
		}, []string{"server1.1 Provisioned: Script, BootComplete", "server1.2 Failed (its image is missing)"}},
		"refused its config, which it receives later": {func(_ *testing.T, r *rig) {
			r.script(host)
			r.Served(host, config, hash, nil)
			pass(time.Second)
			r.Refused(host, "its window is closed", nil)
			r.Refused(host, "its window is closed", nil)
			pass(time.Second)
			r.Served(host, config, hash, nil)
		}, []string{"server1.1 Provisioning: Script, Config"}},
		"refused its config": {func(_ *testing.T, r *rig) {
			r.script(host)
			for range 3 {
				r.Refused(host, "its window is closed", nil)
				pass(time.Minute)
			}
		}, []string{"server1.1 Failed (its window is closed): Script"}},
		"completed without its config": {func(t *testing.T, r *rig) {
			r.script(host)
			r.Refused(host, "no config matches", nil)
			pass(time.Minute)
			if err := r.Complete(t.Context(), host); err != nil {
				t.Error(err)
			}
		}, []string{"server1.1 Provisioned (no config matches): Script, BootComplete"}},
		"two end between two writes": {func(_ *testing.T, r *rig) {
			r.script(host)
			pass(time.Minute)
			r.bucket.Fail(errors.New("NATS is away"))
			r.LocalBoot(host, "it is provisioned", nil)
			pass(time.Minute)
			r.script(host)
			pass(time.Minute)
			r.LocalBoot(host, "it is provisioned", nil)
			pass(time.Minute)
			r.bucket.Fail(nil)
		}, []string{"server1.1 Abandoned: Script", "server1.2 LocalBoot (it is provisioned): Script",
			"server1.3 Abandoned: Script", "server1.4 LocalBoot (it is provisioned): Script"}},
		"a machine without scripts": {func(t *testing.T, r *rig) {
			r.Served(host, config, hash, nil)
			if err := r.Complete(t.Context(), host); err != nil {
				t.Error(err)
			}
			pass(time.Hour)
			r.Served(host, config, hash, nil)
		}, []string{"server1.1 Provisioned: Config, BootComplete", "server1.2 Provisioning: Config"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				c.do(t, r)
				pass(time.Minute)
				newest := r.bucket.Stored(host.Ref)
				if diff := cmp.Diff(c.want, stories(append(r.bucket.History(), newest)...)); diff != "" {
					t.Error(diff)
				}
				r.wantHistoryFirst(t)
				for _, b := range r.bucket.History() {
					if b.Begun == nil || b.Ended == nil || b.Begun.After(b.Ended.Time) {
						t.Errorf("%s began at %v and ended at %v", b.Name, b.Begun, b.Ended)
					}
				}
			})
		})
	}
}

// wantHistoryFirst checks that each boot that the bucket had was in the history before the next one was stored, and
// that the history was never ahead of the bucket: a server that starts goes on to count from the bucket.
func (r *rig) wantHistoryFirst(t *testing.T) {
	t.Helper()
	log := r.bucket.Log()
	for _, b := range r.bucket.History() {
		kept := slices.Index(log, "kept g10/"+b.Name)
		next := slices.Index(log, "stored g10/"+Name(b.Host, b.Number+1))
		wasStored := slices.Contains(log, "stored g10/"+b.Name)
		if wasStored && next >= 0 && next < kept {
			t.Errorf("%s came into the history after the next boot was stored: %q", b.Name, log)
		}
		isAhead := func(entry string) bool {
			number, ok := strings.CutPrefix(entry, "stored g10/"+b.Host+".")
			n, _ := strconv.ParseInt(number, 10, 64)
			return ok && n >= b.Number
		}
		if !slices.ContainsFunc(log[:kept], isAhead) {
			t.Errorf("%s came into the history before the bucket: %q", b.Name, log)
		}
	}
}

// TestMachinesAreDescribed: what a machine said and was given is in its boot, from the request that has changed it.
func TestMachinesAreDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := newHost("server1")
		r.ScriptServed(host, "image g10/live", false, func(b *v1.Boot) { b.Client, b.Script = "192.0.2.1", "sha256:1" })
		pass(time.Second)
		r.Served(host, config, hash, func(b *v1.Boot) { b.Config.Generation = 7 })
		pass(time.Second)
		got := r.bucket.Stored(host.Ref)
		if got.Client != "192.0.2.1" || got.Script != "sha256:1" || got.Host != "server1" || got.Number != 1 ||
			got.Config == nil || *got.Config != (v1.BootConfig{Name: "g10/builder", Hash: "sha256:abc", Generation: 7}) {
			t.Errorf("%+v", got)
		}
		pass(time.Minute)
		r.script(host)
		pass(time.Second)
		if got := r.bucket.Stored(host.Ref); got.Client != "" || got.Config != nil {
			t.Errorf("the next boot has parts of the former one: %+v", got)
		}
	})
}

// TestHostOfTheSameName: another host of the same name begins with its own state, the number of its boots goes on, and
// a boot-complete of the former one that waits gets an error.
func TestHostOfTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		former, next := newHost("server1"), newHost("server1")
		next.UID = "another"
		r.script(former)
		if err := r.Complete(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		r.script(former)
		pass(time.Minute)
		release := make(chan struct{})
		r.bucket.Next(func(store func() (uint64, error)) (uint64, error) { <-release; return store() })
		outcome := make(chan error, 1)
		go func() { outcome <- r.Complete(t.Context(), former) }()
		synctest.Wait()
		if p := r.Progress(next); p != (model.Progress{}) {
			t.Errorf("a host that has done nothing: %+v", p)
		}
		r.script(next)
		if err := <-outcome; !errors.Is(err, ErrGone) {
			t.Errorf("the boot-complete of the former host: %v", err)
		}
		close(release)
		pass(time.Minute)
		r.wantState(t, next, v1.StateBooting, 1)
		got := r.bucket.Stored(next.Ref)
		if story(got) != "server1.3 Booting: Script" || string(got.HostUID) != next.UID {
			t.Errorf("%s of host %s", story(got), got.HostUID)
		}
		want := []string{"server1.1 Provisioned: Script, BootComplete", "server1.2 Provisioned: Script, BootComplete"}
		if diff := cmp.Diff(want, stories(r.bucket.History()...)); diff != "" {
			t.Error(diff)
		}
		for _, b := range r.bucket.History() {
			if string(b.HostUID) != former.UID {
				t.Errorf("%s is of host %s", b.Name, b.HostUID)
			}
		}
	})
}

// TestBootsAfterARestart: a server that starts goes on with the boots of the bucket, and writes none by itself.
func TestBootsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hosts := []*model.Host{}
		for i := range 100 {
			hosts = append(hosts, newHost(fmt.Sprint("h", i)))
			r.script(hosts[i])
			r.Served(hosts[i], config, hash, nil)
		}
		pass(time.Minute)
		r.stop()
		written := len(r.bucket.Log())
		again := rigOver(t, r.bucket, true)
		pass(time.Minute)
		for _, host := range hosts {
			if got, want := again.Progress(host), r.Progress(host); !cmp.Equal(got, want) {
				t.Fatalf("%+v; before the restart %+v", got, want)
			}
		}
		if n := len(r.bucket.Log()); n != written {
			t.Errorf("%d writes", n-written)
		}
		again.Served(hosts[0], config, hash, nil) // the machine asks again
		again.KernelRead(hosts[0], image, "/vmlinuz")
		pass(time.Minute)
		if got := story(r.bucket.Stored(hosts[0].Ref)); got != "h0.1 Provisioning: Script, Config, Kernel" {
			t.Error(got)
		}
		again.script(hosts[0])
		pass(time.Minute)
		if diff := cmp.Diff([]string{"h0.1 Abandoned: Script, Config, Kernel"}, stories(r.bucket.History()...)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBootsOfUnknownMachines: the newest boot of an unknown machine is kept, without a host, while the machine is
// listed. There is no history of them, no event and no status.
func TestBootsOfUnknownMachines(t *testing.T) {
	stranger := model.Stranger("52-54-00-00-00-01")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 3 {
			r.script(stranger)
			r.Served(stranger, config, hash, nil)
			pass(time.Minute)
		}
		got := r.bucket.Stored(stranger.Ref)
		if story(got) != "unknown_52-54-00-00-00-01.3 Provisioning: Script, Config" || got.Host != "" || got.HostUID != "" {
			t.Errorf("%s of host %q", story(got), got.Host)
		}
		_, isUnwritten := r.BeginWrite(stranger.Ref)
		if isUnwritten || len(r.bucket.History()) > 0 || len(r.events.n) > 0 || len(r.Open(time.Now())) > 0 {
			t.Errorf("status %t, history %d, events %v, open %v", isUnwritten, len(r.bucket.History()), r.events.n, r.Open(time.Now()))
		}
		r.stop()
		again := rigOver(t, r.bucket, true)
		again.script(stranger)
		pass(time.Minute)
		if got := story(r.bucket.Stored(stranger.Ref)); got != "unknown_52-54-00-00-00-01.4 Booting: Script" {
			t.Errorf("after a restart: %s", got)
		}
		again.Forget(stranger)
		pass(time.Minute)
		if got := r.bucket.Stored(stranger.Ref); got != nil {
			t.Errorf("forgotten: %s", story(got))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 1000 { // as a client does that claims many hardware addresses
			r.script(model.Stranger(fmt.Sprint(i)))
			if i >= 10 {
				r.Forget(model.Stranger(fmt.Sprint(i - 10)))
			}
		}
		if n := len(r.machines); n != 10 {
			t.Errorf("%d machines are in memory", n)
		}
		pass(time.Minute)
		if n := len(r.bucket.Log()); n != 10 {
			t.Errorf("%d boots were stored", n)
		}
	})
}
