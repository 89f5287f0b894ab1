package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/report"
	"glowplug/internal/remote"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/policy"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/store/tokens"
)

func TestMain(m *testing.M) {
	BridgeLogs(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// Started by imported packages for the life of the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"), // it has no end
	)
}

// api is a server on a store of its own.
type api struct {
	t      *testing.T
	url    string
	client *http.Client
	server *Server
	stores map[string]storage.Interface
	status *compiledAtOnce
}

// start returns an API whose callers need no credential, on a store of its own.
func start(t *testing.T, change ...func(*Options)) *api {
	t.Helper()
	return startOn(t, newStores(t), Listener{Admin: true, Admitted: true}, change...)
}

func newStores(t *testing.T) map[string]storage.Interface {
	t.Helper()
	return storesOn(t, kvtest.JetStream(t), kvstore.Options{Exclusive: true})
}

func storesOn(t *testing.T, js jetstream.JetStream, opts kvstore.Options) map[string]storage.Interface {
	t.Helper()
	stores := map[string]storage.Interface{}
	var running []kvtest.Store
	inv, roles := snapshot.New(snapshot.Options{}), policy.New(nil)
	byResource := roles.Observers()
	kept := tokens.New(tokens.Options{Key: []byte("key")})
	maps.Copy(byResource, kept.Observers())
	for _, kind := range kinds.All() {
		var observers []kvstore.Observer
		switch kind.Resource {
		case kinds.IgnitionConfigs:
			observers = append(observers, inv.Configs())
		case kinds.BareMetalHosts:
			observers = append(observers, inv.Hosts())
		case kinds.RoleBindings:
			observers = append(observers, inv.RoleBindings())
		case kinds.Roles:
			observers = append(observers, inv.Roles())
		case kinds.ClusterRoles:
			observers = append(observers, inv.ClusterRoles())
		case kinds.ClusterRoleBindings:
			observers = append(observers, inv.ClusterRoleBindings())
		case kinds.Namespaces:
			observers = append(observers, inv.Namespaces())
		case kinds.ISCSICdroms:
			observers = append(observers, inv.Images())
		}
		if o := byResource[kind.Resource]; o != nil {
			observers = append(observers, o)
		}
		store := kvstore.New(objects.Stored(kind), opts, observers...)
		stores[kind.Resource] = store
		if kind.Resource == kinds.IgnitionConfigs {
			stores[kind.Resource] = followed{store, inv, roles, kept}
		}
		if kind.Resource == kinds.Boots {
			history := boots.NewHistory(boots.HistoryOptions{})
			stores[kind.Resource] = bootStore{boots.NewStorage(store, history), store, history}
			running = append(running, runningHistory{history})
		}
		running = append(running, store)
	}
	kvtest.Run(t, js, running...)
	return stores
}

// bootStore is the store of boots, with its parts.
type bootStore struct {
	*boots.Storage
	bucket  *kvstore.Store
	history *boots.History
}

type runningHistory struct{ *boots.History }

func (h runningHistory) Run(ctx context.Context, js jetstream.JetStream, _ ...kvstore.Observer) {
	h.History.Run(ctx, js)
}

func (h runningHistory) ReadinessCheck() error {
	if _, err := h.Get(context.Background(), "none", "none.1"); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// followed is the store of the configs, with the inventory and the policy that follow the stores.
type followed struct {
	storage.Interface
	inv    *snapshot.Inventory
	roles  *policy.Policy
	tokens *tokens.Tokens
}

func startOn(t *testing.T, stores map[string]storage.Interface, listener Listener, change ...func(*Options)) *api {
	t.Helper()
	a := &api{t: t, stores: stores, status: &compiledAtOnce{}}
	opts := Options{
		Stores: stores, Inventory: stores[kinds.IgnitionConfigs].(followed).inv, ConfigStatus: a.status,
		Policy:       stores[kinds.IgnitionConfigs].(followed).roles,
		Render:       remote.New(remote.Options{}).Render,
		IsAdminToken: func(token string) bool { return token == "admin-token" },
	}
	for _, f := range change {
		f(&opts)
	}
	var err error
	if a.server, err = New(opts); err != nil {
		t.Fatal(err)
	}
	served := httptest.NewServer(a.server.Handler(listener))
	a.url, a.client = served.URL, served.Client()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		served.Close()
	})
	return a
}

