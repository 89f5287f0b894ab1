package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"),
	)
}

func answer(path string) Answer {
	return Answer{At: time.Now(), Verb: "get", Path: path, From: netip.MustParseAddr("192.0.2.1"), Status: 200}
}

// decoded returns the events of a trail.
func decoded(t *testing.T, content []byte) (events []auditinternal.Event) {
	t.Helper()
	for line := range bytes.Lines(content) {
		var e auditinternal.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

func closeSoon(t *testing.T, trail *Trail) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return trail.Close(ctx)
}

// An answer to a machine is one event with who was served what, and no parameter of its query but
// the claims. What is buffered is written at the end.
func TestAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	trail, err := Open(&Options{Path: file, MaxSize: 1, Mode: ModeBatch}, BuiltIn(ModeBatch), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := answer("/api/v1/ignition")
	a.Query = "mac=52:54:00:00:00:01&token=planted&access_token=planted&hostname=one&planted"
	a.Host, a.FoundBy, a.MatchedBy, a.Hash = Name{"rack", "one"}, "mac", "name", "sha256:abc"
	a.Object = Object{"ignitionconfigs", "rack", "builder", 7}
	trail.Answered(a)
	refused := answer("/api/v1/ignition")
	refused.Status, refused.Failure, refused.User = 403, "the claim does not hold", ann
	trail.Answered(refused)
	if err := closeSoon(t, trail); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %o", info.Mode())
	}
	events := decoded(t, content)
	if len(events) != 2 || bytes.Contains(content, []byte("planted")) {
		t.Fatalf("%s", content)
	}
	for _, want := range []string{
		`"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"`, `"stage":"ResponseComplete"`,
		`"requestURI":"/api/v1/ignition?mac=52:54:00:00:00:01&hostname=one"`, `"sourceIPs":["192.0.2.1"]`,
		`"user":{"username":"system:anonymous","groups":["system:unauthenticated"]}`, `"code":200`,
		`"objectRef":{"resource":"ignitionconfigs","namespace":"rack","name":"builder","apiVersion":"v1","resourceVersion":"7"}`,
		`"annotations":{"glowplug.dev/config-hash":"sha256:abc","glowplug.dev/found-by":"mac","glowplug.dev/host":"rack/one",` +
			`"glowplug.dev/matched-by":"name"}`,
		`"responseStatus":{"metadata":{},"status":"Failure","message":"the claim does not hold","reason":"Forbidden","code":403}`,
		`"username":"ann"`,
	} {
		if !bytes.Contains(content, []byte(want)) {
			t.Errorf("%s\nlacks %s", content, want)
		}
	}
}

// A policy file can drop boots by their path, their verb and their user, each time.
func TestPolicyDropsBoots(t *testing.T) {
	const all = "get /ipxe, post /ipxe, get /ipxe by ann"
	for rules, want := range map[string]string{
		`rules: [{level: None, nonResourceURLs: ["/iso/*"]}, {level: RequestResponse}]`: all,
		"omitStages: [ResponseComplete]\nrules: [{level: Metadata}]":                    "",
		`rules: [{level: None, verbs: [get]}, {level: Metadata}]`:                       "post /ipxe",
		`rules: [{level: None, users: ["system:anonymous"]}, {level: Metadata}]`:        "get /ipxe by ann",
	} {
		p, err := load(t, rules)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		trail := start(kept{&out}, p, ModeBatch)
		for range 2 {
			posted, known := answer("/ipxe"), answer("/ipxe")
			posted.Verb, known.User = "post", ann
			for _, a := range []Answer{answer("/iso/rack/live.iso"), answer("/ipxe"), posted, known} {
				trail.Answered(a)
			}
		}
		if err := closeSoon(t, trail); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range decoded(t, out.Bytes()) {
			line := e.Verb + " " + e.RequestURI
			if e.User.Username == ann.GetName() {
				line += " by ann"
			}
			got = append(got, line)
		}
		if twice := strings.Trim(want+", "+want, ", "); strings.Join(got, ", ") != twice {
			t.Errorf("%s: %q, want %q", rules, got, twice)
		}
	}
}

