package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/controller"
	"glowplug/internal/controller/stream"
	"glowplug/internal/domain/coreos/streamtest"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/serve/api"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/streams"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	)
}

const namespace, name = "openshift-machine-config-operator", "coreos-bootimages"

var (
	releases   = schema.GroupVersionResource{Version: "v1", Resource: "streamreleases"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// site is one store with replicas of the program on it.
type site struct {
	*testing.T
	// client is of the first replica.
	client   dynamic.Interface
	releases *streams.Library
	metrics  *prometheus.Registry // of the first replica
	mu       sync.Mutex
	events   []string
}

func (s *site) Record(ref v1.ObjectReference, eventType, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, strings.Join([]string{ref.Name, eventType, reason, message}, " "))
}

// laggard is an observer that is told late, as on a replica that is behind.
type laggard struct {
	kvstore.Observer
	by time.Duration
}

func (l laggard) Put(item kvstore.Item) {
	time.Sleep(l.by)
	l.Observer.Put(item)
}

func newSite(t *testing.T, replicas int, shown string) *site {
	t.Helper()
	s := &site{T: t}
	ctx, cancel := context.WithCancel(context.Background())
	js := kvtest.JetStream(t)
	var running sync.WaitGroup
	var stop []func()
	for i := range replicas {
		library, metrics := streams.NewLibrary(nil), prometheus.NewRegistry()
		stores := map[string]storage.Interface{}
		for _, kind := range kinds.All() {
			var observers []kvstore.Observer
			switch {
			case kind.Resource != kinds.StreamReleases:
			case i == 0:
				observers = append(observers, library.Observer())
			default:
				observers = append(observers, laggard{library.Observer(), 100 * time.Millisecond})
			}
			store := kvstore.New(objects.Stored(kind), kvstore.Options{}, observers...)
			stores[kind.Resource] = store
			kvtest.Run(t, js, store)
		}
		apiServer, err := api.New(api.Options{Stores: stores})
		if err != nil {
			t.Fatal(err)
		}
		own, err := client.New(apiServer.LoopbackConfig())
		if err != nil {
			t.Fatal(err)
		}
		c := stream.New(stream.Options{
			Library: library, Client: own, Namespace: namespace, Name: name, Stream: shown, Recorder: s,
			Metrics: controller.NewMetrics(metrics),
		})
		running.Go(func() { c.Run(ctx) })
		stop = append(stop, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = apiServer.Shutdown(ctx)
		})
		if i == 0 {
			s.releases, s.metrics = library, metrics
			if s.client, err = dynamic.NewForConfig(apiServer.LoopbackConfig()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, f := range stop {
			f()
		}
		cancel()
		running.Wait()
	})
	return s
}

func document(stream, release string, day int) string {
	return string(streamtest.Document(streamtest.Options{
		Stream: stream, Release: release, Modified: fmt.Sprintf("2026-07-%02dT00:00:00Z", day),
	}))
}

// add imports a release whose document was made on a day of July.
func (s *site) add(stream, release string, day int) {
	s.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "StreamRelease",
		"metadata": map[string]any{"name": v1.StreamReleaseName(stream, release)},
		"spec":     map[string]any{"stream": stream, "release": release, "document": document(stream, release, day)},
	}}
	if _, err := s.client.Resource(releases).Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) patch(resource schema.GroupVersionResource, namespace, name, patch string) {
	s.Helper()
	_, err := s.client.Resource(resource).Namespace(namespace).
		Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) remove(resource schema.GroupVersionResource, namespace, name string) {
	s.Helper()
	err := s.client.Resource(resource).Namespace(namespace).Delete(s.Context(), name, metav1.DeleteOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// configMap reads what is posted; nil: nothing is.
func (s *site) configMap() *v1.ConfigMap {
	object, err := s.client.Resource(configMaps).Namespace(namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	text, _ := object.MarshalJSON()
	cm := &v1.ConfigMap{}
	if err := json.Unmarshal(text, cm); err != nil {
		s.Error(err)
	}
	return cm
}

func (s *site) await(what string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s does not come to pass", what)
		}
	}
}

// reconciled waits until the ConfigMap has been reconciled from its beginning to its end:
// of two reconciles one may have been under way before.
func (s *site) reconciled() {
	s.Helper()
	before, notes := s.reconciles(), 0
	s.await("two reconciles", func() bool {
		s.patch(configMaps, namespace, name, fmt.Sprintf(`{"data":{"note":"%d"}}`, notes))
		notes++
		return s.reconciles() >= before+2
	})
}

// reconciles is the number of reconciles of the first replica.
func (s *site) reconciles() (n float64) {
	families, err := s.metrics.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "glowplug_controller_reconciles_total" {
			for _, m := range family.Metric {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

// shows waits until the ConfigMap shows a release.
func (s *site) shows(release string) {
	s.Helper()
	s.await("release "+release, func() bool {
		cm := s.configMap()
		return cm != nil && cm.Data["releaseVersion"] == release
	})
}

// current are the releases whose status says that they are.
func (s *site) current() string {
	list, err := s.client.Resource(releases).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		if yes, _, _ := unstructured.NestedBool(item.Object, "status", "current"); yes {
			names = append(names, item.GetName())
		}
	}
	return strings.Join(names, " ")
}

// TestOneChangeARelease: whoever watches the ConfigMap sees each release once, whole.
func TestOneChangeARelease(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2} {
		s := newSite(t, replicas, "")
		watcher, err := s.client.Resource(configMaps).Namespace(namespace).
			Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		const count = 4
		for i := range count {
			release := fmt.Sprintf("44.%d", i)
			s.add("stable", release, i+1)
			select {
			case event := <-watcher.ResultChan():
				want := watch.Modified
				if i == 0 {
					want = watch.Added
				}
				data, _, _ := unstructured.NestedStringMap(event.Object.(*unstructured.Unstructured).Object, "data")
				if event.Type != want || data["releaseVersion"] != release ||
					data["stream"] != document("stable", release, i+1) {
					t.Fatalf("%d replicas, %s: %s of %s", replicas, release, event.Type, data["releaseVersion"])
				}
			case <-time.After(time.Minute):
				t.Fatalf("%d replicas: nobody is told of %s", replicas, release)
			}
		}
		s.await("status.current", func() bool { return s.current() == "stable-44.3" })
		select {
		case event := <-watcher.ResultChan():
			t.Errorf("%d replicas: told once more: %s", replicas, event.Type)
		case <-time.After(400 * time.Millisecond):
		}
	}
}

func TestWhatIsPosted(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, "")
	s.add("rhcos-4.22", "2", 2)
	s.shows("2")
	s.add("rhcos-4.22", "1", 1) // an old one, late
	s.add("stable", "44", 9)    // another stream
	s.await("status.current", func() bool { return s.current() == "rhcos-4.22-2 stable-44" })
	first := s.configMap()
	if first.Data["releaseVersion"] != "2" || first.Annotations[v1.AnnotationStream] != "rhcos-4.22" {
		t.Errorf("%v %s", first.Annotations, first.Data["releaseVersion"])
	}

	// A way back, and forward again.
	s.patch(releases, "", "rhcos-4.22-1", `{"spec":{"current":true}}`)
	s.shows("1")
	s.await("status.current", func() bool { return s.current() == "rhcos-4.22-1 stable-44" })
	s.patch(releases, "", "rhcos-4.22-1", `{"spec":{"current":false}}`)
	s.shows("2")

	// What others write beside it stays; what they write over it does not.
	s.patch(configMaps, namespace, name,
		`{"data":{"releaseVersion":"mine","note":"kept"},"metadata":{"labels":{"a":"b"}}}`)
	s.shows("2")
	if cm := s.configMap(); cm.Data["note"] != "kept" || cm.Labels["a"] != "b" {
		t.Errorf("%v", cm.Labels)
	}
	s.remove(configMaps, namespace, name)
	s.await("a new ConfigMap", func() bool { cm := s.configMap(); return cm != nil && cm.UID != first.UID })
	s.shows("2")

	// The document changes, the release does not.
	changed := strings.Replace(document("rhcos-4.22", "2", 2), "ami-", "ami-9", 1)
	patch, _ := json.Marshal(map[string]any{"spec": map[string]string{"document": changed}})
	s.patch(releases, "", "rhcos-4.22-2", string(patch))
	s.await("the changed document", func() bool { return s.configMap().Data["stream"] == changed })

	// An immutable one is left alone, and that is said once.
	s.patch(configMaps, namespace, name, `{"immutable":true}`)
	s.add("rhcos-4.22", "3", 3)
	said := func() string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Join(s.events, "\n")
	}
	const want = name + " Warning NotInStep it is immutable and shows an old release: delete it, and it is made anew"
	s.await("an event", func() bool { return said() == want })
	s.add("rhcos-4.22", "4", 4)
	s.await("status.current", func() bool { return s.current() == "rhcos-4.22-4 stable-44" })
	if cm := s.configMap(); cm.Data["releaseVersion"] != "2" || said() != want {
		t.Errorf("%s\n%s", cm.Data["releaseVersion"], said())
	}
	s.remove(configMaps, namespace, name)
	s.shows("4")

	// The ConfigMap outlives its stream. Another takes its place in a new one alone.
	for _, release := range []string{"1", "2", "3", "4"} {
		s.remove(releases, "", "rhcos-4.22-"+release)
	}
	s.await("the end of the stream", func() bool { return len(s.releases.Streams()) == 1 })
	s.reconciled()
	s.shows("4")
	s.remove(configMaps, namespace, name)
	s.shows("44")
}

// TestAnotherWriterIsNotFoughtAtFullSpeed: the ConfigMap is put right, but with a growing
// pause while another client writes all the time.
func TestAnotherWriterIsNotFoughtAtFullSpeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, "")
	s.add("stable", "44", 1)
	s.shows("44")
	began := time.Now()
	for range 5 { // after 50, 100, 200, 400 and 800 ms
		s.patch(configMaps, namespace, name, `{"data":{"releaseVersion":"mine"}}`)
		s.shows("44")
	}
	if took := time.Since(began); took < 1400*time.Millisecond {
		t.Errorf("put right five times in %s", took)
	}
	s.add("stable", "45", 2)
	s.shows("45")
}

func TestACertainStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, "stable")
	s.add("next", "45", 9)
	s.await("status.current", func() bool { return s.current() == "next-45" })
	if s.configMap() != nil {
		t.Error("another stream is shown")
	}
	s.add("stable", "44", 1)
	s.shows("44")
}
