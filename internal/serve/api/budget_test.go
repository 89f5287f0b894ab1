package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/budget"
	"glowplug/internal/testkit"
)

// bounded is an API with budgets of these sizes.
func bounded(t *testing.T, requests, watches int64, wait time.Duration) (*api, *budget.Budget, *budget.Budget) {
	t.Helper()
	r, w := budget.New(requests, wait), budget.New(watches, wait)
	return start(t, func(o *Options) { o.Requests, o.Watches = r, w }), r, w
}

// largeConfig is a config of more than size bytes.
func largeConfig(name string, size int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":%q,"namespace":"default"},"spec":{"type":"ignition","format":"ignition",`+
		`"config":"{\"ignition\":{\"version\":\"3.4.0\"},\"storage\":{\"files\":[{\"path\":\"/etc/a\",\"contents\":{\"source\":\"data:,%s\"}}]}}"}}`,
		name, strings.Repeat("x", size))
}

const configsPath = "/api/v1/namespaces/default/ignitionconfigs"

// TestRequestsBeyondTheBudgetAreRefused: while others hold all that there is,
// large requests are answered 429 with Retry-After, small ones and the server's
// own go on, and afterwards all do.
func TestRequestsBeyondTheBudgetAreRefused(t *testing.T) {
	a, requests, _ := bounded(t, 64<<20, 64<<20, 50*time.Millisecond)
	a.must(http.StatusCreated, "POST", configsPath, largeConfig("stored", 100_000))
	others := requests.Open("")
	if err := others.Hold(t.Context(), 64<<20); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name, method, path, body string
		whole                    int
		small                    bool
	}{
		{"a write", "POST", configsPath, largeConfig("new", 100_000), http.StatusCreated, false},
		{"a list", "GET", configsPath, "", http.StatusOK, false},
		{"a read", "GET", configsPath + "/stored", "", http.StatusOK, false},
		{"a patch of what is large", "PATCH", configsPath + "/stored", `{"metadata":{"labels":{"a":"b"}}}`, http.StatusOK,
			false},
		{"a small write", "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"small"}}`,
			http.StatusCreated, true},
		{"a small list", "GET", "/api/v1/namespaces", "", http.StatusOK, true},
	}
	header := func(method string) []string {
		if method == "PATCH" {
			return []string{"Content-Type", "application/merge-patch+json"}
		}
		return nil
	}
	for _, c := range steps {
		got := a.do(c.method, c.path, c.body, header(c.method)...)
		switch {
		case c.small && got.code != c.whole:
			t.Errorf("%s, while there is no room: %d %s", c.name, got.code, got.body)
		case !c.small && (got.code != http.StatusTooManyRequests || got.header.Get("Retry-After") == ""):
			t.Errorf("%s, while there is no room: %d %v", c.name, got.code, got.header)
		}
	}
	own := http.Client{Transport: a.server.LoopbackConfig().Transport}
	resp, err := own.Get("http://glowplug.invalid" + configsPath)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the server's own list: %s", resp.Status)
	}
	others.Close()
	for _, c := range steps[:4] {
		a.must(c.whole, c.method, c.path, c.body, header(c.method)...)
	}
	testkit.Until(t, "it comes to pass", func() bool { return requests.Stats().Used == 0 })
}

// TestUnreadWatchesAreEnded: watches whose clients do not read are ended for those
// whose clients do, and what is held stays within the budget.
func TestUnreadWatchesAreEnded(t *testing.T) {
	const size = 16 << 20
	a, _, watches := bounded(t, 1<<30, size, 20*time.Second)
	a.must(http.StatusCreated, "POST", configsPath, largeConfig("watched", 900_000))
	path := configsPath + "?watch=1&resourceVersion=0"
	for range 10 {
		c, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := func(revision string) *bufio.Reader {
		r, err := http.NewRequestWithContext(ctx, "GET", a.url+configsPath+"?watch=1&resourceVersion="+revision, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := a.client.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("watching from %s: %v %v", revision, resp, err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewReaderSize(resp.Body, 4<<20)
	}
	lines := watch("0")
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for i := range 3 {
			a.do("PUT", configsPath+"/watched", largeConfig("watched", 900_001+i))
		}
	})
	revision := "0"
	for i := 0; i < 4; {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" && i > 0 {
			// One that has read all holds large buffers and has nothing to send: it may
			// be ended cleanly for others, and resumes as clients do.
			lines = watch(revision)
			continue
		}
		if err != nil || !strings.HasPrefix(line, `{"type":"ADDED"`) && !strings.HasPrefix(line, `{"type":"MODIFIED"`) {
			t.Fatalf("event %d of the watch that is read: %v %.200s", i, err, line)
		}
		_, rest, _ := strings.Cut(line, `"resourceVersion":"`)
		revision, _, _ = strings.Cut(rest, `"`)
		i++
		if s := watches.Stats(); s.Used > size {
			t.Errorf("%d bytes are held", s.Used)
		}
	}
	if s := watches.Stats(); s.Ended == 0 || s.Refused > 0 {
		t.Errorf("%+v", s)
	}
}

// TestIdleWatchIsEndedCleanly: a watch that holds the buffers of a large event and
// has nothing to send is ended as any watch ends, and its client resumes.
func TestIdleWatchIsEndedCleanly(t *testing.T) {
	a, _, watches := bounded(t, 1<<30, 16<<20, 20*time.Second)
	a.must(http.StatusCreated, "POST", configsPath, largeConfig("watched", 900_000))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", a.url+configsPath+"?watch=1&resourceVersion=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 4<<20)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	other := watches.Open("")
	defer other.Close()
	if err := other.Hold(t.Context(), 12<<20); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("the watch ends with %v and %.100s", err, rest)
	}
}
