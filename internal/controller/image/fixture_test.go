package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/egress"
	"glowplug/internal/image"
	"glowplug/internal/image/imagetest"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// Started by imported packages for the life of the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	)
}

const sector = imagetest.Sector

var isoImage = imagetest.ISO

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// patience is how long a test waits for what has to come.
const patience = 2 * time.Minute

// kitOptions are those of the library and the controller of a kit.
type kitOptions struct {
	Options
	settle, linger time.Duration
}

// kit is a library and its controller on a store and a directory of its own.
type kit struct {
	t       *testing.T
	dir     string
	store   *kvstore.Store
	lib     *image.Library
	ctl     *Controller
	events  *recorder
	metrics *prometheus.Registry
	change  []func(*Controller, *kitOptions)
	stop    func()
}

func newKit(t *testing.T, change ...func(*Controller, *kitOptions)) *kit {
	t.Helper()
	k := &kit{t: t, dir: t.TempDir(), store: newStore(t), change: change}
	k.start()
	t.Cleanup(func() { k.stop() })
	return k
}

// allow is the policy of --allow-image-fetch with these entries.
func allow(t *testing.T, entries ...string) egress.Policy {
	t.Helper()
	policy, err := egress.PublicAnd("--allow-image-fetch", entries)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func newStore(t *testing.T) *kvstore.Store {
	t.Helper()
	var store *kvstore.Store
	for _, kind := range kinds.All() {
		if kind.Resource == kinds.ISCSICdroms {
			store = kvstore.New(objects.Stored(kind), kvstore.Options{Exclusive: true})
		}
	}
	kvtest.Run(t, kvtest.JetStream(t), store)
	return store
}

// start makes a library as a server does that is started.
func (k *kit) start() {
	k.t.Helper()
	k.events, k.metrics = &recorder{}, prometheus.NewRegistry()
	opts := kitOptions{settle: 1, Options: Options{
		Dir: k.dir, Store: k.store, Recorder: k.events, Registerer: k.metrics,
		Allow: allow(k.t, "127.0.0.0/8"), // where the servers of tests are
	}}
	for _, f := range k.change {
		f(nil, &opts)
	}
	l, err := image.New(image.Options{
		Dir: opts.Dir, HTTPURL: "http://192.0.2.1:8082", Shared: opts.Shared, Settle: opts.settle, Linger: opts.linger,
		Logger: opts.Logger, Registerer: k.metrics, Now: opts.Now,
	})
	if err != nil {
		k.t.Fatal(err)
	}
	opts.Library = l
	c := New(opts.Options)
	c.pace.poll = 20 * time.Millisecond
	c.pace.idle, c.pace.busy = 2*time.Second, 100*time.Millisecond
	c.pace.soon = doubling(5*time.Millisecond, 50*time.Millisecond)
	c.pace.late = doubling(20*time.Millisecond, 100*time.Millisecond)
	c.pace.save = 64 << 10
	for _, f := range k.change {
		f(c, &opts)
	}
	k.lib, k.ctl = l, c
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	k.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := l.Close(); err != nil {
			k.t.Error(err)
		}
	})
}

func (k *kit) restart() {
	k.t.Helper()
	k.stop()
	k.start()
}

// write puts a file into the ISO directory, in one step.
func (k *kit) write(name string, content []byte) {
	k.t.Helper()
	target := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(target+".tmp", content, 0o644); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(target+".tmp", target); err != nil {
		k.t.Fatal(err)
	}
}

var uids = make(chan int, 1)

func init() { uids <- 0 }

func newUID() types.UID {
	n := <-uids
	uids <- n + 1
	return types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n))
}

// create stores a CD-ROM of namespace g10.
func (k *kit) create(name string, spec v1.ISCSICdromSpec) Ref {
	k.t.Helper()
	cdrom := &v1.ISCSICdrom{
		ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: name, UID: newUID(), Generation: 1},
		Spec:       spec, Status: v1.ISCSICdromStatus{Phase: v1.PhasePending},
	}
	ref := Ref{Namespace: "g10", Name: name}
	if err := k.store.Create(context.Background(), storeKey(ref), cdrom, nil, 0); err != nil {
		k.t.Fatal(err)
	}
	return ref
}

func (k *kit) update(ref Ref, change func(*v1.ISCSICdrom)) {
	k.t.Helper()
	err := k.store.GuaranteedUpdate(context.Background(), storeKey(ref), &v1.ISCSICdrom{}, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			cdrom := obj.(*v1.ISCSICdrom)
			cdrom.Generation++
			change(cdrom)
			return cdrom, nil
		}), nil)
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) delete(ref Ref) {
	k.t.Helper()
	if err := k.store.Delete(context.Background(), storeKey(ref), &v1.ISCSICdrom{}, nil,
		storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) status(ref Ref) v1.ISCSICdromStatus {
	k.t.Helper()
	cdrom := &v1.ISCSICdrom{}
	if err := k.store.Get(context.Background(), storeKey(ref), storage.GetOptions{}, cdrom); err != nil {
		k.t.Fatal(err)
	}
	return cdrom.Status
}

// reaches waits until the status is as ok says.
func (k *kit) reaches(ref Ref, what string, ok func(v1.ISCSICdromStatus) bool) v1.ISCSICdromStatus {
	k.t.Helper()
	var s v1.ISCSICdromStatus
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if s = k.status(ref); ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("%s does not become %s: %+v", ref, what, s)
		}
	}
}

func (k *kit) phase(ref Ref, phase string) v1.ISCSICdromStatus {
	k.t.Helper()
	return k.reaches(ref, phase, func(s v1.ISCSICdromStatus) bool { return s.Phase == phase })
}

// counter returns the sum of a metric.
func (k *kit) counter(name string) float64 {
	k.t.Helper()
	families, err := k.metrics.Gather()
	if err != nil {
		k.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// read returns the bytes of a CD-ROM's disk.
func (k *kit) read(ref Ref, args ...string) []byte {
	k.t.Helper()
	d, err := k.lib.Disk(ref, args)
	if err != nil {
		k.t.Fatal(err)
	}
	defer d.Release()
	return readDisk(k.t, d)
}

func readDisk(t *testing.T, d *image.Disk) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(d, 0, d.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recorder keeps what would have become events.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) Record(ref v1.ObjectReference, eventType, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, reason)
}

func (r *recorder) reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all...)
}

// serve gives the upload handler an address.
func (k *kit) serve() string {
	k.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.ctl.Upload().ServeHTTP(w, r)
	}))
	k.t.Cleanup(server.Close)
	return server.URL + "/api/v1/namespaces/g10/iscsicdroms/"
}

// send makes a request of an upload. The body of the answer is read.
func send(t *testing.T, method, url string, body io.Reader, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := testClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, answer
}

var testClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// wantStatus fails unless the answer is a Status object with the code.
func wantStatus(t *testing.T, resp *http.Response, body []byte, code int) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil || s.Kind != "Status" || int(s.Code) != code ||
		resp.StatusCode != code {
		t.Fatalf("want a Status of %d, got %s: %s", code, resp.Status, body)
	}
	return s
}
