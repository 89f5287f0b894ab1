package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"

	"glowplug/internal/domain/kinds"
)

func TestInProcessClient(t *testing.T) {
	explained := errors.New("explained")
	a := startOn(t, newStores(t), Listener{}, func(opts *Options) {
		opts.Explain = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(explained) })
	})
	client, err := dynamic.NewForConfig(a.server.LoopbackConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hosts := schema.GroupVersionResource{Version: "v1", Resource: kinds.BareMetalHosts}
	resource := client.Resource(hosts).Namespace("g10")
	watcher, err := resource.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "BareMetalHost",
		"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"ip": "192.0.2.1"}}}
	if _, err := resource.Apply(ctx, "x", object, metav1.ApplyOptions{FieldManager: "manifests"}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watcher.ResultChan():
		if event.Type != "ADDED" {
			t.Errorf("%v", event)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the watch is silent")
	}
	object.Object["spec"] = map[string]any{"ip": "nonsense"}
	if _, err := resource.Apply(ctx, "x", object, metav1.ApplyOptions{FieldManager: "manifests"}); !apierrors.IsInvalid(
		err) {
		t.Errorf("%v", err)
	}
	// A client that goes away, and a handler that fails, leave nothing behind.
	gone, goAway := context.WithCancel(ctx)
	goAway()
	if _, err := resource.Get(gone, "x", metav1.GetOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://glowplug.invalid"+explainPath, nil)
	if resp, err := (inProcess{a.server}).RoundTrip(req); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%d", resp.StatusCode)
		}
	}
}

func TestVersion(t *testing.T) {
	a := start(t)
	var info apimachineryversion.Info
	if err := json.Unmarshal(a.must(http.StatusOK, "GET", "/version", nil).body, &info); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.GitVersion, "v"+info.Major+"."+info.Minor+".") || !strings.Contains(info.GitVersion,
		"+glowplug-") {
		t.Errorf("%+v", info)
	}
}

func TestDiscovery(t *testing.T) {
	a := start(t)
	var list metav1.APIResourceList
	if err := json.Unmarshal(a.must(http.StatusOK, "GET", "/api/v1", nil).body, &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]metav1.APIResource{}
	for _, resource := range list.APIResources {
		got[resource.Name] = resource
	}
	for name, short := range map[string]string{kinds.IgnitionConfigs: "ign", kinds.BareMetalHosts: "bmh",
		kinds.ISCSICdroms: "cdrom", kinds.Namespaces: "ns", kinds.Events: "ev"} {
		r := got[name]
		if len(r.ShortNames) != 1 || r.ShortNames[0] != short || r.Namespaced == (name == kinds.Namespaces) {
			t.Errorf("%+v", r)
		}
		inAll := len(r.Categories) == 1 && r.Categories[0] == "all"
		if inAll != (name != kinds.Namespaces && name != kinds.Events) {
			t.Errorf("%s in all: %v", name, inAll)
		}
	}
}

func TestMetrics(t *testing.T) {
	own := prometheus.NewRegistry()
	a := start(t, func(opts *Options) { opts.Registerer = own })
	a.must(http.StatusCreated, "POST", configs, config("x", goodSource))
	a.must(http.StatusOK, "GET", configs+"/x/rendered", nil)
	w := httptest.NewRecorder()
	MetricsHandler(own, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`glowplug_render_duration_seconds_count{code="200"} 1`, `apiserver_request_total{`,
		"go_goroutines"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestScrapeThatEndsEarlyLogsNothing: the library would log an error for each family that is
// left, and every stranger can scrape.
func TestScrapeThatEndsEarlyLogsNothing(t *testing.T) {
	var log strings.Builder
	handler := MetricsHandler(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	handler.ServeHTTP(goneWriter{http.Header{}}, httptest.NewRequest("GET", "/metrics", nil))
	if log.Len() > 0 {
		t.Errorf("%d bytes of log: %.200s", log.Len(), log.String())
	}
}

// goneWriter is the connection of a client that has left.
type goneWriter struct{ header http.Header }

func (w goneWriter) Header() http.Header       { return w.header }
func (w goneWriter) WriteHeader(int)           {}
func (w goneWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestShutdownEndsWatches(t *testing.T) {
	stores := newStores(t)
	server, err := New(Options{Stores: stores, IsAdminToken: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(server.Handler(Listener{Admin: true, Admitted: true}))
	defer listener.Close()
	resp, err := http.Get(listener.URL + hosts + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	ended := make(chan error, 1)
	go func() { _, err := resp.Body.Read(make([]byte, 1)); ended <- err }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("the watch goes on")
	}
}
