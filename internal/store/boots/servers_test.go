package boots

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots/bootstest"
)

var errCut = errors.New("the link is cut")

// cutRig is a server whose link to the bucket can be cut.
func cutRig(t *testing.T, bucket *bootstest.Bucket) (*rig, *link) {
	r := &rig{bucket: bucket, events: &events{n: map[string]int{}}}
	r.Tracker = New(Options{Events: r.events, Stored: bucket.Stored})
	l := &link{bucket: bucket, Observer: r.Observer()}
	bucket.Observe(l)
	r.run(t, l)
	return r, l
}

func (r *rig) fetch(host *model.Host, client string) {
	r.Fetch(&decide.Request{At: time.Now(), Caller: identity.Caller{Addr: netip.MustParseAddr(client)}}, host,
		model.Limits{MaxFetches: 9})
}

// TestStatesOfTwoServers: what one server stores, the other one knows. After a cut, the state of the one that has seen
// the machine later counts, no state goes back, and the history has each boot once.
func TestStatesOfTwoServers(t *testing.T) {
	host := newHost("server1")
	for name, c := range map[string]struct {
		// connected is done before b is cut off, and cut while it is.
		connected, cut func(t *testing.T, a, b *rig)
		state          string
		boots          int64
		// newest is the boot in the bucket, and history are the former ones.
		newest  string
		history []string
	}{
		"connected": {func(t *testing.T, a, b *rig) {
			a.script(host)
			pass(time.Second)
			b.Served(host, config, hash, nil)
			pass(time.Second)
			if err := a.Complete(t.Context(), host); err != nil {
				t.Error(err)
			}
			b.wantState(t, host, v1.StateProvisioned, 1)
		}, func(*testing.T, *rig, *rig) {}, v1.StateProvisioned, 1, "server1.1 Provisioned: Script, Config, BootComplete", nil},
		"the server that was not cut off saw it later": {func(_ *testing.T, a, _ *rig) { a.script(host) },
			func(t *testing.T, a, b *rig) {
				b.Served(host, config, hash, nil)
				pass(time.Minute)
				if err := a.Complete(t.Context(), host); err != nil {
					t.Error(err)
				}
			}, v1.StateProvisioned, 1, "server1.1 Provisioned: Script, Config, BootComplete", nil},
		"the server that was cut off saw it later": {func(_ *testing.T, a, _ *rig) { a.script(host) },
			func(t *testing.T, a, b *rig) {
				a.Served(host, config, hash, nil)
				pass(time.Minute)
				if err := b.Complete(t.Context(), host); err == nil {
					t.Error("a boot-complete without the bucket is answered as durable")
				}
			}, v1.StateProvisioned, 1, "server1.1 Provisioned: Script, Config, BootComplete", nil},
		"both begin the next boot": {func(_ *testing.T, a, _ *rig) { a.script(host); pass(time.Minute) },
			func(_ *testing.T, a, b *rig) {
				a.script(host)
				pass(time.Minute)
				b.script(host)
				b.Served(host, config, hash, nil)
			}, v1.StateProvisioning, 3, "server1.3 Provisioning: Script, Config",
			[]string{"server1.1 Abandoned: Script", "server1.2 Abandoned: Script"}},
		"the other one is two boots ahead": {func(_ *testing.T, a, _ *rig) { a.script(host); pass(time.Minute) },
			func(t *testing.T, a, b *rig) {
				for range 2 {
					a.script(host)
					if err := a.Complete(t.Context(), host); err != nil {
						t.Error(err)
					}
					pass(time.Minute)
				}
				b.script(host)
			}, v1.StateBooting, 4, "server1.4 Booting: Script", []string{"server1.1 Abandoned: Script",
				"server1.2 Provisioned: Script, BootComplete", "server1.3 Provisioned: Script, BootComplete"}},
		"the one that was cut off is two boots ahead": {func(_ *testing.T, a, _ *rig) { a.script(host); pass(time.Minute) },
			func(_ *testing.T, a, b *rig) {
				a.script(host)
				pass(time.Minute)
				b.script(host)
				b.Served(host, config, hash, nil)
				pass(time.Minute)
				b.script(host)
			}, v1.StateBooting, 3, "server1.3 Booting: Script",
			[]string{"server1.1 Abandoned: Script", "server1.2 Abandoned: Script, Config"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := bootstest.New()
				a := rigOver(t, bucket, false)
				b, link := cutRig(t, bucket)
				c.connected(t, a, b)
				pass(time.Second)
				link.cut(errCut)
				c.cut(t, a, b)
				pass(time.Minute)
				link.cut(nil)
				pass(time.Minute)
				a.wantState(t, host, c.state, c.boots)
				b.wantState(t, host, c.state, c.boots)
				if got := story(bucket.Stored(host.Ref)); got != c.newest {
					t.Errorf("%s; want %s", got, c.newest)
				}
				if diff := cmp.Diff(c.history, stories(bucket.History()...)); diff != "" {
					t.Error(diff)
				}
				written := len(bucket.Log())
				pass(time.Hour)
				if n := len(bucket.Log()) - written; n > 0 {
					t.Errorf("%d writes although nothing happens: %q", n, bucket.Log())
				}
			})
		})
	}
}

