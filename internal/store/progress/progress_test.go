package progress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store in memory, which can be away.
type memory struct {
	mu      sync.Mutex
	objects map[string]runtime.Object
	ttl     map[string]uint64
	writes  int
	failure error
}

func newMemory() *memory {
	return &memory{objects: map[string]runtime.Object{}, ttl: map[string]uint64{}}
}

func (m *memory) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, _ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
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
		if !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		stored = out.DeepCopyObject()
	}
	obj, ttl, err := update(stored.DeepCopyObject(), storage.ResponseMeta{})
	if err != nil {
		return err
	}
	m.writes++
	m.objects[key] = obj.DeepCopyObject()
	if ttl != nil {
		m.ttl[key] = *ttl
	}
	if host, ok := out.(*v1.BareMetalHost); ok {
		*host = *obj.DeepCopyObject().(*v1.BareMetalHost)
	}
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

// memoryLog is a boot log in memory, which can be away.
type memoryLog struct {
	mu       sync.Mutex
	journal  *Tracker
	messages []bootlog.Batch
	sequence uint64
	trimmed  uint64
	failure  error
}

func (l *memoryLog) Append(_ context.Context, records []bootlog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		return l.failure
	}
	l.journal.Take(l.add(records, true))
	return nil
}

// add makes a message as the boot log would.
func (l *memoryLog) add(records []bootlog.Record, own bool) bootlog.Batch {
	l.sequence++
	batch := bootlog.Batch{Sequence: l.sequence, Own: own, Live: true, Records: slices.Clone(records)}
	for i := range batch.Records {
		batch.Records[i].Progress.Position = l.sequence
	}
	l.messages = append(l.messages, batch)
	return batch
}

func (l *memoryLog) Trim(_ context.Context, upTo uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = upTo
	return nil
}

func (l *memoryLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// replay gives the messages after a sequence to a journal that has started.
func (l *memoryLog) replay(j *Tracker, after uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.Sequence > after {
			j.Take(bootlog.Batch{Sequence: m.Sequence, Records: slices.Clone(m.Records)})
		}
	}
}

// rig is a running journal over stores in memory, in a bubble of its own time.
type rig struct {
	*Tracker
	hosts, events *memory
	log           *memoryLog
	logged        func() string
	metrics       *prometheus.Registry
	stop          func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{hosts: newMemory(), events: newMemory(), log: &memoryLog{}, metrics: prometheus.NewRegistry()}
	logger, logged := logstest.Logger()
	r.logged = logged
	r.Tracker = New(Options{Hosts: r.hosts, Events: r.events, Log: r.log, Logger: logger, Registerer: r.metrics, Instance: "here"})
	r.log.journal = r.Tracker
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

func (r *rig) add(name string) *snapshot.Host {
	uid := "uid-" + name
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	r.hosts.objects["/baremetalhosts/g10/"+name] = &v1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: name, UID: types.UID(uid), Generation: 3},
		Spec:       v1.BareMetalHostSpec{IP: "192.168.10.10"},
	}
	return &snapshot.Host{Ref: snapshot.Ref{Namespace: "g10", Name: name}, UID: uid}
}

func (r *rig) host(name string) *v1.BareMetalHost {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	return r.hosts.objects["/baremetalhosts/g10/"+name].DeepCopyObject().(*v1.BareMetalHost)
}

// allEvents gives the stored events by reason and object.
func (r *rig) allEvents() map[string]*v1.Event {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	out := map[string]*v1.Event{}
	for key, o := range r.events.objects {
		e := o.(*v1.Event)
		if key != "/events/"+e.Namespace+"/"+e.Name {
			panic(key)
		}
		out[e.Reason+" "+e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] = e
	}
	return out
}

var config = &snapshot.Config{Ref: snapshot.Ref{Namespace: "g10", Name: "builder"}, Hash: "sha256:abc"}

