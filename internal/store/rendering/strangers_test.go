package rendering

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// aRendering is the time that each takes in a crowd.
const aRendering = time.Second

// crowd is a server with a template for everybody, whose rendering takes its time.
type crowd struct {
	t       *testing.T
	inv     *snapshot.Inventory
	decider *decide.Decider
	cache   *Cache

	mu sync.Mutex
	// begun are the addresses that were rendered for, in order; strangers is how many
	// of them that are no hosts are being rendered for now, and most how many were.
	begun           []string
	strangers, most int
	revision        uint64
}

func newCrowd(t *testing.T, slots int) *crowd {
	inv := snapshot.New(snapshot.Options{})
	c := &crowd{t: t, inv: inv, cache: New(Options{Inventory: inv})}
	c.cache.slots = newSlots(slots)
	c.cache.opts.Render = c.render
	c.decider = decide.New(decide.Options{Inventory: inv, Renderer: c.cache})
	t.Cleanup(c.cache.Close)
	source := compile.Source{Type: v1.TypeKickstart, Format: v1.FormatKickstart, Config: "# {{ .IP }}\n", Template: true}
	artifact, found := compile.Compile(source)
	if artifact == nil {
		t.Fatal(found.Summary())
	}
	any := &v1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "any", UID: "1", Generation: 1}}
	any.Spec = v1.IgnitionConfigSpec{
		Type: source.Type, Format: source.Format, Config: source.Config, Template: true,
		Selector: v1.IgnitionConfigSelector{Default: true},
	}
	c.put(inv.Configs(), "a/any", struct {
		*v1.IgnitionConfig
		Compiled *v1.Compiled `json:"compiled"`
	}{any, &v1.Compiled{Artifact: artifact.Bytes, Hash: artifact.Hash, Template: true, Generation: 1}})
	return c
}

func (c *crowd) put(to kvstore.Observer, key string, object any) {
	value, err := json.Marshal(object)
	if err != nil {
		c.t.Fatal(err)
	}
	c.revision++
	to.Put(kvstore.Item{Key: key, Revision: c.revision, Value: value})
}

// host stores a host, which is another each time for all that its template can see.
func (c *crowd) host(ip string) {
	h := &v1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "node-" + ip, UID: "1"}}
	h.Annotations, h.Spec.IP = map[string]string{"change": fmt.Sprint(c.revision)}, ip
	c.put(c.inv.Hosts(), "a/"+h.Name, h)
}

func (c *crowd) render(t *compile.Template, facts *template.Facts) compile.Rendering {
	c.mu.Lock()
	c.begun = append(c.begun, facts.IP)
	if facts.Name == "" {
		c.strangers++
		c.most = max(c.most, c.strangers)
	}
	c.mu.Unlock()
	time.Sleep(aRendering)
	c.mu.Lock()
	defer c.mu.Unlock()
	if facts.Name == "" {
		c.strangers--
	}
	return t.Render(facts)
}

// rendered returns the addresses that have been rendered for.
func (c *crowd) rendered() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.begun)
}

func (c *crowd) ask(ctx context.Context, caller identity.Caller) *fault.Error {
	return c.decider.Config(&decide.Request{Type: decide.Kickstart, Caller: caller, Gone: ctx.Done()}).Err
}

// The callers of a network card that has many addresses, of a network, of several.
func ofOneCard(n int) identity.Caller {
	ip := netip.AddrFrom4([4]byte{127, 1, byte(n >> 8), byte(n)})
	return identity.Caller{Addr: ip, MAC: netaddr.MAC{2, 0, 0, 0, 0, 1}}
}

func ofOneNetwork(n int) identity.Caller {
	return identity.Caller{Addr: netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", n+1))}
}

func ofOneEach(n int) identity.Caller {
	caller := ofOneCard(n)
	caller.MAC[4], caller.MAC[5] = byte(n>>8), byte(n)
	return caller
}

func ofOneAddress(n int) identity.Caller {
	caller := ofOneEach(n)
	caller.Addr = addr("127.1.0.1")
	return caller
}

// 400 unknown addresses ask again and again; a known host whose object has
// changed waits for one of them at most, whose rendering is under way.
func TestStrangersDoNotHoldUpAHost(t *testing.T) {
	attackers := map[string]func(int) identity.Caller{"one card": ofOneCard, "many": ofOneEach}
	for slots, want := range map[int]time.Duration{1: 2 * aRendering, 2: aRendering} {
		for name, stranger := range attackers {
			t.Run(fmt.Sprintf("%d slots, %s", slots, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrowd(t, slots)
					ctx, cancel := context.WithCancel(t.Context())
					var attack sync.WaitGroup
					for n := range 400 {
						attack.Go(func() {
							for ctx.Err() == nil {
								if c.ask(ctx, stranger(n)) == nil {
									return
								}
								time.Sleep(5 * time.Second) // Retry-After
							}
						})
					}
					for range 10 {
						time.Sleep(3500 * time.Millisecond)
						c.host("10.0.0.1")
						before, began := len(c.rendered()), time.Now()
						if err := c.ask(ctx, identity.Caller{Addr: addr("10.0.0.1")}); err != nil {
							t.Error(err)
						}
						if took := time.Since(began); took > want {
							t.Errorf("the host waited for %v renderings, want %v at most", took.Seconds(), want.Seconds())
						}
						// Of two slots one is the strangers' own.
						if next := c.rendered()[before]; slots == 1 && next != "10.0.0.1" {
							t.Errorf("%s was rendered for while the host waited", next)
						}
					}
					cancel()
					attack.Wait()
					c.cache.Close()
					if c.most != 1 {
						t.Errorf("%d strangers were rendered for at a time", c.most)
					}
					if got := len(c.rendered()); got < 20 {
						t.Errorf("%d were rendered for: strangers are to be served where no host waits", got)
					}
				})
			})
		}
	}
}

