package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/progress"
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

// memoryLog is a boot log in memory, which can be away.
type memoryLog struct {
	mu       sync.Mutex
	applied  func(bootlog.Batch)
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
	l.applied(l.add(records, true))
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

// replay has a tracker apply the messages after a sequence.
func (l *memoryLog) replay(t *progress.Tracker, after uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.Sequence > after {
			t.Apply(bootlog.Batch{Sequence: m.Sequence, Records: slices.Clone(m.Records)})
		}
	}
}

// Constants of other packages, by which tests let time pass.
const (
	seenGap      = 5 * time.Second
	trimInterval = 2 * time.Second
	otherGrace   = 10 * time.Second
	maxLag       = 1 << 12
)

// rig has all writers of the states of machines, over stores in memory, in a
// bubble of its own time.
type rig struct {
	*progress.Tracker
	*events.Recorder
	statuses     *StatusWriter
	inventory    *snapshot.Inventory
	hosts, store *memory // store is that of events
	log          *memoryLog
	logged       func() string
	stop         func()
	metrics      *prometheus.Registry
}

func newRig(t *testing.T) *rig {
	t.Helper()
	hosts := newMemory()
	return rigOver(t, hosts, newMemory(), hosts.find)
}

// find returns a host as the snapshot has it.
func (m *memory) find(ref model.Ref) *model.Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	host, ok := m.objects["/baremetalhosts/"+ref.String()].(*v1.BareMetalHost)
	if !ok {
		return nil
	}
	return &model.Host{Ref: ref, UID: string(host.UID), Progress: progressOf(&host.Status)}
}

// rigOver starts a rig over stores that there are. find returns hosts as the snapshot
// has them.
func rigOver(t *testing.T, hosts, store *memory, find func(model.Ref) *model.Host) *rig {
	t.Helper()
	r := &rig{
		hosts: hosts, store: store, inventory: snapshot.New(snapshot.Options{}), log: &memoryLog{},
		metrics: prometheus.NewRegistry(),
	}
	logger, logged := logstest.Logger()
	r.logged = logged
	r.Recorder = events.New(events.Options{Logger: logger, Instance: "here"})
	r.Tracker = progress.New(progress.Options{Events: r.Recorder, Host: find, Logger: logger})
	r.log.applied = r.Apply
	r.statuses = NewStatusWriter(StatusOptions{
		Progress: r.Tracker, Inventory: r.inventory, Host: find, Events: r.Recorder, Logger: logger,
		Metrics: controller.NewMetrics(r.metrics),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Tracker.Run(ctx, r.log) })
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

var config = &model.Config{Ref: model.Ref{Namespace: "g10", Name: "builder"}, Hash: "sha256:abc"}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