// compiledAtOnce is a fake of the controller of configs: it compiles each source,
// and knows no layers.
type compiledAtOnce struct {
	pending  atomic.Bool
	mu       sync.Mutex
	admitted []string
}

func (c *compiledAtOnce) Admit(_ context.Context, config, _ *v1.IgnitionConfig, _ bool) (report.Report, error) {
	artifact, found := compile.Compile(compile.SourceOf(config))
	status := &config.Status
	status.Phase, status.ErrorMessage, status.ObservedGeneration = v1.PhaseReady, found.Summary(), config.Generation
	switch {
	case c.pending.Load():
		status.Phase = v1.PhasePending
		return nil, errors.New("the compiler is busy")
	case artifact == nil:
		status.Phase = v1.PhaseError
		return found.Errors(), nil
	case artifact.Template:
		status.Phase = v1.PhasePending
	default:
		status.ConfigHash, status.CompiledSize, status.IgnitionVersion = artifact.Hash, int64(len(artifact.Bytes)),
			artifact.IgnitionVersion
	}
	config.Compiled = &v1.Compiled{
		Artifact: artifact.Bytes, Hash: artifact.Hash, IgnitionVersion: artifact.IgnitionVersion,
		Generation: config.Generation, Confidential: config.Spec.Confidential,
		Template: artifact.Template, Format: config.Spec.Format,
	}
	return nil, nil
}

func (c *compiledAtOnce) Admitted(config, old *v1.IgnitionConfig) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admitted = append(c.admitted, fmt.Sprintf("%s %d", config.Name, config.Generation))
	if old != nil && old.Generation+1 != config.Generation {
		c.admitted = append(c.admitted, fmt.Sprintf("of %d", old.Generation))
	}
}

func (c *compiledAtOnce) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.admitted, ", ")
}

// answer is what came back.
type answer struct {
	code     int
	header   http.Header
	body     []byte
	warnings []string
}

func (a answer) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(a.body); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return out
}

func (a answer) status(t *testing.T) metav1.Status {
	t.Helper()
	var out metav1.Status
	if err := json.Unmarshal(a.body, &out); err != nil || out.Kind != "Status" {
		t.Fatalf("not a Status object (%v): %s", err, a.body)
	}
	return out
}

// fields returns the field paths of a 422, each once, in order.
func (a answer) fields(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, cause := range a.status(t).Details.Causes {
		if len(out) == 0 || out[len(out)-1] != cause.Field {
			out = append(out, cause.Field)
		}
	}
	return out
}

// do sends a request; a body that is no string or bytes is sent as JSON.
func (a *api) do(method, path string, body any, header ...string) answer {
	a.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	case []byte:
		reader = bytes.NewReader(b)
	case io.Reader:
		reader = b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			a.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, a.url+path, reader)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	out := answer{code: resp.StatusCode, header: resp.Header, body: raw}
	for _, warning := range resp.Header.Values("Warning") {
		out.warnings = append(out.warnings, strings.Trim(strings.TrimPrefix(warning, "299 - "), `"`))
	}
	return out
}

// must is do, where anything but the code ends the test.
func (a *api) must(code int, method, path string, body any, header ...string) answer {
	a.t.Helper()
	out := a.do(method, path, body, header...)
	if out.code != code {
		a.t.Fatalf("%s %s: %d, want %d: %.2000s", method, path, out.code, code, out.body)
	}
	return out
}

const (
	configs = "/api/v1/namespaces/g10/ignitionconfigs"
	hosts   = "/api/v1/namespaces/g10/baremetalhosts"
	cdroms  = "/api/v1/namespaces/g10/iscsicdroms"

	goodSource = "variant: fcos\nversion: 1.5.0\n"
	badSource  = "variant: fcos\nversion: 1.5.0\nstorrage: {}\n"
)

func config(name, source string) *v1.IgnitionConfig {
	return &v1.IgnitionConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "IgnitionConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.IgnitionConfigSpec{Type: v1.TypeIgnition, Format: v1.FormatButane, Config: source},
	}
}

func host(name string) *v1.BareMetalHost {
	return &v1.BareMetalHost{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "BareMetalHost"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.BareMetalHostSpec{BootMACAddress: "AC:1F:6B:8A:A7:9C", IP: "192.168.10.10"},
	}
}