// settled lets time pass.
func settled(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		start := time.Now()
		r.Served(host, config)
		synctest.Wait()
		s := r.host("server1").Status
		if s.BootCount != 1 || !s.LastBoot.Time.Equal(start) || !s.LastSeen.Time.Equal(start) || s.LastConfig != "g10/builder" || s.LastConfigHash != "sha256:abc" || s.State != v1.StateProvisioning {
			t.Fatalf("after the first: %+v", s)
		}

		// Retries are one boot, and one write every so often.
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			r.Served(host, config)
		}
		settled(hostGap)
		s = r.host("server1").Status
		if s.BootCount != 1 || !s.LastBoot.Time.Equal(start) || s.LastSeen.Sub(start) != 10*time.Second {
			t.Fatalf("after retries: %+v", s)
		}
		if _, writes := r.hosts.count(); writes > 4 {
			t.Fatalf("%d writes for 101 requests in 10 s", writes)
		}

		// A run goes on while its requests are less than the gap apart.
		for range 3 {
			settled(decide.ConfigGap - 10*time.Second)
			r.Served(host, config)
		}
		settled(hostGap)
		if s = r.host("server1").Status; s.BootCount != 1 {
			t.Fatalf("a slow run: %+v", s)
		}
		settled(decide.ConfigGap + time.Second)
		second := time.Now()
		r.Served(host, &snapshot.Config{Ref: snapshot.Ref{Namespace: "g10", Name: "other"}, Hash: "sha256:def"})
		settled(hostGap)
		s = r.host("server1").Status
		if s.BootCount != 2 || !s.LastBoot.Time.Equal(second) || s.LastConfig != "g10/other" || s.LastConfigHash != "sha256:def" {
			t.Fatalf("after the second boot: %+v", s)
		}
		if h := r.host("server1"); h.Spec.IP != "192.168.10.10" || h.Generation != 3 {
			t.Fatalf("the rest of the object: %+v", h)
		}
	})
}

// What other parts of the server say of a boot stands until the next one.
func TestStateIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(host, config)
		synctest.Wait()
		r.hosts.mu.Lock()
		r.hosts.objects["/baremetalhosts/g10/server1"].(*v1.BareMetalHost).Status.State = v1.StateProvisioned
		r.hosts.mu.Unlock()
		r.Served(host, config)
		settled(hostGap)
		if s := r.host("server1").Status; s.State != v1.StateProvisioned {
			t.Errorf("in the same boot: %+v", s)
		}
		settled(2 * decide.ConfigGap)
		r.Served(host, config)
		settled(hostGap)
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
			r.Served(host, config)
		}
		settled(hostGap)
		if s := r.host("server1").Status; s.BootCount != 1 || !s.LastSeen.Time.Equal(now) {
			t.Errorf("%+v", s)
		}
	})
}

func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.hosts.fail(apierrors.NewServiceUnavailable("away"))
		r.events.fail(apierrors.NewTimeoutError("away", 1))
		host := r.add("server1")
		start := time.Now()
		r.Served(host, config)
		r.Notice(decide.Notice{Reason: decide.ReasonClaimRefused, Host: host, Key: "mac", Message: "one"})
		settled(10 * time.Minute)
		r.Served(host, config)
		r.Notice(decide.Notice{Reason: decide.ReasonClaimRefused, Host: host, Key: "mac", Message: "two"})
		settled(10 * time.Minute)
		last := time.Now()
		r.Served(host, config)
		settled(time.Minute)
		if _, states, hosts, events := r.pending(); states+hosts < 1 || events != 2 {
			t.Fatalf("%d, %d, %d wait", states, hosts, events)
		}
		r.hosts.fail(nil)
		r.events.fail(nil)
		settled(awayMax + hostGap)
		s := r.host("server1").Status
		if s.BootCount != 3 || !s.LastBoot.Time.Equal(last) || !s.LastSeen.Time.Equal(last) {
			t.Errorf("three boots while the store was away: %+v (began %v)", s, start)
		}
		e := r.allEvents()["ClaimRefused g10/server1"]
		if e == nil || e.Count != 2 || e.Message != "two" || !e.FirstTimestamp.Time.Equal(start) || e.LastTimestamp.Sub(start) != 10*time.Minute {
			t.Errorf("event: %+v", e)
		}
	})
}