// Who is no known host and finds no place is told at once to come again.
func TestStrangersQueueIsBounded(t *testing.T) {
	for name, s := range map[string]struct {
		caller func(int) identity.Caller
		most   int
	}{
		"one card":    {ofOneCard, maxPerSource},
		"one address": {ofOneAddress, maxPerSource},
		"one /64":     {ofOneNetwork, maxPerSource},
		"one each":    {ofOneEach, maxStrangers},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 2)
				ctx, cancel := context.WithCancel(t.Context())
				var asking sync.WaitGroup
				answers := make(chan *fault.Error, 400)
				for n := range 400 {
					asking.Go(func() { answers <- c.ask(ctx, s.caller(n)) })
				}
				synctest.Wait()
				if waiting := 400 - len(answers); waiting != s.most {
					t.Errorf("%d wait, want %d", waiting, s.most)
				}
				err := <-answers
				want := "which is no known host while too many machines wait"
				if err == nil || err.Kind != fault.Unavailable || !strings.Contains(err.Sentence, want) {
					t.Errorf("%v", err)
				}
				if got := testutil.ToFloat64(c.cache.metrics.refused); got != float64(400-s.most) {
					t.Errorf("%v were counted as refused", got)
				}
				if err := c.ask(ctx, identity.Caller{Addr: addr("10.0.0.9"), Believed: true}); err != nil {
					t.Errorf("a caller who is believed: %v", err)
				}
				cancel()
				asking.Wait()
				time.Sleep(aRendering)
				synctest.Wait()
				if err := c.ask(t.Context(), s.caller(500)); err != nil {
					t.Errorf("once the others have gone: %v", err)
				}
				c.cache.Close()
				if c.cache.admission.strangers != 0 || len(c.cache.admission.bySource) != 0 {
					t.Errorf("counted for ever: %+v", c.cache.admission)
				}
			})
		})
	}
}

// A pending rendering without a waiting request is skipped, for hosts and strangers.
func TestWhatNobodyWaitsForIsNotRendered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		for n := range 30 {
			c.host(fmt.Sprintf("10.0.0.%d", n))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for n := range 30 {
			asking.Go(func() { c.ask(ctx, ofOneEach(n)) })
			asking.Go(func() { c.ask(ctx, identity.Caller{Addr: addr(fmt.Sprintf("10.0.0.%d", n))}) })
		}
		synctest.Wait()
		patient := make(chan *fault.Error)
		go func() { patient <- c.ask(t.Context(), identity.Caller{Addr: addr("10.0.0.29")}) }()
		synctest.Wait()
		cancel()
		asking.Wait()
		if err := <-patient; err != nil {
			t.Errorf("one of two who wait: %v", err)
		}
		time.Sleep(time.Minute)
		if got := c.rendered(); len(got) > 2 {
			t.Errorf("rendered for %v", got)
		}
		if got := testutil.ToFloat64(c.cache.metrics.abandoned); got < 58 {
			t.Errorf("%v were counted as abandoned", got)
		}
		if c.cache.admission.strangers != 0 {
			t.Error("something is left")
		}
	})
}

// What strangers are given takes no room from what hosts are given.
func TestStrangersTakeNoRoomFromHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		if got := c.cache.strangers.limit; got != 16<<20 {
			t.Errorf("the results for strangers may have %d bytes, want 16 MiB", got)
		}
		c.cache.hosts.limit, c.cache.strangers.limit = 10*resultBytes, 10*resultBytes
		c.host("10.0.0.1")
		host := identity.Caller{Addr: addr("10.0.0.1")}
		if err := c.ask(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			if err := c.ask(t.Context(), ofOneCard(n)); err != nil {
				t.Fatal(err)
			}
		}
		before := len(c.rendered())
		if err := c.ask(t.Context(), host); err != nil || len(c.rendered()) != before {
			t.Errorf("the host is rendered for again: %v", err)
		}
		c.cache.Close()
		if c.cache.strangers.size > 10*resultBytes {
			t.Errorf("%d bytes of strangers", c.cache.strangers.size)
		}
	})
}

// Hosts that ask wait for what is under way, and not for the work ahead or the strangers
// behind it: one of either may have asked for its slot before them.
func TestHostsThatAskGoBeforeABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		view := c.inv.View()
		job := c.cache.Task(view.Templates()[0])
		var others sync.WaitGroup
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h := &model.Host{Ref: Ref{Namespace: "a", Name: fmt.Sprint("ahead-", n)}}
				c.cache.RenderAhead(ctx, &job, h)
			}
		})
		for n := range 20 {
			others.Go(func() { c.ask(ctx, ofOneEach(n)) })
		}
		time.Sleep(aRendering / 2)
		var asking sync.WaitGroup
		for n := range 3 {
			ip := fmt.Sprintf("10.0.0.%d", n)
			c.host(ip)
			asking.Go(func() {
				if err := c.ask(ctx, identity.Caller{Addr: addr(ip)}); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		begun := c.rendered()
		cancel()
		others.Wait()
		for n := range 3 {
			if at := slices.Index(begun, fmt.Sprintf("10.0.0.%d", n)); at < 0 || at > 4 {
				t.Errorf("host %d is number %d of %q", n, at, begun)
			}
		}
	})
}
