package live

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot/labtest"
	"glowplug/internal/testkit"
)

// rig is a hub with two hosts in each of the namespaces a and b, whose states the test sets.
type rig struct {
	*Hub
	t      *testing.T
	server *httptest.Server
	state  atomic.Value // of all hosts
	storm  atomic.Bool
	may    func(resource, namespace string) bool
}

func newRig(t *testing.T) *rig {
	lab := labtest.Lab{}
	for _, namespace := range []string{"a", "b"} {
		for i := range 2 {
			lab.Host(namespace, fmt.Sprintf("n%d", i), fmt.Sprintf("52:54:00:00:%02x:%02x", namespace[0], i), "")
		}
	}
	r := &rig{t: t, may: func(string, string) bool { return true }}
	r.state.Store(v1.StateBooting)
	r.Hub = New(Options{
		Inventory: lab.Inventory(t), Storm: r.storm.Load,
		Progress: func(*model.Host) model.Progress { return model.Progress{State: r.state.Load().(string)} },
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.Serve(req.Context(), w, req.URL.Query().Get("from"), r.may)
	}))
	t.Cleanup(func() {
		r.server.Close()
		stop()
		<-done
	})
	return r
}

// open opens a stream, and returns a function that reads its next event as "event data".
func (r *rig) open(from string) (next func() string) {
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"?from="+from, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		event := ""
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = rest
			}
			if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return event + " " + rest
			}
		}
		r.t.Fatal("the stream has ended")
		return ""
	}
}

// begin opens a stream, and passes over what a new one has.
func (r *rig) begin() (next func() string) {
	next = r.open(r.At())
	if got := next(); !strings.HasPrefix(got, "hello") {
		r.t.Fatalf("a stream begins with %q", got)
	}
	return next
}

// TestChangesReachPages: a page is told the states of hosts, and the names of other objects.
func TestChangesReachPages(t *testing.T) {
	r := newRig(t)
	one, other := r.begin(), r.begin()
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "a", Name: "n1"})
	for _, next := range []func() string{one, other} {
		if got, want := next(), `baremetalhosts {"ns":"a","of":{"n1":"b"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "a", Name: "gone"})
	if got, want := one(), `baremetalhosts {"ns":"a","of":{"gone":""}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.state.Store(v1.StateError)
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "b", Name: "n0"})
	if got, want := one(), `baremetalhosts {"ns":"b","of":{"n0":"e"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Mark(kinds.IgnitionConfigs, model.Ref{Namespace: "b", Name: "worker"})
	if got, want := one(), `ignitionconfigs {"ns":"b","of":["worker"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i := range maxNames + 5 { // too many for a frame: any of them may have changed
		r.Mark(kinds.Events, model.Ref{Namespace: "b", Name: fmt.Sprint(i)})
	}
	if got, want := one(), `events {"ns":"b","of":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestStreamsHaveWhatTheUserMayList: names and states of other namespaces and kinds are not sent.
func TestStreamsHaveWhatTheUserMayList(t *testing.T) {
	r := newRig(t)
	r.may = func(resource, namespace string) bool { return resource == kinds.BareMetalHosts && namespace == "b" }
	next := r.begin()
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "a", Name: "n0"})
	r.Mark(kinds.IgnitionConfigs, model.Ref{Namespace: "b", Name: "worker"})
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "b", Name: "n0"})
	if got, want := next(), `baremetalhosts {"ns":"b","of":{"n0":"b"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPagesBehindReadAll: what a page has missed is sent again; a page of another process, or one that is too far
// behind, reads everything.
func TestPagesBehindReadAll(t *testing.T) {
	r := newRig(t)
	keep := r.begin() // without a stream nothing is kept
	at := r.At()
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "a", Name: "n0"})
	keep()
	next := r.open(at)
	next()
	if got, want := next(), `baremetalhosts {"ns":"a","of":{"n0":"b"}}`; got != want {
		t.Errorf("after a break got %s, want %s", got, want)
	}
	for _, from := range []string{"", "other-1", "other-1000", "nonsense", r.epoch + "-99999"} {
		next := r.open(from)
		next()
		if got := next(); !strings.HasPrefix(got, "reset") {
			t.Errorf("from %q got %s, want a reset", from, got)
		}
	}
	for i := range maxFrames + 1 {
		r.mu.Lock()
		r.addLocked(frame{resource: kinds.Events, text: []byte(fmt.Sprint(i))})
		r.mu.Unlock()
	}
	next = r.open(at)
	next()
	if got := next(); !strings.HasPrefix(got, "reset") {
		t.Errorf("too far behind got %s, want a reset", got)
	}
	if len(r.frames) > maxFrames {
		t.Errorf("%d frames are kept", len(r.frames))
	}
}

// TestStormIsTold: pages are told of a storm, and of its end although nothing else changes then.
func TestStormIsTold(t *testing.T) {
	r := newRig(t)
	next := r.begin()
	r.storm.Store(true)
	r.Mark(kinds.Boots, model.Ref{Namespace: "a"})
	if got, want := next(), `hub {"ns":"","of":{"storm":true}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	next()
	r.storm.Store(false)
	if got, want := next(), `hub {"ns":"","of":{"storm":false}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestWritesAreBounded: the newest writes are remembered.
func TestWritesAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range maxWrites + 10 {
		r.Wrote(Write{User: fmt.Sprint(i)})
	}
	writes := r.Writes()
	if len(writes) != maxWrites || writes[0].User != fmt.Sprint(maxWrites+9) {
		t.Errorf("%d writes, the newest of %s", len(writes), writes[0].User)
	}
}

// TestIdleHubKeepsNothing: changes while no page is open are not encoded, and the next page reads all.
func TestIdleHubKeepsNothing(t *testing.T) {
	r := newRig(t)
	at := r.At()
	r.Mark(kinds.BareMetalHosts, model.Ref{Namespace: "a", Name: "n0"})
	testkit.Until(t, "the change has a number", func() bool { return r.At() != at })
	if len(r.frames) > 0 {
		t.Errorf("%d frames are kept", len(r.frames))
	}
	next := r.open(at)
	next()
	if got := next(); !strings.HasPrefix(got, "reset") {
		t.Errorf("got %s, want a reset", got)
	}
}
