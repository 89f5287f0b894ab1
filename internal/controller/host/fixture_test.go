package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/controller/events"
	"glowplug/internal/domain/model"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/boots/bootstest"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

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

func (m *memory) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	_ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
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

// Constants of other packages, by which tests let time pass.
const (
	recordGap  = 10 * time.Millisecond
	seenGap    = 5 * time.Second
	otherGrace = 10 * time.Second
)

// rig has all writers of the states of machines, over stores in memory, in a
// bubble of its own time.
type rig struct {
	*boots.Tracker
	*events.Recorder
	statuses     *StatusWriter
	inventory    *snapshot.Inventory
	hosts, store *memory // store is that of events
	bucket       *bootstest.Bucket
	logged       func() string
	stop         func()
	metrics      *prometheus.Registry
}

func newRig(t *testing.T) *rig {
	t.Helper()
	hosts := newMemory()
	return rigOver(t, hosts, newMemory(), bootstest.New())
}

// find returns a host as the snapshot has it.
func (m *memory) find(ref model.Ref) *model.Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	host, ok := m.objects["/baremetalhosts/"+ref.String()].(*v1.BareMetalHost)
	if !ok {
		return nil
	}
	return model.HostFrom(host)
}

// rigOver starts a rig over stores that there are.
func rigOver(t *testing.T, hosts, store *memory, bucket *bootstest.Bucket) *rig {
	t.Helper()
	r := &rig{
		hosts: hosts, store: store, inventory: snapshot.New(snapshot.Options{}), bucket: bucket,
		metrics: prometheus.NewRegistry(),
	}
	logger, logged := logstest.Logger()
	r.logged = logged
	r.Recorder = events.New(events.Options{Logger: logger, Instance: "here"})
	r.Tracker = boots.New(boots.Options{Events: r.Recorder, Stored: bucket.Stored, Logger: logger})
	bucket.Load(r.Observer())
	bucket.Observe(r.Observer())
	r.statuses = NewStatusWriter(StatusOptions{
		Boots: r.Tracker, Inventory: r.inventory, Host: hosts.find, Events: r.Recorder, Logger: logger,
		Metrics: controller.NewMetrics(r.metrics),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Tracker.Run(ctx, bucket, bucket) })
	running.Go(func() { r.statuses.Run(ctx, r.hosts) })
	running.Go(func() { r.Recorder.Run(ctx, r.store, r.Storm) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

// shutdown writes what is left, as the server does.
func (r *rig) shutdown(ctx context.Context) error {
	r.stop()
	return errors.Join(r.Tracker.Shutdown(ctx), r.statuses.Shutdown(ctx), r.Recorder.Shutdown(ctx))
}

func (r *rig) add(name string) *model.Host {
	uid := "uid-" + name
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	r.hosts.objects["/baremetalhosts/g10/"+name] = &v1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: name, UID: types.UID(uid), Generation: 3},
		Spec:       v1.BareMetalHostSpec{IP: "192.168.10.10"},
	}
	return &model.Host{Ref: model.Ref{Namespace: "g10", Name: name}, UID: uid}
}

// observe puts a host with a hardware address into the inventory.
func (r *rig) observe(name, mac string) {
	r.inventory.Hosts().Put(kvstore.Item{Key: "g10/" + name, Revision: 1, Value: fmt.Appendf(nil,
		`{"metadata":{"uid":"uid-%s"},"spec":{"bootMACAddress":%q}}`, name, mac)})
}

func (r *rig) host(name string) *v1.BareMetalHost {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	return r.hosts.objects["/baremetalhosts/g10/"+name].DeepCopyObject().(*v1.BareMetalHost)
}

// allEvents returns the stored events by reason and object.
func (r *rig) allEvents() map[string]*v1.Event {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	out := map[string]*v1.Event{}
	for _, o := range r.store.objects {
		e := o.(*v1.Event)
		out[e.Reason+" "+e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] = e
	}
	return out
}

var config = model.Ref{Namespace: "g10", Name: "builder"}

const hash = "sha256:abc"

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
