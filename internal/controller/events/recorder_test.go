package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs/logstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store of events in memory, which can be away.
type memory struct {
	mu      sync.Mutex
	objects map[string]*v1.Event
	ttl     map[string]uint64
	writes  int
	failure error
}

func newMemory() *memory { return &memory{objects: map[string]*v1.Event{}, ttl: map[string]uint64{}} }

func (m *memory) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, _ bool, _ *storage.Preconditions,
	update storage.UpdateFunc, _ runtime.Object,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	stored, ok := m.objects[key]
	if !ok {
		stored = out.(*v1.Event)
	}
	obj, ttl, err := update(stored.DeepCopyObject(), storage.ResponseMeta{})
	if err != nil {
		return err
	}
	m.writes++
	m.objects[key], m.ttl[key] = obj.(*v1.Event), *ttl
	return nil
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
}

func (m *memory) count() (objects, writes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.objects), m.writes
}

// rig is a running recorder over a store in memory, in a bubble of its own time.
type rig struct {
	*Recorder
	store  *memory
	logged func() string
	stop   func()
}

func noStorm() bool { return false }

func newRig(t *testing.T) *rig {
	t.Helper()
	return rigOver(t, newMemory(), "here")
}

func rigOver(t *testing.T, store *memory, instance string) *rig {
	t.Helper()
	logger, logged := logstest.Logger()
	r := &rig{Recorder: New(Options{Logger: logger, Instance: instance}), store: store, logged: logged}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, store, noStorm) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

func (r *rig) host(name string) *model.Host {
	return &model.Host{Ref: model.Ref{Namespace: "g10", Name: name}, UID: "uid-" + name}
}

// all returns the stored events by reason and object.
func (r *rig) all() map[string]*v1.Event {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	out := map[string]*v1.Event{}
	for key, e := range r.store.objects {
		if key != "/events/"+e.Namespace+"/"+e.Name {
			panic(key)
		}
		out[e.Reason+" "+e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] = e
	}
	return out
}

func (r *rig) droppedBy(cause string) int {
	return int(testutil.ToFloat64(r.dropped.WithLabelValues(cause)))
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var server1 = v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: "server1"}

// TestEventsAreBounded: of each class so many are kept while the store is away, and none
// takes the place of another class.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store.fail(apierrors.NewServiceUnavailable("away"))
		want := 0
		for c, record := range map[class]func(i int){
			others: func(i int) { r.Record(server1, v1.EventNormal, "Test", fmt.Sprint(i)) },
			steps:  func(i int) { r.RecordStep(model.Ref{Name: "many"}, "u", "LocalBoot", fmt.Sprint(i)) },
			alarms: func(i int) {
				r.Notice(notice(decide.ReasonNeighborMismatch, r.host(fmt.Sprint(i)), netaddr.Source{}, "x"))
			},
		} {
			before := r.droppedBy(causeFull)
			for i := range bounds[c] + 100 {
				record(i)
			}
			want += bounds[c]
			if got := r.Pending(); got != want {
				t.Errorf("class %d: %d are pending; want %d", c, got, want)
			}
			if got := r.droppedBy(causeFull) - before; got != 100 {
				t.Errorf("class %d: %d dropped; want 100", c, got)
			}
		}
		r.stop()
		if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(want, " events")) {
			t.Errorf("Shutdown: %v", err)
		}
		if got := r.droppedBy(causeShutdown); got != want {
			t.Errorf("%d lost; want %d", got, want)
		}
	})
}

// TestWrittenEventsAreForgotten: the memory for events that were written is bounded.
func TestWrittenEventsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 3 * maxWritten {
			r.Record(server1, v1.EventNormal, "Test", fmt.Sprint(i))
			r.RecordStep(model.Ref{Name: "many"}, "u", "LocalBoot", fmt.Sprint(i))
			if i%bounds[others] == 0 {
				pass(time.Duration(bounds[others]/perSecond+1) * 2 * time.Second)
			}
		}
		pass(10 * time.Minute)
		if n := len(r.events); n != 0 || r.Pending() != 0 {
			t.Errorf("%d are remembered, %d pending", n, r.Pending())
		}
		if n := len(r.written.Keys()); n > maxWritten {
			t.Errorf("%d are remembered", n)
		}
		if objects, _ := r.store.count(); objects != 6*maxWritten {
			t.Errorf("%d events are stored", objects)
		}
	})
}

// TestSameEventIsWrittenOnceInAWhile: occurrences of one event that come together are
// one write.
func TestSameEventIsWrittenOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 1000 {
			r.Record(server1, v1.EventNormal, "Test", "the same")
			time.Sleep(60 * time.Millisecond)
		}
		pass(gap)
		if _, writes := r.store.count(); writes > 8 || r.all()["Test g10/server1"].Count != 1000 {
			t.Errorf("%d writes of an event in a minute: %+v", writes, r.all())
		}
	})
}

