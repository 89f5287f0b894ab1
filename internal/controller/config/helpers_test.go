package config

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/snapshot"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// Started by imported packages for the life of the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	)
}

// site is a controller over a store.
type site struct {
	t *testing.T
	*Controller
	store  *followed
	events *recorder
	// stop ends the controller and waits for that.
	stop func()
}

// followed is the store of the configs, and the snapshot that follows it.
type followed struct {
	storage.Interface
	snap *snapshot.Inventory
}

func newStore(t *testing.T) *followed {
	t.Helper()
	return storeOn(t, kvtest.JetStream(t), true)
}

func storeOn(t *testing.T, js jetstream.JetStream, exclusive bool) *followed {
	t.Helper()
	snap := snapshot.New(snapshot.Options{})
	for _, kind := range kinds.All() {
		if kind.Resource == kinds.IgnitionConfigs {
			store := kvstore.New(objects.Stored(kind), kvstore.Options{Exclusive: exclusive}, snap.Configs())
			kvtest.Run(t, js, store)
			return &followed{store, snap}
		}
	}
	panic("there is no kind IgnitionConfig")
}

func start(t *testing.T, change ...func(*Options)) *site {
	t.Helper()
	return startOn(t, newStore(t), change...)
}

func startOn(t *testing.T, store *followed, change ...func(*Options)) *site {
	t.Helper()
	s := &site{t: t, store: store, events: &recorder{}}
	opts := Options{Store: store, Snapshot: store.snap, Recorder: s.events, AdmissionLimit: time.Minute}
	for _, f := range change {
		f(&opts)
	}
	s.Controller = New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	return s
}

// put writes a config as a client of the API does, and returns it as it was answered.
func (s *site) put(config *v1.IgnitionConfig) *v1.IgnitionConfig {
	s.t.Helper()
	ctx := context.Background()
	var old *v1.IgnitionConfig
	out := &v1.IgnitionConfig{}
	if config = config.DeepCopy(); config.Namespace == "" {
		config.Namespace = "g10"
	}
	err := s.store.GuaranteedUpdate(ctx, keyOf(refOf(config)), out, true, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			next := config.DeepCopy()
			next.Generation, old = 1, nil
			if current := obj.(*v1.IgnitionConfig); current.UID != "" {
				old = current
				next.UID, next.CreationTimestamp, next.ResourceVersion = old.UID, old.CreationTimestamp, old.ResourceVersion
				next.Status, next.Compiled, next.Generation = old.Status, old.Compiled, old.Generation
				if !apiequality.Semantic.DeepEqual(next.Spec, old.Spec) {
					next.Generation++
				}
			} else {
				next.UID, next.CreationTimestamp = uuid.NewUUID(), metav1.Now().Rfc3339Copy()
			}
			if old == nil || next.Generation != old.Generation {
				_, _ = s.Admit(ctx, next, old, false)
			}
			return next, nil
		}), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if old == nil || out.Generation != old.Generation {
		s.Admitted(out, old)
	}
	return out
}

func (s *site) delete(name string) {
	s.t.Helper()
	err := s.store.Delete(context.Background(), "/ignitionconfigs/g10/"+name, &v1.IgnitionConfig{}, nil,
		storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// stored reads a config with what the API does not show.
func (s *site) stored(name string) *v1.IgnitionConfig {
	s.t.Helper()
	out := &v1.IgnitionConfig{}
	if err := s.store.Get(context.Background(), "/ignitionconfigs/g10/"+name, storage.GetOptions{ResourceVersion: "0"},
		out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func advance(name string) Key { return Key{model.Ref{Namespace: "g10", Name: name}, Advance} }

// rest reconciles configs until none is written any more, and returns their versions.
func (s *site) rest(names ...string) string {
	s.t.Helper()
	versions := func() (all string) {
		for _, name := range names {
			all += s.stored(name).ResourceVersion + " "
		}
		return all
	}
	for range 100 {
		was := versions()
		for _, name := range names {
			if _, err := s.Reconcile(s.t.Context(), advance(name)); err != nil {
				s.t.Fatal(err)
			}
			if err := s.convert(s.t.Context(), advance(name).Ref); err != nil {
				s.t.Fatal(err)
			}
		}
		if versions() == was {
			return was
		}
	}
	s.t.Fatal("configs are written again and again")
	return ""
}

// recorder keeps what would have become events.
type recorder struct {
	mu      sync.Mutex
	reasons []string
}

func (r *recorder) Record(ref v1.ObjectReference, eventType, reason, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, ref.Name+" "+eventType+" "+reason)
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.reasons, ", ")
}

const (
	goodSource = "variant: fcos\nversion: 1.5.0\n"
	badSource  = "variant: fcos\nversion: 1.5.0\nstorrage: {}\n"
)

func plain(name, text string) *v1.IgnitionConfig {
	return &v1.IgnitionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.IgnitionConfigSpec{Type: v1.TypeIgnition, Format: v1.FormatButane, Config: text},
	}
}

// over is a config that writes a file, over layers.
func over(name, text string, layers ...string) *v1.IgnitionConfig {
	c := plain(name, fmt.Sprintf(
		"variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/%s\n      contents: {inline: %s}\n", name, text))
	for _, layer := range layers {
		c.Spec.Layers = append(c.Spec.Layers, v1.LayerReference{Name: layer})
	}
	return c
}
