package template

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/config"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/kinds"
	domaintemplate "glowplug/internal/domain/template"
	"glowplug/internal/serve/api"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/secrets"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/testkit"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// Started by imported packages for the life of the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	)
}

// site is all that stands between an object and the bytes of a machine.
type site struct {
	t      *testing.T
	stores map[string]*kvstore.Store
	inv    *snapshot.Inventory
	// secrets are the values of Secrets.
	secrets *secrets.Secrets
	*replica
	client *http.Client
	// markers counts the calls of reconciled.
	markers int
	events  events
	// cramped has the store refuse a status that names hosts.
	cramped atomic.Bool
	// rechecked are the names of the hosts whose condition may follow from a rendering.
	rechecked sync.Map
}

// replica is what one server makes of the store.
type replica struct {
	decider    *decide.Decider
	cache      *rendering.Cache
	controller *Controller
	// updates counts the updates of statuses that have returned.
	updates atomic.Int64
	// compiled counts the renderings.
	compiled atomic.Int64
	// before is called before each of them; nil: nothing is.
	before func()
}

type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Record(ref v1.ObjectReference, eventType, reason, _ string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ref.Name+" "+eventType+" "+reason)
}

// start opens a store with an API and one server's templates over it.
func start(t *testing.T, policy decide.Policy) *site {
	t.Helper()
	s := &site{t: t, stores: map[string]*kvstore.Store{}, secrets: secrets.New(nil)}
	s.inv = snapshot.New(snapshot.Options{Logger: slog.New(slog.DiscardHandler)})
	s.replica = s.serve(policy)
	observers := map[string][]kvstore.Observer{
		kinds.BareMetalHosts: {s.inv.Hosts()}, kinds.IgnitionConfigs: {s.inv.Configs()},
		kinds.ISCSICdroms: {s.inv.Images()}, kinds.Secrets: {s.secrets.Observer(), s.controller.Secrets()},
	}
	stores := map[string]storage.Interface{}
	var running []kvtest.Store
	for _, kind := range kinds.All() {
		s.stores[kind.Resource] = kvstore.New(objects.Stored(kind), kvstore.Options{Exclusive: true},
			observers[kind.Resource]...)
		stores[kind.Resource] = s.stores[kind.Resource]
		running = append(running, s.stores[kind.Resource])
	}
	kvtest.Run(t, kvtest.JetStream(t), running...)
	configs := config.New(config.Options{Store: s.stores[kinds.IgnitionConfigs], Snapshot: s.inv})
	apiServer, err := api.New(api.Options{Stores: stores, Inventory: s.inv, ConfigStatus: configs})
	if err != nil {
		t.Fatal(err)
	}
	s.client = &http.Client{Transport: apiServer.LoopbackConfig().Transport}
	t.Cleanup(func() {
		if err := apiServer.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var reconciling sync.WaitGroup
	reconciling.Go(func() { configs.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		reconciling.Wait()
	})
	for _, store := range stores {
		s.await("the store", func() bool { return store.ReadinessCheck() == nil })
	}
	return s
}

// serve makes a server's part, which runs until the test ends.
func (s *site) serve(policy decide.Policy) *replica {
	r := &replica{}
	r.cache = rendering.New(rendering.Options{
		Inventory: s.inv, Secret: s.secrets.Value,
		Render: func(t *compile.Template, f *domaintemplate.Facts) compile.Rendering {
			r.compiled.Add(1)
			if r.before != nil {
				r.before()
			}
			return t.Render(f)
		},
	})
	r.decider = decide.New(decide.Options{Inventory: s.inv, Policy: policy, Renderer: r.cache})
	r.controller = New(Options{
		Cache: r.cache, Inventory: s.inv, Decider: r.decider, Store: later{s, r}, Recorder: &s.events,
		Rendered: func(host Ref) {
			s.rechecked.Store(host.Name, true)
		},
	})
	r.controller.pauses = pauses{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.controller.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); r.cache.Close(); <-done })
	return r
}

// later is the store of configs, which is made after what stands on it.
type later struct {
	site    *site
	replica *replica
}

func (l later) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	p *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	defer l.replica.updates.Add(1)
	return l.site.stores[kinds.IgnitionConfigs].GuaranteedUpdate(ctx, key, out, ignoreNotFound, p,
		func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			obj, ttl, err := update(input, meta)
			if err == nil && l.site.cramped.Load() && obj.(*v1.IgnitionConfig).Status.Hosts != nil {
				err = apierrors.NewRequestEntityTooLargeError(
					"the object is 2 bytes; the NATS server takes messages of at most 1 (max_payload)")
			}
			return obj, ttl, err
		}, cached)
}

func (s *site) await(what string, done func() bool) {
	s.t.Helper()
	testkit.Until(s.t, what, done)
}

func (s *site) send(method, path, contentType string, body any) {
	s.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	req, _ := http.NewRequest(method, "http://glowplug.invalid/api/v1/"+path, bytes.NewReader(data))
	req.Header.Set("Content-Type", contentType)
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, text)
	}
}