// TestStormLeavesWarnings: a backlog of what machines have done delays no warning.
func TestStormLeavesWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 100_000 {
			r.RecordStep(model.Ref{Name: fmt.Sprint("h", i)}, "u", "ConfigServed", "given the config")
		}
		r.Record(server1, v1.EventWarning, "CompileFailed", "no")
		r.Notice(notice(decide.ReasonNeighborChanged, r.host("one"), sourceN(1), "192.0.2.1"))
		pass(time.Second)
		all := r.all()
		if all["CompileFailed g10/server1"] == nil || all["NeighborChanged g10/one"] == nil {
			t.Errorf("a warning or an alarm waits behind %d steps", r.Pending())
		}
		if _, writes := r.store.count(); writes > 20+perSecond+5 {
			t.Errorf("%d writes in a second", writes)
		}
	})
}

// TestStoreAway: what happens while the store is away is written afterwards, as one
// event with all occurrences, and said once in the log.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store.fail(apierrors.NewTimeoutError("away", 1))
		start := time.Now()
		n := decide.Notice{Reason: decide.ReasonClaimRefused, Host: r.host("server1"), Key: "mac", Message: "one"}
		r.Notice(n)
		pass(10 * time.Minute)
		n.Message = "two"
		r.Notice(n)
		pass(time.Minute)
		if got := r.Pending(); got != 1 {
			t.Errorf("%d are pending; want 1", got)
		}
		r.store.fail(nil)
		pass(time.Minute)
		e := r.all()["ClaimRefused g10/server1"]
		if e == nil || e.Count != 2 || e.Message != "(combined from similar events): two" ||
			!e.FirstTimestamp.Time.Equal(start) || e.LastTimestamp.Sub(start) != 10*time.Minute {
			t.Errorf("event: %+v", e)
		}
		if lines := strings.Count(r.logged(), "\n"); lines != 2 {
			t.Errorf("%d lines in the log; want one when the store went and one when it came back:\n%s", lines, r.logged())
		}
	})
}

// TestRefusedEventIsGivenUp: an event that the store refuses is dropped and counted, and
// holds up no other.
func TestRefusedEventIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store.fail(errors.New("damaged"))
		r.Record(server1, v1.EventNormal, "Test", "refused")
		pass(time.Minute)
		if r.Pending() != 0 || r.droppedBy(causeFailed) != 1 {
			t.Errorf("%d are pending, %d given up; want 0, 1", r.Pending(), r.droppedBy(causeFailed))
		}
		r.store.fail(nil)
		r.Record(server1, v1.EventNormal, "Test", "refused")
		pass(time.Minute)
		if e := r.all()["Test g10/server1"]; e == nil || e.Count != 1 {
			t.Errorf("event: %+v", e)
		}
	})
}

// TestShutdown: what is pending is written at the end, and later events are ignored.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.stop()
		for i := range 1000 {
			r.Record(server1, v1.EventNormal, "Test", fmt.Sprint(i))
			r.RecordStep(model.Ref{Name: fmt.Sprint("h", i)}, "u", "ConfigServed", "given the config")
		}
		began := time.Now()
		if err := r.Shutdown(t.Context()); err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		if objects, _ := r.store.count(); objects != 2000 {
			t.Errorf("%d events; want 2000", objects)
		}
		r.Record(server1, v1.EventNormal, "Test", "late")
		if r.Pending() != 0 {
			t.Error("an event was taken after Shutdown")
		}
	})
}

func TestAddressScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		known := decide.Notice{Reason: decide.ReasonUnknownHost, Key: "192.168.10.9",
			Message: "192.168.10.9 asks and is no known host"}
		r.Notice(known)
		for i := range 20000 {
			r.Notice(decide.Notice{Reason: decide.ReasonUnknownHost, Key: fmt.Sprint(i), Message: "a stranger"})
			r.Notice(decide.Notice{Reason: decide.ReasonClaimIgnored, Key: fmt.Sprint(i), Message: "a stranger"})
			if i%100 == 0 {
				time.Sleep(time.Second)
				r.Notice(known)
			}
		}
		pass(time.Minute)
		objects, _ := r.store.count()
		// There are two reasons, and an event for each that others were left out.
		if limit := 2 * (ofStrangers.Burst + 4*int(time.Minute/ofStrangers.Every) + 2); objects > limit ||
			objects < 2*ofStrangers.Burst {
			t.Errorf("a scan of 20,000 addresses in 200 s made %d events", objects)
		}
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		key := keyOf(&known)
		e := r.store.objects[key.path()]
		if e.Count != 201 {
			t.Errorf("the known one was seen %d times", e.Count)
		}
	})
}

func TestEventShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.host("server1")
		start := time.Now()
		n := decide.Notice{Reason: decide.ReasonClaimRefused, Host: host, Key: "mac 192.168.10.7",
			Message: "the first message"}
		r.Notice(n)
		pass(time.Hour)
		n.Message = strings.Repeat("é", 5000)
		r.Notice(n)
		r.Notice(decide.Notice{Reason: decide.ReasonUnknownHost, Machine: "52-54-00-00-00-01", Message: "who?"})
		r.Record(v1.ObjectReference{Kind: "IgnitionConfig", Namespace: "g10", Name: "builder",
			ResourceVersion: "12"}, v1.EventWarning, "CompileFailed", "3:1: no")
		r.Record(v1.ObjectReference{Kind: "IgnitionConfig", Namespace: "g10", Name: "builder",
			ResourceVersion: "13"}, v1.EventWarning, "CompileFailed", "3:1: no")
		r.Record(v1.ObjectReference{Kind: "Namespace", Name: strings.Repeat("n", 253)}, v1.EventNormal, "Made",
			"by first use")
		pass(gap)
		all := r.all()
		e := all["ClaimRefused g10/server1"]
		if e == nil || e.Namespace != "g10" || !strings.HasPrefix(e.Name, "server1.") || e.UID == "" ||
			e.Kind != "Event" || e.APIVersion != "v1" ||
			e.Type != v1.EventWarning || e.Count != 2 || !e.FirstTimestamp.Time.Equal(start) ||
			e.LastTimestamp.Sub(start) != time.Hour ||
			e.InvolvedObject != (v1.ObjectReference{Kind: "BareMetalHost", APIVersion: "v1", Namespace: "g10",
				Name: "server1", UID: "uid-server1"}) ||
			e.Source.Component != "glowplug" || e.ReportingController != "glowplug" || e.ReportingInstance != "here" ||
			len(e.Message) > controller.MaxMessage {
			t.Errorf("event: %+v", e)
		}
		// kubectl describe asks for the events of an object without a namespace like this.
		if e = all["UnknownHost /52-54-00-00-00-01"]; e == nil || e.Namespace != "default" ||
			e.Type != v1.EventNormal || e.InvolvedObject != controller.MachineReference("52-54-00-00-00-01") {
			t.Errorf("unknown host: %+v", e)
		}
		if e = all["CompileFailed g10/builder"]; e == nil || e.Count != 2 {
			t.Errorf("recorded: %+v", e)
		}
		for _, e := range all {
			if len(e.Name) > 253 || cmp.Or(e.InvolvedObject.Namespace, "default") != e.Namespace {
				t.Errorf("%s/%s is about %+v", e.Namespace, e.Name, e.InvolvedObject)
			}
			if got := r.store.ttl["/events/"+e.Namespace+"/"+e.Name]; got != 24*60*60 {
				t.Errorf("%s lives %d s", e.Name, got)
			}
		}

		// A restart, or another replica, writes the same object.
		before, _ := r.store.count()
		again := rigOver(t, r.store, "there")
		again.Notice(n)
		pass(time.Second)
		if after, _ := r.store.count(); after != before || r.all()["ClaimRefused g10/server1"].Count != 3 {
			t.Errorf("%d events before, %d after: %+v", before, after, r.all()["ClaimRefused g10/server1"])
		}
	})
}

// However often and from however many addresses an image's secret is guessed, that is
// one event on the image, which no other events keep from being made.
func TestLoginRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 2 * ofHosts.Burst {
			r.Notice(decide.Notice{Reason: decide.ReasonClaimRefused, Key: fmt.Sprint(i), Message: "refused"})
		}
		image := &model.Image{Ref: model.Ref{Namespace: "g10", Name: "live"}, UID: "uid-live"}
		for i := range 5000 {
			r.LoginRefused(image, fmt.Sprint("a login from 192.168.10.", i%250))
		}
		pass(time.Minute)
		e := r.all()["LoginRefused g10/live"]
		if e == nil || e.Count != 5000 || e.Type != v1.EventWarning || e.InvolvedObject.Kind != "ISCSICdrom" ||
			e.InvolvedObject.UID != "uid-live" || e.Message != "(combined from similar events): a login from 192.168.10.249" {
			t.Errorf("%+v", e)
		}
		if objects, _ := r.store.count(); objects > ofHosts.Burst+int(time.Minute/ofHosts.Every)+2 {
			t.Errorf("%d events", objects)
		}
	})
}

