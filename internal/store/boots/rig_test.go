package boots

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots/bootstest"
	"glowplug/internal/store/kvstore"
)

func TestMain(m *testing.M) {
	const nats = "github.com/nats-io/nats-server/v2/server"
	// NATS does not end these of a stream that it makes while it stops.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(nats+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(nats+"/ats.Register.func1"))
}

// events counts the events of what machines do.
type events struct {
	mu sync.Mutex
	n  map[string]int
}

func (e *events) RecordStep(host model.Ref, _, reason, _ string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n[reason+" "+host.String()]++
}

// rig is a running tracker over a bucket in memory, in a bubble of its own time.
type rig struct {
	*Tracker
	bucket *bootstest.Bucket
	events *events
	stop   func()
}

func newRig(t *testing.T) *rig { return rigOver(t, bootstest.New(), true) }

// rigOver starts a server over a bucket. exclusive is false where there are others.
func rigOver(t *testing.T, bucket *bootstest.Bucket, exclusive bool) *rig {
	t.Helper()
	r := &rig{bucket: bucket, events: &events{n: map[string]int{}}}
	r.Tracker = New(Options{Events: r.events, Stored: bucket.Stored, Exclusive: exclusive})
	bucket.Load(r.Observer())
	bucket.Observe(r.Observer())
	r.run(t, bucket)
	return r
}

func (r *rig) run(t *testing.T, store Store) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, store, r.bucket) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
}

// wantState checks the state of a host, and the number of its boots.
func (r *rig) wantState(t *testing.T, host *model.Host, state string, boots int64) {
	t.Helper()
	if p := r.Progress(host); p.State != state || p.Boots != boots {
		t.Errorf("%s: %s after %d boots; want %s after %d", host.Ref, p.State, p.Boots, state, boots)
	}
}

// wantLog checks what was stored, in order.
func (r *rig) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.bucket.Log()); diff != "" {
		t.Error(diff)
	}
}

func newHost(name string) *model.Host {
	return &model.Host{Ref: model.Ref{Namespace: "g10", Name: name}, UID: "uid-" + name}
}

var (
	config = model.Ref{Namespace: "g10", Name: "builder"}
	image  = model.Ref{Namespace: "g10", Name: "live"}
)

const hash = "sha256:abc"

// script gives a machine the script that boots its image.
func (r *rig) script(host *model.Host) { r.ScriptServed(host, "image g10/live", false, nil) }

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// story is a boot as a test reads it: its name and outcome, its reason, and its steps.
func story(b *v1.Boot) string {
	if b == nil {
		return "none"
	}
	s := b.Name + " " + b.Outcome
	if b.Reason != "" {
		s += " (" + b.Reason + ")"
	}
	for i, step := range b.Steps {
		s += map[bool]string{true: ":", false: ","}[i == 0] + " " + step.Name
	}
	return s
}

// stories are those of boots.
func stories(boots ...*v1.Boot) (all []string) {
	for _, b := range boots {
		all = append(all, story(b))
	}
	return all
}

// link is the way of one server to the bucket, which can be cut. What others store meanwhile, the server learns later.
type link struct {
	kvstore.Observer
	bucket Store

	mu     sync.Mutex
	down   error
	missed []kvstore.Item
}

func (l *link) PutAll(ctx context.Context, puts []kvstore.Put) (uint64, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down != nil {
		return 0, down
	}
	return l.bucket.PutAll(ctx, puts)
}

func (l *link) Put(item kvstore.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		l.missed = append(l.missed, item)
		return
	}
	l.Observer.Put(item)
}

// cut cuts the link with an error; nil mends it.
func (l *link) cut(err error) {
	l.mu.Lock()
	missed := slices.Clone(l.missed)
	l.missed = nil
	l.mu.Unlock()
	for _, item := range missed {
		l.Observer.Put(item)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}
