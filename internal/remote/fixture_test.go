package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vincent-petithory/dataurl"
	"go.uber.org/goleak"

	"glowplug/internal/egress"
)

func TestMain(m *testing.M) {
	// net/http reads these once. What a config is fetched through, it says itself.
	os.Setenv("HTTP_PROXY", "http://192.0.2.9:1")
	os.Setenv("HTTPS_PROXY", "http://192.0.2.9:1")
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// renderer makes one that may fetch from loopback, where the servers of tests are, and
// does not wait between tries.
func renderer(t *testing.T, allow ...string) *Renderer {
	t.Helper()
	if len(allow) == 0 {
		allow = []string{"127.0.0.0/8"}
	}
	return rendererOf(t, Options{Allow: mustAllow(t, allow...), Timeout: 10 * time.Second})
}

func rendererOf(t *testing.T, o Options) *Renderer {
	t.Helper()
	r := New(o)
	r.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	t.Cleanup(r.Close)
	return r
}

func mustAllow(t *testing.T, entries ...string) egress.Policy {
	t.Helper()
	a, err := egress.Listed("--allow-fetch", entries)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// render returns the final config, or fails the test.
func render(t *testing.T, r *Renderer, config string) string {
	t.Helper()
	out, err := r.Render(t.Context(), "rack/node", []byte(config), "")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// refuse returns the error of a config that cannot be rendered.
func refuse(t *testing.T, r *Renderer, config string) *Error {
	t.Helper()
	out, err := r.Render(t.Context(), "rack/node", []byte(config), "")
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %q, %v", out, err)
	}
	return e
}

// web is a server of configs: each path is answered by a function.
type web struct {
	*httptest.Server
	mu       sync.Mutex
	pages    map[string]http.HandlerFunc
	rest     http.Handler // nil: 404
	requests []*http.Request
}

func serve(t *testing.T) *web { return serveAs(t, (*httptest.Server).Start) }

func serveAs(t *testing.T, start func(*httptest.Server)) *web {
	t.Helper()
	w := &web{pages: map[string]http.HandlerFunc{}}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Clone(context.Background()))
		page, rest := w.pages[r.URL.Path], w.rest
		w.mu.Unlock()
		switch {
		case page != nil:
			page(out, r)
		case rest != nil:
			rest.ServeHTTP(out, r)
		default:
			http.NotFound(out, r)
		}
	}))
	w.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(w.Server)
	t.Cleanup(w.Close)
	return w
}

func (w *web) handle(path string, page http.HandlerFunc) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[path] = page
	return w.URL + path
}

// handleRest serves every path that has no page.
func (w *web) handleRest(rest http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = rest
}

// page serves a text at a path and gives its URL.
func (w *web) page(path, text string) string {
	return w.handle(path, func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, text) })
}

// asked returns the requests so far.
func (w *web) asked() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*http.Request(nil), w.requests...)
}

// merging is a config of spec 3.4.0 that merges others; members are of its ignition
// section: `"proxy": {…}`.
func merging(sources ...string) string {
	var refs []string
	for _, source := range sources {
		refs = append(refs, fmt.Sprintf(`{"source": %q}`, source))
	}
	return config(`"config": {"merge": [` + strings.Join(refs, ",") + `]}`)
}

func config(members ...string) string {
	return `{"ignition": {` + strings.Join(append([]string{`"version": "3.4.0"`}, members...), ", ") + `}}`
}

// with puts storage files with contents into a config: "path", "contents", …
func with(config string, files ...string) string {
	var all []string
	for i := 0; i < len(files); i += 2 {
		all = append(all, fmt.Sprintf(`{"path": %q, "contents": {"source": %q}}`, files[i],
			dataurl.EncodeBytes([]byte(files[i+1]))))
	}
	return strings.TrimSuffix(config, "}") + `, "storage": {"files": [` + strings.Join(all, ",") + `]}}`
}

// filesOf reads the files of a config: "path=contents", in order.
func filesOf(t *testing.T, config string) string {
	t.Helper()
	var c struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct{ Source string }
			}
		}
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range c.Storage.Files {
		content, err := dataurl.DecodeString(f.Contents.Source)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f.Path+"="+string(content.Data))
	}
	return strings.Join(all, " ")
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
}

func hasNot(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q is in: %s", part, text)
		}
	}
}