// TestWindowsOfTwoServers: of what two servers have counted, that counts by which more is refused, whoever saw the
// machine later.
func TestWindowsOfTwoServers(t *testing.T) {
	host := newHost("server1")
	for name, later := range map[string]bool{"counted by the server that was cut off": true, "by the other one": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := bootstest.New()
				a := rigOver(t, bucket, false)
				b, link := cutRig(t, bucket)
				a.script(host)
				pass(time.Second)
				link.cut(errCut)
				many, few := a, b
				if later {
					many, few = b, a
				}
				for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
					many.fetch(host, client)
				}
				many.Served(host, config, hash, nil)
				pass(time.Minute)
				few.fetch(host, "192.0.2.1")
				few.Served(host, config, hash, nil)
				pass(time.Second)
				link.cut(nil)
				pass(time.Minute)
				for _, r := range []*rig{a, b, rigOver(t, bucket, false)} {
					if w := r.Progress(host).Window; w == nil || w.Fetches != 3 {
						t.Errorf("%+v", w)
					}
				}
			})
		})
	}
}

// TestConflictsAreRepeated: where another server has stored a boot of a batch in the meantime, the others are
// stored at once, and that one is merged with the other server's.
func TestConflictsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rigOver(t, bootstest.New(), false)
		hosts := []*model.Host{newHost("server1"), newHost("server2"), newHost("server3")}
		for _, host := range hosts {
			r.script(host)
		}
		pass(time.Minute)
		r.bucket.Next(func(store func() (uint64, error)) (uint64, error) {
			r.bucket.ChangeForeign(hosts[1].Ref, func(theirs *v1.Boot) {
				theirs.Outcome, theirs.Machine.State = v1.OutcomeProvisioned, v1.StateProvisioned
				theirs.Machine.LastSeen.Time = time.Now().Add(2 * time.Second)
			})
			return store()
		})
		began := time.Now()
		for _, host := range hosts {
			r.Served(host, config, hash, nil)
		}
		if err := r.Complete(t.Context(), hosts[2]); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		pass(time.Second) // few boots are stored each by itself
		r.wantState(t, hosts[0], v1.StateProvisioning, 1)
		r.wantState(t, hosts[1], v1.StateProvisioned, 1)
		r.wantState(t, hosts[2], v1.StateProvisioned, 1)
		pass(time.Minute)
		for i, want := range []string{
			"server1.1 Provisioning: Script, Config", "server2.1 Provisioned: Script, Config",
			"server3.1 Provisioned: Script, Config, BootComplete",
		} {
			if got := story(r.bucket.Stored(hosts[i].Ref)); got != want {
				t.Errorf("%s; want %s", got, want)
			}
		}
	})
}