const applied = "application/apply-patch+yaml"

// put applies a template for hosts with the label role=worker.
func (s *site) put(namespace, name, typ, format, source string) {
	s.t.Helper()
	s.putFor("worker", namespace, name, typ, format, source)
}

func (s *site) putFor(role, namespace, name, typ, format, source string) {
	s.t.Helper()
	path := "namespaces/" + namespace + "/ignitionconfigs/" + name + "?fieldManager=test&force=true"
	s.send("PATCH", path, applied, map[string]any{
		"apiVersion": "v1", "kind": "IgnitionConfig", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"type": typ, "format": format, "config": source, "template": true,
			"selector": map[string]any{"matchLabels": map[string]string{"role": role}}},
	})
}

// worker applies a host with that label; its addresses end in n.
func (s *site) worker(namespace string, n int, labels ...string) {
	s.t.Helper()
	all := map[string]string{"role": "worker"}
	for i := 0; i < len(labels); i += 2 {
		all[labels[i]] = labels[i+1]
	}
	path := fmt.Sprintf("namespaces/%s/baremetalhosts/node-%d?fieldManager=test&force=true", namespace, n)
	s.send("PATCH", path, applied, map[string]any{
		"apiVersion": "v1", "kind": "BareMetalHost",
		"metadata": map[string]any{"name": fmt.Sprintf("node-%d", n), "annotations": map[string]string{"owner": "ops"}},
		"spec": map[string]any{
			"bootMACAddress": fmt.Sprintf("52:54:00:00:00:%02x", n), "ip": fmt.Sprintf("10.0.0.%d", n), "labels": all,
			"nics": []map[string]string{{"mac": fmt.Sprintf("52:54:00:00:01:%02x", n)}},
			"bmc":  map[string]string{"address": "10.1.0.1", "username": "root", "password": "calvin-secret"}},
	})
}

// booted writes the status of a host, as each boot does.
func (s *site) booted(namespace string, n int) {
	s.t.Helper()
	path := fmt.Sprintf("namespaces/%s/baremetalhosts/node-%d/status", namespace, n)
	s.send("PATCH", path, "application/merge-patch+json",
		map[string]any{"status": map[string]any{"state": "Booting", "lastSeen": metav1.Now()}})
}

func (s *site) config(namespace, name string) *v1.IgnitionConfig {
	s.t.Helper()
	out := &v1.IgnitionConfig{}
	key := "/ignitionconfigs/" + namespace + "/" + name
	if err := s.stores[kinds.IgnitionConfigs].Get(context.Background(), key, storage.GetOptions{}, out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// settled waits until a template's status is of its newest generation, and says
// phase and ready/failed/total.
func (s *site) settled(namespace, name, want string) *v1.IgnitionConfig {
	s.t.Helper()
	var config *v1.IgnitionConfig
	got := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		config = s.config(namespace, name)
		st := &config.Status
		if got = st.Phase; st.Hosts != nil {
			got += fmt.Sprintf(" %d/%d/%d", st.Hosts.Ready, st.Hosts.Failed, st.Hosts.Total)
		}
		if got == want && st.ObservedGeneration == config.Generation {
			return config
		}
	}
	s.t.Fatalf("the status says %q, want %q; its error is %q", got, want, config.Status.ErrorMessage)
	return nil
}

// ask asks as a machine.
func (r *replica) ask(addr string) *decide.ConfigDecision {
	return r.askFor(decide.Ignition, addr)
}

func (r *replica) askFor(endpoint, addr string) *decide.ConfigDecision {
	dec := r.decider.Config(&decide.Request{Type: endpoint, Caller: identity.Caller{Addr: netip.MustParseAddr(addr)}})
	return &dec
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// check compares one value with the one that is wanted.
func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// checkGiven checks that a machine was given a config with some texts in it.
func checkGiven(t *testing.T, dec *decide.ConfigDecision, stale bool, texts ...string) {
	t.Helper()
	if dec.Err != nil {
		t.Errorf("refused: %s", dec.Err.Sentence)
		return
	}
	check(t, "stale", dec.Config.Stale, stale)
	for _, text := range texts {
		if !strings.Contains(string(dec.Config.Artifact), text) {
			t.Errorf("there is no %q in %s", text, dec.Config.Artifact)
		}
	}
}

// checkRefused checks that a machine was given nothing.
func checkRefused(t *testing.T, dec *decide.ConfigDecision, kind fault.Kind, sentence string) {
	t.Helper()
	if dec.Err == nil {
		t.Errorf("given %s", dec.Config.Artifact)
		return
	}
	check(t, "kind", dec.Err.Kind, kind)
	if !strings.HasSuffix(dec.Err.Sentence, sentence) {
		t.Errorf("the sentence is %q; want %q", dec.Err.Sentence, sentence)
	}
}

func butane(files ...string) string {
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n")
	for i, f := range files {
		fmt.Fprintf(&b, "    - path: /etc/f%d\n      contents:\n        inline: %s\n", i, f)
	}
	return b.String()
}
