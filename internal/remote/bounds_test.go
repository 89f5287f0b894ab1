package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCycle(t *testing.T) {
	w := serve(t)
	a, b, c := w.URL+"/a", w.URL+"/b", w.URL+"/c"
	w.page("/a", merging(b))
	w.page("/b", config(`"config": {"replace": {"source": "`+c+`"}}`))
	w.page("/c", merging(a))
	e := refuse(t, renderer(t), merging(a))
	if e.Kind != Invalid {
		t.Errorf("kind %d", e.Kind)
	}
	has(t, e.Error(), "rack/node → "+strings.Join([]string{a, b, c, a}, " → ")+": it names itself")
	// The same config twice, one beside the other, is none.
	w.page("/c", config())
	render(t, renderer(t), merging(a, c, b))
}

func TestDepth(t *testing.T) {
	w := serve(t)
	w.handle("/", func(http.ResponseWriter, *http.Request) {})
	w.page("/0", with(config(), "/deep", "1"))
	for i := 1; i <= MaxDepth; i++ {
		w.page(fmt.Sprintf("/%d", i), merging(fmt.Sprintf("%s/%d", w.URL, i-1)))
	}
	if got := filesOf(t, render(t, renderer(t), merging(fmt.Sprintf("%s/%d", w.URL, MaxDepth-1)))); got != "/deep=1" {
		t.Error(got)
	}
	e := refuse(t, renderer(t), merging(fmt.Sprintf("%s/%d", w.URL, MaxDepth)))
	has(t, e.Error(), w.URL+"/16 → ", w.URL+"/0: configs name configs more than 16 deep")
}

func TestCount(t *testing.T) {
	w := serve(t)
	var all []string
	for i := range MaxConfigs + 1 {
		all = append(all, w.page(fmt.Sprintf("/%d", i), config()))
	}
	render(t, renderer(t), merging(all[:MaxConfigs]...))
	has(t, refuse(t, renderer(t), merging(all...)).Error(), "more than 64 configs are named")
}

func TestTime(t *testing.T) {
	w := serve(t)
	hangs := w.handle("/a", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	drips := w.handle("/b", func(out http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(out, " ")
			out.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	for _, url := range []string{hangs, drips} {
		r := rendererOf(t, Options{Allow: mustAllow(t, "127.0.0.1"), Timeout: 150 * time.Millisecond})
		if e := refuse(t, r, merging(url)); e.Kind != TimedOut {
			t.Error(e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := renderer(t).Render(ctx, "rack/node", []byte(merging(url)), "")
		var e *Error
		if !errors.As(err, &e) || e.Kind != TimedOut {
			t.Error(err)
		}
	}
}

func TestSpec(t *testing.T) {
	w := serve(t)
	old := w.page("/old", `{"ignition": {"version": "3.1.0"}}`)
	new := w.page("/new", `{"ignition": {"version": "3.5.0"}}`)
	for _, c := range []struct{ spec, config, want string }{
		{"", config(), `"3.4.0"`},
		{"", merging(old), `"3.4.0"`},
		{"", merging(new), `"3.5.0"`},
		{"3.4.0", merging(old), `"3.4.0"`},
		{"3.4.0", config(`"config": {"replace": {"source": "` + old + `"}}`), `"3.4.0"`},
		{"3.6.0", merging(new), `"3.6.0"`},
		{"2.4.0", config(), `"2.4.0"`},
	} {
		out, err := renderer(t).Render(t.Context(), "rack/node", []byte(c.config), c.spec)
		if err != nil {
			t.Error(err)
			continue
		}
		has(t, string(out), c.want)
	}
	for _, c := range []struct {
		spec, config string
		kind         Kind
		want         string
	}{
		{"3.4.0", merging(new), Invalid, "it is of spec 3.5.0, and a machine that reads spec 3.4.0 fails on it"},
		{"9.9.9", config(), Malformed, "there is no Ignition spec"},
		{"3.2.0", strings.TrimSuffix(config(), "}") + `, "kernelArguments": {"shouldExist": ["a"]}}`, Unfit,
			"$.kernelArguments"},
	} {
		_, err := renderer(t).Render(t.Context(), "rack/node", []byte(c.config), c.spec)
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind {
			t.Error(err)
			continue
		}
		has(t, e.Error(), c.want)
	}
	render(t, renderer(t), `{"ignition": {"version": "2.2.0-experimental"}}`)
}

// TestUntouched returns a config that names nothing back to the last byte.
func TestUntouched(t *testing.T) {
	plain := "{ \"ignition\" : {\"version\":\"3.4.0\"} }\n"
	if got := render(t, New(Options{}), plain); got != plain {
		t.Errorf("%q", got)
	}
}

func TestSecrets(t *testing.T) {
	w := serve(t)
	host := strings.TrimPrefix(w.URL, "http://")
	w.page("/child", merging("http://user:pass1@"+host+"/none?X-Amz-Signature=pass2#pass3"))
	w.handle("/moved", http.RedirectHandler("http://user:pass1@10.9.9.9/x?sig=pass2", http.StatusFound).ServeHTTP)
	w.handle("/odd", http.RedirectHandler("gopher://user:pass1@10.9.9.9/x?sig=pass2", http.StatusFound).ServeHTTP)
	w.handle("/bad", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Location", "http://pass1:pass2:pass3/%zz")
		out.WriteHeader(302)
	})
	for _, c := range []string{
		merge1(w.URL+"/child?token=pass4", `, "httpHeaders": [{"name": "Authorization", "value": "pass5"}]`),
		merge1(w.URL+"/none", `, "httpHeaders": [{"name": "X", "value": "pass5\r\nInjected: pass6"}]`),
		merging(w.URL + "/moved"), merging(w.URL + "/odd"), merging(w.URL + "/bad"),
		merging("data:text/plain,pass1"),
		merging("http://user:pass1@127.0.0.1:1/a?pass2"),
		merging("http:user:pass1@127.0.0.1/a"),
	} {
		r := rendererOf(t, Options{Allow: mustAllow(t, "127.0.0.1"), Timeout: 300 * time.Millisecond})
		e := refuse(t, r, c)
		t.Log(e)
		hasNot(t, e.Error(), "pass1", "pass2", "pass3", "pass4", "pass5", "pass6", "user")
	}
}