// TestNoStateIsDropped has the stores away while more hosts boot than the journal
// once kept.
func TestNoStateIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20_000
		r := newRig(t)
		r.log.fail(errors.New("away"))
		r.hosts.fail(apierrors.NewServiceUnavailable("away"))
		for i := range many {
			r.Served(r.add(fmt.Sprintf("h%d", i)), config)
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		synctest.Wait()
		if records, states, _, _ := r.pending(); records+states < many {
			t.Errorf("%d and %d wait", records, states)
		}
		r.log.fail(nil)
		settled(logAwayMax + time.Second)
		logged := map[string]bool{}
		for _, m := range r.log.messages {
			for _, record := range m.Records {
				logged[record.Host.Name] = record.Progress.State == v1.StateProvisioning
			}
		}
		if len(logged) != many {
			t.Errorf("%d of %d hosts are in the boot log", len(logged), many)
		}
		r.hosts.fail(nil)
		settled(awayMax + many/statusesPerSecond*time.Second)
		for i := range many {
			if s := r.host(fmt.Sprintf("h%d", i)).Status; s.State != v1.StateProvisioning {
				t.Fatalf("h%d: %+v", i, s)
			}
		}
		settled(trimInterval)
		if r.log.trimmed != r.log.sequence {
			t.Errorf("trimmed up to %d of %d", r.log.trimmed, r.log.sequence)
		}
	})
}

// TestEventsAreBounded has more events than are kept.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.events.fail(apierrors.NewServiceUnavailable("away"))
		for i := range maxEvents + 100 {
			r.Record(v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: "server1"}, v1.EventNormal, "Test", fmt.Sprint(i))
		}
		synctest.Wait()
		if _, _, _, events := r.pending(); events != maxEvents {
			t.Errorf("%d wait", events)
		}
		if got := testutil.ToFloat64(r.Tracker.metrics.dropped.WithLabelValues(kindEvent, causeFull)); got != 100 {
			t.Errorf("%v dropped", got)
		}
		host := r.add("many")
		for i := range maxSteps + 100 { // what machines do takes no other's place
			r.LocalBoot(host, fmt.Sprint(i))
		}
		if _, _, _, events := r.pending(); events != maxEvents+maxSteps {
			t.Errorf("%d wait, with those of a machine's steps", events)
		}
		if got := testutil.ToFloat64(r.Tracker.metrics.dropped.WithLabelValues(kindEvent, causeFull)); got != 200 {
			t.Errorf("%v dropped, with those of a machine's steps", got)
		}
		r.stop()
		if err := r.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxEvents+maxSteps, " events")) {
			t.Errorf("Shutdown: %v", err)
		}
		if got := testutil.ToFloat64(r.Tracker.metrics.dropped.WithLabelValues(kindEvent, causeShutdown)); got != maxEvents+maxSteps {
			t.Errorf("%v lost", got)
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
			r.Served(r.add(fmt.Sprintf("h%d", i)), config)
		}
		if _, writes := r.hosts.count(); writes > writeBurst+5*statusesInRush || writes < 3*statusesInRush {
			t.Errorf("%d writes in 4 s of a storm", writes)
		}
		settled(10 * time.Second)
		if _, writes := r.hosts.count(); writes != 4000 {
			t.Errorf("%d writes for 4000 hosts", writes)
		}
	})
}

func TestAddressScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		known := decide.Notice{Reason: decide.ReasonUnknownHost, Key: "192.168.10.9", Message: "192.168.10.9 asks and is no known host"}
		r.Notice(known)
		for i := range 20000 {
			r.Notice(decide.Notice{Reason: decide.ReasonUnknownHost, Key: fmt.Sprint(i), Message: "a stranger"})
			r.Notice(decide.Notice{Reason: decide.ReasonClaimIgnored, Key: fmt.Sprint(i), Message: "a stranger"})
			if i%100 == 0 {
				time.Sleep(time.Second)
				r.Notice(known)
			}
		}
		settled(time.Minute)
		objects, _ := r.events.count()
		// There are two reasons, and an event for each that others were left out.
		if limit := 2 * (ofStrangers.burst + 4*ofStrangers.perMinute + 2); objects > limit || objects < 2*ofStrangers.burst {
			t.Errorf("a scan of 20,000 addresses in 200 s made %d events", objects)
		}
		r.events.mu.Lock()
		defer r.events.mu.Unlock()
		key := keyOf(&known)
		e := r.events.objects["/events/default/"+key.name()].(*v1.Event)
		if e.Count != 201 {
			t.Errorf("the known one was seen %d times", e.Count)
		}
	})
}

func TestEventShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		start := time.Now()
		n := decide.Notice{Reason: decide.ReasonClaimRefused, Host: host, Key: "mac 192.168.10.7", Message: "the first message"}
		r.Notice(n)
		settled(time.Hour)
		n.Message = strings.Repeat("é", 5000)
		r.Notice(n)
		r.Notice(decide.Notice{Reason: decide.ReasonUnknownHost, Key: "a", Message: "who?"})
		r.Record(v1.ObjectReference{Kind: "IgnitionConfig", Namespace: "g10", Name: "builder", ResourceVersion: "12"}, v1.EventWarning, "CompileFailed", "3:1: no")
		r.Record(v1.ObjectReference{Kind: "IgnitionConfig", Namespace: "g10", Name: "builder", ResourceVersion: "13"}, v1.EventWarning, "CompileFailed", "3:1: no")
		r.Record(v1.ObjectReference{Kind: "Namespace", Name: strings.Repeat("n", 253)}, v1.EventNormal, "Made", "by first use")
		settled(eventGap)
		all := r.allEvents()
		e := all["ClaimRefused g10/server1"]
		if e == nil || e.Namespace != "g10" || !strings.HasPrefix(e.Name, "server1.") || e.UID == "" || e.Kind != "Event" || e.APIVersion != "v1" ||
			e.Type != v1.EventWarning || e.Count != 2 || !e.FirstTimestamp.Time.Equal(start) || e.LastTimestamp.Sub(start) != time.Hour ||
			e.InvolvedObject != (v1.ObjectReference{Kind: "BareMetalHost", APIVersion: "v1", Namespace: "g10", Name: "server1", UID: "uid-server1"}) ||
			e.Source.Component != "glowplug" || e.ReportingController != "glowplug" || e.ReportingInstance != "here" || len(e.Message) > maxMessage {
			t.Errorf("event: %+v", e)
		}
		if e = all["UnknownHost default/unknown"]; e == nil || e.Namespace != "default" || e.Type != v1.EventNormal {
			t.Errorf("unknown host: %+v", e)
		}
		if e = all["CompileFailed g10/builder"]; e == nil || e.Count != 2 {
			t.Errorf("recorded: %+v", e)
		}
		for _, e := range all {
			if len(e.Name) > 253 || e.InvolvedObject.Namespace != e.Namespace {
				t.Errorf("%s/%s is about %+v", e.Namespace, e.Name, e.InvolvedObject)
			}
			if got := r.events.ttl["/events/"+e.Namespace+"/"+e.Name]; got != 24*60*60 {
				t.Errorf("%s lives %d s", e.Name, got)
			}
		}

		// A restart, or another replica, comes to the same object.
		before, _ := r.events.count()
		again := New(Options{Hosts: r.hosts, Events: r.events, Instance: "there"})
		again.Notice(n)
		if err := again.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after, _ := r.events.count(); after != before || r.allEvents()["ClaimRefused g10/server1"].Count != 3 {
			t.Errorf("%d events before, %d after: %+v", before, after, r.allEvents()["ClaimRefused g10/server1"])
		}
	})
}

