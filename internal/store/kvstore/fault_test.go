package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd"
	"glowplug/internal/testkit"
)

func hostKey(i int) string { return fmt.Sprintf("/baremetalhosts/default/host-%06d", i) }

func get(t testing.TB, s *Store, i int) *v1.BareMetalHost {
	t.Helper()
	h := &v1.BareMetalHost{}
	if err := s.Get(context.Background(), hostKey(i), storage.GetOptions{}, h); err != nil {
		t.Fatal(err)
	}
	return h
}

func update(t testing.TB, s *Store, i int, change func(*v1.BareMetalHost)) {
	t.Helper()
	err := s.GuaranteedUpdate(context.Background(), hostKey(i), &v1.BareMetalHost{}, false, nil,
		storage.SimpleUpdate(func(obj k8sruntime.Object) (k8sruntime.Object, error) {
			change(obj.(*v1.BareMetalHost))
			return obj, nil
		}), nil)
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, s *Store, i int) {
	t.Helper()
	err := s.Delete(context.Background(), hostKey(i), &v1.BareMetalHost{}, nil, storage.ValidateAllObjectFunc, nil,
		storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func watchFrom(t testing.TB, s *Store, rev string) watch.Interface {
	t.Helper()
	w, err := s.Watch(context.Background(), "/baremetalhosts", storage.ListOptions{
		ResourceVersion: rev, Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// nextEvent renders an event: its type and the object's name, or its status.
func nextEvent(t testing.TB, w watch.Interface) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "closed"
		}
		switch obj := e.Object.(type) {
		case *metav1.Status:
			return fmt.Sprint(e.Type, " ", obj.Code)
		case *v1.BareMetalHost:
			return fmt.Sprint(e.Type, " ", obj.Name)
		}
		return fmt.Sprintf("%v %T", e.Type, e.Object)
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
		return ""
	}
}

func currentRV(t testing.TB, s *Store) string {
	t.Helper()
	list := &v1.BareMetalHostList{}
	if err := s.GetList(context.Background(), "/baremetalhosts", storage.ListOptions{Recursive: true,
		Predicate: storage.Everything}, list); err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

func TestNothingWorksBeforeTheLoad(t *testing.T) {
	s := New(hostKind("HOSTS"), Options{})
	ctx, h := context.Background(), &v1.BareMetalHost{}
	calls := map[string]error{
		"Get":    s.Get(ctx, hostKey(1), storage.GetOptions{ResourceVersion: "0"}, h),
		"List":   s.GetList(ctx, "/baremetalhosts", storage.ListOptions{Recursive: true}, &v1.BareMetalHostList{}),
		"Create": s.Create(ctx, hostKey(1), host(1), h, 0),
		"Update": s.GuaranteedUpdate(ctx, hostKey(1), h, true, nil, nil, nil),
		"Delete": s.Delete(ctx, hostKey(1), h, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}),
	}
	_, calls["Watch"] = s.Watch(ctx, "/baremetalhosts", storage.ListOptions{Recursive: true})
	_, calls["Stats"] = s.Stats(ctx)
	for name, err := range calls {
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v, want a 503", name, err)
		}
	}
	if s.connection.ReadinessCheck() == nil || s.connection.Loaded() {
		t.Error("the store claims to be ready")
	}
}

// The server is away at the start, comes, goes in the middle, and comes again.
func TestServerAway(t *testing.T) {
	t.Parallel()
	server := startExternal(t)
	server.shutdown()
	s := New(hostKind("HOSTS"), Options{})
	run(t, s, newJetStream(t, server.dial()))
	if err := s.Create(context.Background(), hostKey(1), host(1), nil, 0); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("create without a server: %v, want a 503", err)
	}
	server.restart()
	awaitReady(t, s)
	createHosts(t, s, 1, 3)
	w := watchFrom(t, s, currentRV(t, s))

	server.cmd.Process.Kill()
	server.cmd.Wait()
	began := time.Now()
	err := s.Create(context.Background(), hostKey(9), host(9), nil, 0)
	if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) {
		t.Errorf("create with the server gone: %v, want a 503 or 504", err)
	}
	if took := time.Since(began); took > callTimeout+time.Second {
		t.Errorf("the create took %v", took)
	}
	h := &v1.BareMetalHost{}
	if err := s.Get(context.Background(), hostKey(1), storage.GetOptions{}, h); !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsTimeout(err) {
		t.Errorf("a read with the server gone, which nobody can call current: %v, want a 503 or 504", err)
	}
	if err := s.Get(context.Background(), hostKey(1), storage.GetOptions{ResourceVersion: "0"}, h); err != nil {
		t.Fatal(err)
	}
	if h.Spec.Hostname != host(1).Spec.Hostname {
		t.Errorf("read %v from memory", h)
	}
	testkit.Until(t, "the store is not ready", func() bool { return s.connection.ReadinessCheck() != nil })

	server.restart()
	awaitReady(t, s)
	update(t, s, 2, func(h *v1.BareMetalHost) { h.Spec.IP = "192.0.2.7" })
	if got := nextEvent(t, w); got != "MODIFIED host-000002" {
		t.Errorf("the watch gives %s over the outage", got)
	}
}

