package remote

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"glowplug/internal/pipetest"
)

// TestSentences has a test for every sentence about fetching and headers in the notes
// for operators of Ignition, named after the sentence.
func TestSentences(t *testing.T) {
	t.Run("When Ignition is fetching a resource over http(s), if the resource is unavailable Ignition will continually "+
		"retry to fetch the resource with an exponential backoff between requests.", func(t *testing.T) {
		w := serve(t)
		var tries atomic.Int32
		url := w.handle("/a", func(out http.ResponseWriter, r *http.Request) {
			switch try := tries.Add(1); {
			case try < 3:
				http.Error(out, "not yet", http.StatusServiceUnavailable)
			case try < 5: // hangs up without an answer
				panic(http.ErrAbortHandler)
			default:
				out.Write([]byte(with(config(), "/a", "1")))
			}
		})
		if got := filesOf(t, render(t, renderer(t), merging(url))); got != "/a=1" || tries.Load() != 5 {
			t.Errorf("%s after %d tries", got, tries.Load())
		}
	})
	t.Run("For a given retry attempt, Ignition will wait 10 seconds for the server to send the response headers for "+
		"the request.", func(t *testing.T) {
		began, took := slow(t, "", 9900*time.Millisecond)
		if len(began) != 1 || took != 9900*time.Millisecond {
			t.Errorf("tries at %v, done after %s", began, took)
		}
	})
	t.Run("If response headers are not received in this time, or an HTTP 5XX error code is received, the request is "+
		"cancelled, Ignition waits for the backoff, and a new request is made.", func(t *testing.T) {
		began, _ := slow(t, "", time.Minute)
		want := []time.Duration{0, 10100 * time.Millisecond, 20300 * time.Millisecond}
		if !slices.Equal(began, want) {
			t.Errorf("tries at %v, want %v", began, want)
		}
	})
	t.Run("httpResponseHeaders: the time to wait for the response headers is the config's own", func(t *testing.T) {
		began, _ := slow(t, `"timeouts": {"httpResponseHeaders": 2}`, time.Minute)
		want := []time.Duration{0, 2100 * time.Millisecond, 4300 * time.Millisecond, 6700 * time.Millisecond}
		if len(began) < 4 || !slices.Equal(began[:4], want) {
			t.Errorf("tries at %v, want %v", began, want)
		}
	})
	t.Run("httpTotal: a resource is tried for as long in all", func(t *testing.T) {
		began, took := slow(t, `"timeouts": {"httpResponseHeaders": 2, "httpTotal": 3}`, time.Minute)
		if len(began) != 2 || took != 3*time.Second {
			t.Errorf("tries at %v, done after %s", began, took)
		}
	})
	t.Run("Any HTTP response code less than 500 results in the request being completed, and either the resource will "+
		"be fetched or Ignition will fail.", func(t *testing.T) {
		for _, code := range []int{201, 206, 304, 400, 401, 403, 404, 408, 425, 429, 499} {
			w := serve(t)
			url := w.handle("/a", func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(code) })
			e := refuse(t, renderer(t), merging(url))
			if len(w.asked()) != 1 || e.Kind != Failed {
				t.Errorf("%d: %d requests, %v", code, len(w.asked()), e)
			}
			has(t, e.Error(), "rack/node → "+url+": the server answered "+statusText(code))
		}
	})
	t.Run("Ignition will initially wait 100 milliseconds between failed attempts, and the amount of time to wait "+
		"doubles for each failed attempt until it reaches 5 seconds.", func(t *testing.T) {
		w := serve(t)
		url := w.handle("/a", func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(503) })
		r, pauses := renderer(t), []time.Duration{}
		r.pause = func(ctx context.Context, d time.Duration) error {
			if pauses = append(pauses, d/time.Millisecond); len(pauses) == 9 {
				return context.DeadlineExceeded
			}
			return nil
		}
		e := refuse(t, r, merging(url))
		if want := []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000}; !slices.Equal(pauses, want) {
			t.Errorf("pauses of %v ms", pauses)
		}
		if e.Kind != TimedOut {
			t.Errorf("kind %d", e.Kind)
		}
		has(t, e.Error(), "503 Service Unavailable", "a machine would go on trying")
	})
	t.Run("When fetching data from an HTTP URL for config references, CA references and file contents, additional "+
		"headers can be attached to the request using the httpHeaders attribute.", func(t *testing.T) {
		w := serve(t)
		child, ca := w.page("/child", config()), w.page("/ca", "")
		render(t, renderer(t), config(`"config": {"merge": [{"source": "`+child+
			`", "httpHeaders": [{"name": "X-Key", "value": "for the config"}]}]}`,
			`"security": {"tls": {"certificateAuthorities": [{"source": "`+ca+
				`", "httpHeaders": [{"name": "X-Key", "value": "for the CA"}]}]}}`))
		got := map[string]string{}
		for _, r := range w.asked() {
			got[r.URL.Path] = r.Header.Get("X-Key")
		}
		if len(got) != 2 || got["/child"] != "for the config" || got["/ca"] != "for the CA" {
			t.Errorf("%v", got)
		}
	})
	t.Run("Headers can be attached only when source has http or https scheme.", func(t *testing.T) {
		e := refuse(t, renderer(t),
			config(`"config": {"merge": [{"source": "tftp://127.0.0.1/a", "httpHeaders": [{"name": "X-Key", "value": "v"}]}]}`))
		if e.Kind != Invalid {
			t.Errorf("kind %d", e.Kind)
		}
		has(t, e.Error(), "cannot use HTTP headers with this source scheme")
	})
	t.Run("If multiple values are to be set for the same header, they must be separated by a comma. Example: "+
		"{\"name\": \"Accept\", \"value\": \"text/html, application/json\"}.", func(t *testing.T) {
		w := serve(t)
		render(t, renderer(t), config(`"config": {"merge": [{"source": "`+w.page("/a", config())+
			`", "httpHeaders": [{"name": "Accept", "value": "text/html, application/json"}]}]}`))
		if got := w.asked()[0].Header["Accept"]; !slices.Equal(got, []string{"text/html, application/json"}) {
			t.Errorf("%q", got)
		}
	})
	t.Run("If the remote HTTP server returns a redirect status code (3xx), then additional headers are not included in "+
		"the redirected request.", func(t *testing.T) {
		for _, code := range []int{301, 302, 303, 307, 308} {
			w := serve(t)
			final := w.page("/final", config())
			first := w.handle("/first", func(out http.ResponseWriter, r *http.Request) { http.Redirect(out, r, final, code) })
			render(t, renderer(t), config(`"config": {"merge": [{"source": "`+first+
				`", "httpHeaders": [{"name": "X-Key", "value": "secret"}, {"name": "Authorization", "value": "Bearer x"}]}]}`))
			asked := w.asked()
			if len(asked) != 2 || asked[0].Header.Get("X-Key") != "secret" ||
				asked[0].Header.Get("Authorization") != "Bearer x" {
				t.Fatalf("%d: %v", code, asked)
			}
			for _, name := range []string{"X-Key", "Authorization", "Referer", "Accept"} {
				if asked[1].Header.Get(name) != "" {
					t.Errorf("%d: %s is sent on", code, name)
				}
			}
		}
	})
	t.Run("If a specified header is one that Ignition sets by default, such as Accept or User-Agent, the specified "+
		"value overrides Ignition's default.", func(t *testing.T) {
		w := serve(t)
		plain, own := w.page("/plain", config()), w.page("/own", config())
		render(t, renderer(t), config(`"config": {"merge": [{"source": "`+plain+`"}, {"source": "`+own+
			`", "httpHeaders": [{"name": "accept", "value": "text/html"}, {"name": "user-agent", "value": "mine"}]}]}`))
		asked := w.asked()
		has(t, asked[0].Header.Get("Accept"), "application/vnd.coreos.ignition+json;version=3.6.0, */*;q=0.1")
		has(t, asked[0].Header.Get("User-Agent"), "Ignition/2.26.0")
		has(t, asked[0].Header.Get("Accept-Encoding"), "identity")
		if h := asked[1].Header; !slices.Equal(h["Accept"], []string{"text/html"}) || !slices.Equal(h["User-Agent"],
			[]string{"mine"}) {
			t.Errorf("%v", h)
		}
	})
	t.Run("… of the line of spec 2, whose defaults are sent again", func(t *testing.T) {
		w := serve(t)
		final := w.page("/final", `{"ignition": {"version": "2.2.0"}}`)
		first := w.handle("/first", func(out http.ResponseWriter, r *http.Request) {
			http.Redirect(out, r, final,
				http.StatusFound)
		})
		render(t, renderer(t), `{"ignition": {"version": "2.4.0", "config": {"append": [{"source": "`+first+
			`", "httpHeaders": [{"name": "X-Key", "value": "secret"}]}]}}}`)
		h := w.asked()[1].Header
		has(t, h.Get("Accept"), "version=2.2.0", "version=1; q=0.5")
		has(t, h.Get("User-Agent"), "Ignition/v0.35.0")
		if h.Get("X-Key") != "" {
			t.Error("X-Key is sent on")
		}
	})
	t.Run("Ignition supports fetching and merging multiple configs.", func(t *testing.T) {
		w := serve(t)
		a, b := w.page("/a", with(config(), "/a", "a")), w.page("/b", with(config(), "/b", "b"))
		out := render(t, renderer(t), with(merging(a, b), "/own", "own"))
		if got := filesOf(t, out); got != "/own=own /a=a /b=b" {
			t.Error(got)
		}
		hasNot(t, out, "merge", w.URL)
	})
	t.Run("This replaces the append functionality of the Ignition 2.x.0 specification.", func(t *testing.T) {
		w := serve(t)
		child := w.page("/a", `{"ignition": {"version": "2.1.0"}, "systemd": {"units": [{"name": "a.service", "mask": true}]}}`)
		out := render(t, renderer(t), `{"ignition": {"version": "2.2.0", "config": {"append": [{"source": "`+child+
			`"}]}}, "systemd": {"units": [{"name": "a.service", "enable": true}]}}`)
		// Lists are concatenated, not merged by their keys.
		has(t, out, `"version":"2.2.0"`, `[{"enable":true,"name":"a.service"},{"mask":true,"name":"a.service"}]`)
		hasNot(t, out, "append")
		has(t, w.asked()[0].Header.Get("Accept"), "version=2.2.0")
		e := refuse(t, renderer(t), merging(w.page("/b", `{"ignition": {"version": "2.2.0"}}`)))
		has(t, e.Error(), "spec 2.2.0", "fails on it")
	})
	t.Run("A child config can specify children of its own. Those children are merged into their parent config before "+
		"that config is merged into its own parent.", func(t *testing.T) {
		w := serve(t)
		grandchild := w.page("/c", with(config(), "/x", "grandchild"))
		child := w.page("/b", with(merging(grandchild), "/x", "child"))
		if got := filesOf(t, render(t, renderer(t), with(merging(child), "/x", "parent"))); got != "/x=grandchild" {
			t.Error(got)
		}
	})
	t.Run("If a config specifies multiple children, those children are merged in the order they appear.",
		func(t *testing.T) {
			w := serve(t)
			a, b := w.page("/a", with(config(), "/x", "a")), w.page("/b", with(config(), "/x", "b"))
			for want, sources := range map[string][]string{"/x=b": {a, b}, "/x=a": {b, a}} {
				if got := filesOf(t, render(t, renderer(t), merging(sources...))); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
}

// slow renders a config that merges one from a server which takes so long to begin its
// answer, in time that passes at once. It says when requests began and when it ended.
func slow(t *testing.T, member string, delay time.Duration) (began []time.Duration, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		listener := pipetest.Listen()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began = append(began, time.Since(start))
			select {
			case <-time.After(delay):
				w.Write([]byte(config()))
			case <-r.Context().Done():
			}
		})}
		go server.Serve(listener)
		r := New(Options{Allow: mustAllow(t, "192.0.2.1")})
		r.dialer.Connect = listener.Dial
		members := []string{`"config": {"merge": [{"source": "http://192.0.2.1/a"}]}`}
		if member != "" {
			members = append(members, member)
		}
		_, err := r.Render(t.Context(), "rack/node", []byte(config(members...)), "")
		took = time.Since(start)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Kind != TimedOut) {
			t.Error(err)
		}
		server.Close()
	})
	return began, took
}