// TestLoginRefusedIsWrittenSlowly: the event of an image is written every ten seconds, however often its secret
// is guessed.
func TestLoginRefusedIsWrittenSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		image := &model.Image{Ref: model.Ref{Namespace: "g10", Name: "live"}, UID: "uid-live"}
		for range 60 {
			r.LoginRefused(image, "a login")
			pass(time.Second)
		}
		if _, writes := r.store.count(); writes > 7 { // one at once, then six
			t.Errorf("%d writes in a minute", writes)
		}
		if e := r.all()["LoginRefused g10/live"]; e == nil || e.Count < 50 {
			t.Errorf("%+v", e)
		}
	})
}

// TestLoginRefusedWhileAway: events that wait for the store, as many as may wait, do not keep the event of
// wrong secrets from being made.
func TestLoginRefusedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.store.fail(apierrors.NewServiceUnavailable("away"))
		for i := range bounds[others] + 1 {
			r.Record(server1, v1.EventNormal, "Test", fmt.Sprint(i))
		}
		image := &model.Image{Ref: model.Ref{Namespace: "g10", Name: "live"}, UID: "uid-live"}
		for range 3 {
			r.LoginRefused(image, "a login")
		}
		r.store.fail(nil)
		pass(5 * time.Minute)
		if e := r.all()["LoginRefused g10/live"]; e == nil || e.Count != 3 {
			t.Errorf("%+v", e)
		}
	})
}

// TestEventsOfADeletedNamespace: what is not written of a namespace is not written after its
// deletion, also if a write fails at that moment.
func TestEventsOfADeletedNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := decide.Notice{Reason: decide.ReasonNoConfig, Host: r.host("server1"), Key: "ignition", Message: "asks"}
		r.Notice(n)
		pass(time.Second)
		r.Notice(n) // it waits for a pause
		r.Forget("g11")
		if got := r.Pending(); got != 1 {
			t.Fatalf("%d are pending", got)
		}
		r.Forget("g10")
		pass(time.Minute)
		if e := r.all()["NoConfig g10/server1"]; e == nil || e.Count != 1 || r.Pending() != 0 {
			t.Errorf("%+v, %d are pending", e, r.Pending())
		}
		r.store.fail(apierrors.NewTimeoutError("away", 1))
		r.Notice(n)
		pass(time.Second)
		r.Forget("g10")
		r.store.fail(nil)
		pass(time.Minute)
		if e := r.all()["NoConfig g10/server1"]; e.Count != 1 || r.Pending() != 0 {
			t.Errorf("%+v, %d are pending", e, r.Pending())
		}
		r.Notice(n)
		pass(time.Minute)
		if e := r.all()["NoConfig g10/server1"]; e.Count != 2 || r.Pending() != 0 {
			t.Errorf("%+v, %d are pending", e, r.Pending())
		}
	})
}

// TestNoticesAreCounted counts each notice by its reason, whatever it is about.
func TestNoticesAreCounted(t *testing.T) {
	r := New(Options{})
	for range 3 {
		r.Notice(decide.Notice{Reason: decide.ReasonClaimsLimited, Key: "10.0.0.1", Message: "a source"})
	}
	for reason, want := range map[string]float64{decide.ReasonClaimsLimited: 3, decide.ReasonNoConfig: 0} {
		if got := testutil.ToFloat64(r.notices.WithLabelValues(reason)); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}

// TestCountIsOfTheMessage: an event that counts occurrences with other messages says so, as
// in Kubernetes, whether these were written before or not.
func TestCountIsOfTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := decide.Notice{Reason: decide.ReasonNoConfig, Host: r.host("server1"), Key: "ignition"}
		for _, step := range []struct{ message, want string }{
			{"10.0.0.1 asks", "10.0.0.1 asks"},
			{"10.0.0.1 asks", "10.0.0.1 asks"},
			{"10.0.0.2 asks", combinedPrefix + "10.0.0.2 asks"},
			{"10.0.0.2 asks", combinedPrefix + "10.0.0.2 asks"},
		} {
			n.Message = step.message
			r.Notice(n)
			r.Notice(n)
			pass(time.Minute)
			if e := r.all()["NoConfig g10/server1"]; e == nil || e.Message != step.want {
				t.Fatalf("after %q: %+v", step.message, e)
			}
		}
		if e := r.all()["NoConfig g10/server1"]; e.Count != 8 {
			t.Errorf("%d occurrences", e.Count)
		}
	})
}

func BenchmarkRecordStep(b *testing.B) {
	r := New(Options{})
	refs := make([]model.Ref, 10_000)
	for i := range refs {
		refs[i] = model.Ref{Namespace: "fleet", Name: fmt.Sprint("h", i)}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.RecordStep(refs[i%len(refs)], "3a7c2f6e-0000-4000-8000-000000000000", "ConfigServed",
			"given the config fleet/c, sha256:abc")
		i++
	}
}