func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, b := r.add("a"), r.add("b")
		mac := netaddr.MAC{2, 0, 0, 0, 0, 1}
		r.ConflictChanged(snapshot.ConflictChange{Host: a, Conflicts: []snapshot.Conflict{{With: b.Ref, MAC: mac}, {With: b.Ref, IP: netip.MustParseAddr("192.168.10.10")}}})
		r.ConflictChanged(snapshot.ConflictChange{Host: b, Conflicts: []snapshot.Conflict{{With: a.Ref, MAC: mac}}})
		settled(time.Second)
		for _, name := range []string{"a", "b"} {
			c := meta.FindStatusCondition(r.host(name).Status.Conditions, v1.ConditionIdentityUnique)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "DuplicateIdentity" || !strings.Contains(c.Message, mac.String()) || c.ObservedGeneration != 3 {
				t.Errorf("%s: %+v", name, c)
			}
			if e := r.allEvents()["DuplicateIdentity g10/"+name]; e == nil || e.Count != 1 || e.Type != v1.EventWarning || e.Message != c.Message || e.InvolvedObject.UID != "uid-"+name {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if s := r.host("a").Status; s.LastSeen != nil || s.BootCount != 0 || s.State != "" {
			t.Errorf("a was not served: %+v", s)
		}

		// Serving leaves the condition alone; a replica's report of the same makes no event.
		r.Served(a, config)
		r.ConflictChanged(snapshot.ConflictChange{Host: b, Conflicts: []snapshot.Conflict{{With: a.Ref, MAC: mac}}})
		settled(time.Minute)
		if !meta.IsStatusConditionFalse(r.host("a").Status.Conditions, v1.ConditionIdentityUnique) || r.allEvents()["DuplicateIdentity g10/b"].Count != 1 {
			t.Error("serving changed the condition, or the same conflict was reported twice")
		}

		r.ConflictChanged(snapshot.ConflictChange{Host: a})
		settled(time.Minute)
		if !meta.IsStatusConditionTrue(r.host("a").Status.Conditions, v1.ConditionIdentityUnique) || r.allEvents()["IdentityUnique g10/a"] == nil {
			t.Errorf("after the conflict: %+v", r.host("a").Status.Conditions)
		}

		// One that ended while no server ran is corrected when the host is served.
		r.mu.Lock()
		delete(r.conflicting, b.Ref)
		r.mu.Unlock()
		r.Served(b, config)
		settled(time.Minute)
		if !meta.IsStatusConditionTrue(r.host("b").Status.Conditions, v1.ConditionIdentityUnique) {
			t.Errorf("b: %+v", r.host("b").Status.Conditions)
		}

		// Hosts without a conflict have no condition.
		r.ConflictChanged(snapshot.ConflictChange{Host: r.add("c")})
		settled(time.Minute)
		if c := r.host("c").Status.Conditions; len(c) > 0 {
			t.Errorf("c: %+v", c)
		}
	})
}

func TestGoneAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(&snapshot.Host{Ref: snapshot.Ref{Namespace: "g10", Name: "deleted"}, UID: "u"}, config)
		r.Served(&snapshot.Host{Ref: host.Ref, UID: "of its predecessor"}, config)
		settled(time.Minute)
		if s := r.host("server1").Status; s.BootCount != 0 {
			t.Errorf("the news of another object: %+v", s)
		}
		if got := testutil.ToFloat64(r.Tracker.metrics.writes.WithLabelValues(kindState, resultGone)); got != 2 {
			t.Errorf("%v gone", got)
		}
		if r.log.trimmed != r.log.sequence {
			t.Errorf("trimmed up to %d of %d", r.log.trimmed, r.log.sequence)
		}
		r.hosts.fail(errors.New("damaged"))
		other := r.add("server2")
		r.ConfigReadable(other, "host g10/server2 boots an old image")
		r.Served(host, config)
		settled(5 * time.Minute)
		if _, states, hosts, _ := r.pending(); hosts != 0 || states != 1 {
			t.Errorf("%d and %d wait: a write that the store refuses is tried for ever, or a state is given up", states, hosts)
		}
		if got := testutil.ToFloat64(r.Tracker.metrics.dropped.WithLabelValues(kindHost, causeFailed)); got != 1 {
			t.Errorf("%v given up", got)
		}
		if r.log.trimmed >= r.log.sequence {
			t.Error("a state that no status has is trimmed")
		}
		r.hosts.fail(nil)
		settled(stateRetry + trimInterval)
		if s := r.host("server1").Status; s.State != v1.StateProvisioning || r.log.trimmed != r.log.sequence {
			t.Errorf("once the store takes it: %+v, trimmed up to %d of %d", s, r.log.trimmed, r.log.sequence)
		}
	})
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.Served(host, config)
		synctest.Wait()
		time.Sleep(time.Second)
		r.Served(host, config) // not due yet
		r.stop()
		for i := range 500 {
			r.Served(r.add(fmt.Sprintf("h%d", i)), config)
			r.Record(v1.ObjectReference{Kind: "BareMetalHost", Namespace: "g10", Name: "server1"}, v1.EventNormal, "Test", fmt.Sprint(i))
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, writes := r.hosts.count(); writes != 502 {
			t.Errorf("%d host writes", writes)
		}
		if objects, _ := r.events.count(); objects != 1001 {
			t.Errorf("%d events", objects)
		}
		r.Served(host, config)
		if records, states, hosts, _ := r.pending(); records+states+hosts != 0 {
			t.Error("news is taken after Shutdown")
		}

		late := New(Options{Hosts: r.hosts, Events: r.events, Log: r.log})
		late.Served(host, config)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := late.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown out of time: %v", err)
		}
	})
}

func BenchmarkServed(b *testing.B) {
	j := New(Options{Hosts: newMemory(), Events: newMemory()})
	host := &snapshot.Host{Ref: snapshot.Ref{Namespace: "g10", Name: "server1"}, UID: "u"}
	b.ReportAllocs()
	for b.Loop() {
		j.Served(host, config)
	}
}

func TestConfigReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		readable := func() *metav1.Condition {
			return meta.FindStatusCondition(r.host("server1").Status.Conditions, v1.ConditionConfigReadable)
		}
		r.ConfigReadable(host, "")
		settled(time.Minute)
		if c := readable(); c != nil {
			t.Errorf("a host that never had the trouble: %+v", c)
		}
		r.ConfigReadable(host, "host g10/server1 boots an old image")
		settled(time.Minute)
		c := readable()
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "IgnitionTooOld" || c.Message != "host g10/server1 boots an old image" || c.ObservedGeneration != 3 {
			t.Errorf("%+v", c)
		}
		if e := r.allEvents()["IgnitionTooOld g10/server1"]; e == nil || e.Type != v1.EventWarning {
			t.Errorf("%+v", e)
		}
		r.Served(host, config) // leaves it alone
		r.ConflictChanged(snapshot.ConflictChange{Host: host, Conflicts: []snapshot.Conflict{{With: host.Ref, MAC: netaddr.MAC{2}}}})
		settled(time.Minute)
		if c := readable(); c == nil || c.Status != metav1.ConditionFalse {
			t.Errorf("%+v", c)
		}
		r.ConfigReadable(host, "")
		settled(time.Minute)
		if c := readable(); c == nil || c.Status != metav1.ConditionTrue || r.allEvents()["ConfigReadable g10/server1"] == nil {
			t.Errorf("%+v", c)
		}
	})
}