// A stranger chooses the paths of images: few decisions of the policy are kept, and none on a long path.
func TestDecisionsAreBounded(t *testing.T) {
	trail := start(kept{io.Discard}, BuiltIn(ModeBatch), ModeBatch)
	for i := range 2 * maxDecisions {
		trail.Answered(answer(fmt.Sprint("/iso/", i)))
		trail.Answered(answer(fmt.Sprint("/iso/", strings.Repeat("x", maxText), i)))
		trail.machines.mu.Lock()
		if n := len(trail.machines.known); n > maxDecisions {
			t.Fatalf("%d decisions are kept", n)
		}
		trail.machines.mu.Unlock()
	}
	for which := range trail.machines.known {
		if len(which.path) > maxText {
			t.Errorf("a decision on %q is kept", which.path)
		}
	}
	if err := closeSoon(t, trail); err != nil {
		t.Fatal(err)
	}
}

// The trail never takes more of the disk than its file and its backups.
func TestRotationBounds(t *testing.T) {
	dir := t.TempDir()
	o := &Options{Path: filepath.Join(dir, "audit.log"), MaxSize: 1, MaxBackups: 2, Mode: ModeBlocking}
	trail, err := Open(o, BuiltIn(o.Mode), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 << 10 {
		a := answer("/api/v1/ignition/" + strings.Repeat("x", 800))
		trail.Answered(a)
	}
	if err := closeSoon(t, trail); err != nil {
		t.Fatal(err)
	}
	var size int64
	deadline := time.Now().Add(10 * time.Second)
	for { // old files are removed in the background
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		size = 0
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				continue
			}
			if size += info.Size(); info.Mode().Perm() != 0o600 {
				t.Errorf("%s has the mode %o", e.Name(), info.Mode())
			}
		}
		if len(entries) == 3 || time.Now().After(deadline) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if size > 3<<20 || size < 2<<20 {
		t.Errorf("the trail has %d bytes", size)
	}
}

// stuck is a writer that blocks until it is released.
type stuck struct{ release chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.release; return len(p), nil }
func (s stuck) Close() error                { return nil }