// After an outage of some seconds the store works again within two seconds of the
// server's return.
func TestStoreWorksSoonAfterNATSIsBack(t *testing.T) {
	t.Parallel()
	server := startExternal(t)
	s := New(hostKind("HOSTS"), Options{})
	run(t, s, newJetStream(t, server.dial()))
	awaitReady(t, s)
	createHosts(t, s, 0, 20)
	server.cmd.Process.Kill()
	server.cmd.Wait()
	time.Sleep(5 * time.Second)
	server.restart()
	back := time.Now()
	testkit.Until(t, "a write is taken", func() bool {
		err := s.Create(context.Background(), hostKey(99), host(99), nil, 0)
		return err == nil || storage.IsExist(err)
	})
	get(t, s, 99)
	took := time.Since(back)
	t.Logf("a write and a read after %v", took)
	if took > 2*time.Second {
		t.Errorf("a write and a read took %v after the server was back", took)
	}
}

// record is an observer that writes down what it sees.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *record) Load(items []Item)         { r.add("load %d", len(items)) }
func (r *record) Put(item Item)             { r.add("put %s", item.Key) }
func (r *record) Delete(k string, _ uint64) { r.add("delete %s", k) }

func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

func TestObserverSeesAWriteBeforeItsWriter(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprintf("exclusive=%v", exclusive), func(t *testing.T) {
			r := &record{}
			s := New(hostKind("HOSTS"), Options{Exclusive: exclusive}, r)
			run(t, s, connect(t, startEmbedded(t, t.TempDir())))
			awaitReady(t, s)
			createHosts(t, s, 1, 2)
			update(t, s, 1, func(h *v1.BareMetalHost) { h.Spec.IP = "192.0.2.1" })
			remove(t, s, 1)
			createHosts(t, s, 1, 2) // over the tombstone
			want := []string{"load 0", "put default/host-000001", "put default/host-000001", "delete default/host-000001",
				"put default/host-000001"}
			if diff := cmp.Diff(want, r.take()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Deleted and created again while no server watched: history keeps only the second put.
func TestRecreatedObjectEndsFirst(t *testing.T) {
	server := startEmbedded(t, t.TempDir())
	r := &record{}
	follower := New(hostKind("HOSTS"), Options{}, r)
	js := connect(t, server)
	other := New(hostKind("HOSTS"), Options{})
	run(t, other, connect(t, server))
	awaitReady(t, other)
	stop := run(t, follower, js)
	awaitReady(t, follower)
	createHosts(t, other, 1, 2)
	testkit.Until(t, "the follower has it", func() bool { return follower.contents.count() == 1 })
	w := watchFrom(t, follower, currentRV(t, follower))
	stop()
	r.take()

	remove(t, other, 1)
	again := host(1)
	again.UID = "another"
	if err := other.Create(context.Background(), hostKey(1), again, nil, 0); err != nil {
		t.Fatal(err)
	}
	run(t, follower, js)
	awaitReady(t, follower)
	if diff := cmp.Diff([]string{"load 1"}, r.take()); diff != "" {
		t.Error(diff) // a new Run begins with a load
	}
	if got := nextEvent(t, w); got != "ERROR 410" {
		t.Errorf("the watch gives %s", got)
	}

	// The same within one session.
	e := follower.contents.mirror.get("default/host-000001")
	next := &entry{Item: Item{Key: e.Key, Revision: e.Revision + 2, Value: e.Value}, uid: "third"}
	w = watchFrom(t, follower, currentRV(t, follower))
	follower.contents.apply(change{key: e.Key, rev: next.Revision, put: next})
	if diff := cmp.Diff([]string{"delete default/host-000001", "put default/host-000001"}, r.take()); diff != "" {
		t.Error(diff)
	}
	if got := []string{nextEvent(t, w), nextEvent(t, w)}; !cmp.Equal(got, []string{"DELETED host-000001",
		"ADDED host-000001"}) {
		t.Errorf("the watch gives %v", got)
	}
}

// A bucket that is removed is not created again; one that replaces it is not
// followed and not written.
func TestBucketReplaced(t *testing.T) {
	js := connect(t, startEmbedded(t, t.TempDir()))
	r := &record{}
	s := New(hostKind("HOSTS"), Options{}, r)
	run(t, s, js)
	awaitReady(t, s)
	createHosts(t, s, 0, 5)
	ctx := context.Background()
	if err := js.DeleteStream(ctx, "KV_HOSTS"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the loss is noticed", func() bool { return errors.Is(s.connection.ReadinessCheck(), errBucketLost) })
	if _, err := js.Stream(ctx, "KV_HOSTS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("the bucket was made anew: %v", err)
	}
	if got := s.contents.count(); got != 5 {
		t.Errorf("%d objects in memory, want 5", got)
	}
	if _, err := js.CreateStream(ctx, s.bucket.streamConfig()); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the exchange is noticed", func() bool { return errors.Is(s.connection.ReadinessCheck(), errReplaced) })
	if got := s.contents.count(); got != 5 {
		t.Errorf("%d objects in memory, want 5", got)
	}
	if err := s.Create(ctx, hostKey(7), host(7), nil, 0); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a write: %v, want a 503", err)
	}
	if lines := r.take(); len(lines) != 6 {
		t.Errorf("observed %q", lines)
	}
}

func TestLedgerKeepsALostBucketFromBeingReplaced(t *testing.T) {
	server := startEmbedded(t, t.TempDir())
	if err := server.Add("HOSTS"); err != nil {
		t.Fatal(err)
	}
	js := connect(t, server)
	s := New(hostKind("HOSTS"), Options{Ledger: server})
	run(t, s, js)
	testkit.Until(t, "the loss is noticed", func() bool { return errors.Is(s.connection.ReadinessCheck(), errBucketLost) })
	if _, err := js.Stream(context.Background(), "KV_HOSTS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the bucket was made anew: %v", err)
	}
}

func TestWatchOfARevisionThatCannotBe(t *testing.T) {
	server := startEmbedded(t, t.TempDir())
	js := connect(t, server)
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	stop := run(t, s, js)
	awaitReady(t, s)
	createHosts(t, s, 0, 3)
	stop()
	s = New(hostKind("HOSTS"), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	for name, rev := range map[string]string{"before this process": "2", "in the future": "1000"} {
		if got := nextEvent(t, watchFrom(t, s, rev)); got != "ERROR 410" {
			t.Errorf("a revision %s gives %s, want a 410", name, got)
		}
	}
}

// forgetful loses acknowledgements.
type forgetful struct {
	jetstream.JetStream
	on atomic.Bool
}

func (f *forgetful) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck,
	error) {
	ack, err := f.JetStream.PublishMsg(ctx, msg, opts...)
	if f.on.Swap(false) {
		return nil, context.DeadlineExceeded
	}
	return ack, err
}

func TestWriteWithoutAcknowledgement(t *testing.T) {
	js := &forgetful{JetStream: connect(t, startEmbedded(t, t.TempDir()))}
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	js.on.Store(true)
	createHosts(t, s, 1, 2) // found by its write id
	createHosts(t, s, 2, 3)
	if got := s.contents.count(); got != 2 {
		t.Errorf("%d objects, want 2", got)
	}
}

// Somebody writes into a bucket that was said to be exclusive.
func TestForeignWriteIsFound(t *testing.T) {
	t.Parallel()
	js := connect(t, startEmbedded(t, t.TempDir()))
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	bump(context.Background(), t, js, "HOSTS")
	testkit.Until(t, "a write succeeds", func() bool {
		err := s.Create(context.Background(), hostKey(1), host(1), nil, 0)
		return err == nil || storage.IsExist(err)
	})
}

func TestExpirySurvivesARestart(t *testing.T) {
	t.Parallel()
	js := connect(t, startEmbedded(t, t.TempDir()))
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	stop := run(t, s, js)
	awaitReady(t, s)
	if err := s.Create(context.Background(), hostKey(1), host(1), nil, 1); err != nil {
		t.Fatal(err)
	}
	stop()
	s = New(hostKind("HOSTS"), Options{Exclusive: true})
	run(t, s, js)
	awaitReady(t, s)
	w := watchFrom(t, s, "0")
	if got := []string{nextEvent(t, w), nextEvent(t, w)}; !cmp.Equal(got, []string{"ADDED host-000001",
		"DELETED host-000001"}) {
		t.Errorf("the watch gives %v", got)
	}
}

func TestValueTooLarge(t *testing.T) {
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	run(t, s, connect(t, startEmbedded(t, t.TempDir())))
	awaitReady(t, s)
	h := host(1)
	h.Annotations["large"] = string(bytes.Repeat([]byte("x"), natsd.MaxPayload))
	if err := s.Create(context.Background(), hostKey(1), h, nil, 0); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("%.200v, want a 413", err)
	}
}

func TestKeyTooLong(t *testing.T) {
	s := New(hostKind("HOSTS"), Options{Exclusive: true})
	run(t, s, connect(t, startEmbedded(t, t.TempDir())))
	awaitReady(t, s)
	key := "/baremetalhosts/default/" + string(bytes.Repeat([]byte("x"), 5000))
	if err := s.Create(context.Background(), key, host(1), nil, 0); !apierrors.IsBadRequest(err) {
		t.Errorf("%.200v, want a 400", err)
	}
	createHosts(t, s, 1, 2) // the connection is alive
}