// A writer that blocks delays nobody, neither an answer nor for ever the end: what does not fit
// into the buffer is lost and counted.
func TestBlockedWriterDelaysNothing(t *testing.T) {
	out := stuck{make(chan struct{})}
	trail := start(out, BuiltIn(ModeBatch), ModeBatch)
	before := lost(t, "buffered")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range maxBuffered + 100 {
			trail.Answered(answer("/ipxe"))
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("an answer waits for the writer")
	}
	if n := lost(t, "buffered") - before; n != 100 {
		t.Errorf("%v events are counted as lost", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := trail.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closing: %v", err)
	}
	close(out.release)
	trail.backend.Shutdown()
}

// The events of requests wait in a bounded buffer too, which is smaller where they have bodies.
func TestEventsOfRequestsAreBounded(t *testing.T) {
	withBodies, err := load(t, `rules: [{level: RequestResponse}]`)
	if err != nil {
		t.Fatal(err)
	}
	for most, policy := range map[int]*Policy{maxBuffered: BuiltIn(ModeBatch), maxBufferedBodies: withBodies} {
		out := stuck{make(chan struct{})}
		trail := start(out, policy, ModeBatch)
		before := lost(t, "buffered")
		for range most + 100 {
			trail.Sink(netip.MustParseAddr("192.0.2.5")).ProcessEvents(&auditinternal.Event{RequestURI: "/api/v1"})
		}
		// The writer has one event, and the library takes another one out of the buffer.
		if n := lost(t, "buffered") - before; n < 98 || n > 100 {
			t.Errorf("%v of %d events are counted as lost, want those beyond %d", n, most+100, most)
		}
		close(out.release)
		if err := closeSoon(t, trail); err != nil {
			t.Fatal(err)
		}
	}
}

// What the policy drops takes no room from what it does not, also while the writer blocks, and is never lost.
func TestDroppedAnswersTakeNoRoom(t *testing.T) {
	p, err := load(t, `rules: [{level: None, nonResourceURLs: ["/iso/*"]}, {level: Metadata}]`)
	if err != nil {
		t.Fatal(err)
	}
	out := stuck{make(chan struct{})}
	trail := start(out, p, ModeBatch)
	before := lost(t, "buffered")
	record := func(n int, path string) {
		for range n {
			trail.Answered(answer(path))
		}
	}
	record(maxBuffered-10, "/ipxe")
	record(maxBuffered, "/iso/rack/live.iso")
	record(10, "/ipxe")
	if n := lost(t, "buffered") - before; n != 0 {
		t.Errorf("%v events are lost although there is room", n)
	}
	record(1, "/ipxe")
	record(maxBuffered, "/iso/rack/live.iso")
	if n := lost(t, "buffered") - before; n != 1 {
		t.Errorf("%v events are counted as lost", n)
	}
	close(out.release)
	if err := closeSoon(t, trail); err != nil {
		t.Fatal(err)
	}
}

// A stranger who sends long texts makes nobody wait for their lines, and the buffer does not keep them.
func TestLongTextsAreNotKept(t *testing.T) {
	long := strings.Repeat("&", 60<<10)
	b := &buffer{answers: make([]sent, 0, batchSize), wake: make(chan struct{}, 1)}
	for _, a := range []Answer{
		{Path: "/ipxe", Query: long + "&mac=52:54:00:00:00:01"}, {Path: "/iso/" + long}, {Path: "/ipxe", Agent: long},
	} {
		b.add(&a, auditinternal.LevelMetadata)
	}
	for _, kept := range b.answers {
		if n := len(kept.Path) + len(kept.Query) + len(kept.Agent); n > 2*maxURI {
			t.Errorf("%d bytes of %.20q are kept", n, kept.Path)
		}
	}
	if len(b.answers) != 3 || b.answers[0].Path != "/ipxe?mac=52:54:00:00:00:01" {
		t.Errorf("%d answers, %.100q", len(b.answers), b.answers[0].Path)
	}
}

// lost returns the number of lost events of a plugin of the library.
func lost(t *testing.T, plugin string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "apiserver_audit_error_total" && m.GetLabel()[0].GetValue() == plugin {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// full is a disk that is full for a while, in the middle of a line.
type full struct {
	bytes.Buffer
	left int
}

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n, _ := f.Buffer.Write(p[:f.left])
		f.left = 0
		return n, errors.New("no space left on device")
	}
	f.left -= len(p)
	return f.Buffer.Write(p)
}

// Events that do not fit on a full disk are lost, counted, and fail nothing; those after them are
// whole lines again.
func TestFullDisk(t *testing.T) {
	out := &full{left: 100}
	trail := start(kept{out}, BuiltIn(ModeBlocking), ModeBlocking)
	before := lost(t, "log")
	trail.Answered(answer("/1"))
	trail.Answered(answer("/2"))
	if n := lost(t, "log") - before; n != 2 {
		t.Errorf("%v events are counted as lost", n)
	}
	if !trail.Sink(netip.Addr{}).ProcessEvents(&auditinternal.Event{}) {
		t.Error("a request fails since the disk is full")
	}
	out.left = 1 << 20
	trail.Answered(answer("/3"))
	if err := closeSoon(t, trail); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out.String(), "\n")
	if got := decoded(t, []byte(rest)); len(got) != 1 || got[0].RequestURI != "/3" {
		t.Errorf("%q", out.String())
	}
}

// The log says once a minute that events are lost, with the cause and without an event.
func TestLossesAreLoggedOnceInAWhile(t *testing.T) {
	var out bytes.Buffer
	h := Losses(slog.NewTextHandler(&out, nil)).WithAttrs([]slog.Attr{slog.String("from", "kubernetes")}).WithGroup("g")
	at := time.Now()
	say := func(message string) {
		r := slog.NewRecord(at, slog.LevelError, message, 0)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		say("Error in audit plugin 'log' affecting 1 audit events: disk full\nImpacted events:\nAUDIT: id=1")
	}
	say("another message")
	if got := out.String(); strings.Count(got, "audit events are lost") != 1 || !strings.Contains(got, "disk full") ||
		strings.Contains(got, "id=1") || !strings.Contains(got, "another message") ||
		!strings.Contains(got, "apiserver_audit_error_total") {
		t.Error(got)
	}
	at = at.Add(lossPeriod)
	say(lossPrefix)
	if got := out.String(); strings.Count(got, "audit events are lost") != 2 {
		t.Error(got)
	}
}

// A path that cannot be written is refused.
func TestUnusablePath(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "audit.log"), os.DevNull} {
		if _, err := Open(&Options{Path: path, MaxSize: 1, Mode: ModeBatch}, BuiltIn(ModeBatch), nil); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
	var out bytes.Buffer
	trail, err := Open(&Options{Path: Stdout, Mode: ModeBatch}, BuiltIn(ModeBatch), &out)
	if err != nil {
		t.Fatal(err)
	}
	trail.Answered(answer("/ipxe"))
	if err := closeSoon(t, trail); err != nil || len(decoded(t, out.Bytes())) != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// recorder keeps the events that it is given.
type recorder struct {
	mu     sync.Mutex
	events []*auditinternal.Event
}

func (r *recorder) ProcessEvents(events ...*auditinternal.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	return true
}

// An event of the API has the address that the server knows, bounded texts, and neither a message
// that quotes an object with secrets nor a parameter that may be a token.
func TestCleanEvents(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	e := &auditinternal.Event{
		RequestURI: "/api/v1/namespaces/a/baremetalhosts/" + "b?limit=5&token=planted&tok%65n=planted&dryRun=All",
		SourceIPs:  []string{"203.0.113.66"}, Verb: long, UserAgent: long, AuditID: types.UID(long),
		ObjectRef: &auditinternal.ObjectReference{
			Resource: "baremetalhosts", Name: long, Namespace: long, APIGroup: long, APIVersion: long,
			Subresource: long,
		},
		ResponseStatus: &metav1.Status{Code: 422, Reason: "Invalid", Message: "planted", Details: &metav1.StatusDetails{Name: "planted"}},
		RequestObject:  &runtime.Unknown{Raw: []byte(long)}, ResponseObject: &runtime.Unknown{Raw: []byte(long)},
	}
	var r recorder
	sink{&r, netip.MustParseAddr("192.0.2.7")}.ProcessEvents(e)
	got := r.events[0]
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 5000 || bytes.Contains(text, []byte("planted")) {
		t.Errorf("%d bytes: %.3000s", len(text), text)
	}
	if got.RequestURI != "/api/v1/namespaces/a/baremetalhosts/b?limit=5&dryRun=All" ||
		fmt.Sprint(got.SourceIPs) != "[192.0.2.7]" || got.ResponseStatus.Code != 422 || got.ResponseStatus.Reason != "Invalid" ||
		got.Annotations["audit.k8s.io/truncated"] != "true" {
		t.Errorf("%.3000s", text)
	}
	if e.ResponseStatus.Message == "" || e.RequestObject == nil || e.ObjectRef.Name != long {
		t.Error("the event of the library was changed")
	}
	// A client chooses the name of a resource that does not exist, and a message may quote what it sent.
	e = &auditinternal.Event{
		RequestURI: "/" + long, ObjectRef: &auditinternal.ObjectReference{Resource: long},
		ResponseStatus: &metav1.Status{Code: 404, Message: long},
	}
	sink{&r, netip.MustParseAddr("192.0.2.7")}.ProcessEvents(e)
	if text, err = json.Marshal(r.events[1]); err != nil || len(text) > 5000 {
		t.Errorf("%v: %d bytes: %.3000s", err, len(text), text)
	}
}

// BenchmarkAnswered is what a boot waits for, and, in the mode blocking, what is done in all.
func BenchmarkAnswered(b *testing.B) {
	for _, mode := range []string{ModeBatch, ModeBlocking} {
		b.Run(mode, func(b *testing.B) {
			trail := start(kept{io.Discard}, BuiltIn(mode), mode)
			a := answer("/api/v1/ignition")
			a.Host, a.FoundBy, a.MatchedBy, a.Hash = Name{"rack", "one"}, "mac", "name", "sha256:abc"
			a.Object = Object{"ignitionconfigs", "rack", "builder", 7}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				trail.Answered(a)
				if trail.buffer != nil && i%(maxBuffered/2) == 0 {
					trail.buffer.flush() // no line is lost
				}
			}
			_ = trail.Close(b.Context())
		})
	}
}

// TestAuditFileIsRegular: a pipe, which would be opened when somebody reads it, and a folder are refused at
// once.
func TestAuditFileIsRegular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir()} {
		if err := prepare(path); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
