package remote

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/vincent-petithory/dataurl"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// merge1 is a config that merges one with further members: `, "compression": "gzip"`.
func merge1(source, members string) string {
	return config(fmt.Sprintf(`"config": {"merge": [{"source": %q%s}]}`, source, members))
}

func hashed(text string) string {
	sum := sha512.Sum512([]byte(text))
	return `, "verification": {"hash": "sha512-` + hex.EncodeToString(sum[:]) + `"}`
}

func TestContent(t *testing.T) {
	child := with(config(), "/a", "1")
	sum := sha256.Sum256([]byte(child))
	hash256 := `, "verification": {"hash": "sha256-` + hex.EncodeToString(sum[:]) + `"}`
	w := serve(t)
	plain := w.page("/plain", child)
	zipped := w.handle("/gz", func(out http.ResponseWriter, _ *http.Request) { out.Write(packed(t, child)) })
	for name, config := range map[string]string{
		"as it is":                      merge1(plain, ""),
		"sha512":                        merge1(plain, hashed(child)),
		"sha256":                        merge1(plain, hash256),
		"gzip":                          merge1(zipped, `, "compression": "gzip"`),
		"gzip, the hash of the content": merge1(zipped, `, "compression": "gzip"`+hashed(child)),
		"data":                          merge1(dataurl.EncodeBytes([]byte(child)), hashed(child)),
		"data with gzip":                merge1(dataurl.EncodeBytes(packed(t, child)), `, "compression": "gzip"`),
		"not below a redirect": merge1(w.handle("/r", http.RedirectHandler(plain, http.StatusFound).ServeHTTP),
			hashed(child)),
	} {
		t.Run(name, func(t *testing.T) {
			if got := filesOf(t, render(t, renderer(t), config)); got != "/a=1" {
				t.Error(got)
			}
		})
	}
	large := strings.Repeat(" ", maxPart)
	for name, c := range map[string]struct {
		config string
		kind   Kind
		want   string
	}{
		"another hash": {merge1(plain, hashed("x")), Failed, "its hash is not sha512-a4abd4448c49562d…, which"},
		"no gzip":      {merge1(plain, `, "compression": "gzip"`), Failed, "not compressed with gzip"},
		"gzip, cut off": {merge1(dataurl.EncodeBytes(packed(t, child)[:40]), `, "compression": "gzip"`), Failed,
			"to its end"},
		"gzip, damaged": {merge1(dataurl.EncodeBytes(append(packed(t, child)[:60], make([]byte, 60)...)),
			`, "compression": "gzip"`), Failed, "could not be read"},
		"no config":    {merging(w.page("/text", "hello")), Invalid, "it is no valid config"},
		"an empty one": {merging(w.page("/empty", "")), Invalid, "a machine would go on with an empty config"},
		"204": {merging(w.handle("/204", func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(204) })),
			Invalid, "an empty config"},
		"a later spec": {merging(w.page("/later", `{"ignition": {"version": "3.7.0"}}`)), Invalid, "3.7.0"},
		"too large":    {merging(w.page("/large", child+large)), Invalid, "more than 8388608 bytes"},
		"a bomb": {merge1(w.handle("/bomb", func(out http.ResponseWriter, _ *http.Request) {
			out.Write(packed(t,
				child+large))
		}), `, "compression": "gzip"`), Invalid, "more than 8388608 bytes"},
		"a bomb in data": {merge1(dataurl.EncodeBytes(packed(t, large+large)), `, "compression": "gzip"`), Invalid,
			"more than 8388608 bytes"},
		"truncated": {merging(w.handle("/cut", func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Content-Length", "1000")
			out.Write([]byte(child))
		})), Failed, "the server hung up"},
		"invalid together": {with(merging(w.page("/link", strings.TrimSuffix(config(), "}")+
			`, "storage": {"links": [{"path": "/a", "target": "/b"}]}}`)), "/a/b", "1"),
			Invalid, "what the configs come to is no valid config"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(w.asked())
			e := refuse(t, renderer(t), c.config)
			if e.Kind != c.kind {
				t.Errorf("kind %d", e.Kind)
			}
			has(t, e.Error(), c.want)
			if n := len(w.asked()) - before; n > 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestEncoding is as with Ignition: a body that is encoded without having been asked
// for is no config, and after a redirect, where the default of Go asks for it, it is.
func TestEncoding(t *testing.T) {
	w := serve(t)
	encoded := w.handle("/encoded", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Encoding", "gzip")
		out.Write(packed(t, with(config(), "/a", "1")))
	})
	has(t, refuse(t, renderer(t), merging(encoded)).Error(), "it is no valid config")
	hop := w.handle("/hop", http.RedirectHandler(encoded, http.StatusFound).ServeHTTP)
	if got := filesOf(t, render(t, renderer(t), merging(hop))); got != "/a=1" {
		t.Error(got)
	}
}

func TestReplace(t *testing.T) {
	w := serve(t)
	last := w.page("/last", with(config(), "/last", "1"))
	merged := w.page("/merged", with(merging(last), "/merged", "1"))
	out := render(t, renderer(t), with(config(`"config": {"replace": {"source": "`+merged+`"}, "merge": [{"source": "`+
		w.URL+`/404"}]}`), "/own", "1"))
	if got := filesOf(t, out); got != "/merged=1 /last=1" {
		t.Error(got)
	}
}

// TestAuthorities trusts what a config says, from where it is said on.
func TestAuthorities(t *testing.T) {
	secure := serveAs(t, (*httptest.Server).StartTLS)
	child := secure.page("/a", with(config(), "/a", "1"))
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	plain := serve(t)
	ca := plain.page("/ca", bundle)
	trust := `"security": {"tls": {"certificateAuthorities": [{"source": "` + ca + `"}]}}`

	out := render(t, renderer(t), config(trust, `"config": {"merge": [{"source": "`+child+`"}]}`))
	if got := filesOf(t, out); got != "/a=1" {
		t.Error(got)
	}
	// A machine keeps the bundle in its config, as a data: URL.
	has(t, out, dataurl.EncodeBytes([]byte(bundle)))
	hasNot(t, out, ca)
	if n := len(plain.asked()); n != 1 {
		t.Errorf("the bundle is fetched %d times", n)
	}

	// From a child on, before its own children are fetched.
	middle := plain.page("/middle", config(trust, `"config": {"merge": [{"source": "`+child+`"}]}`))
	if got := filesOf(t, render(t, renderer(t), merging(middle))); got != "/a=1" {
		t.Error(got)
	}

	e := refuse(t, renderer(t), merging(child))
	has(t, e.Error(), "certificate")
	e = refuse(t, renderer(t), config(strings.Replace(trust, "/ca", "/no", 1)))
	has(t, e.Error(), "rack/node → "+plain.URL+"/no: the server answered 404 Not Found")
	junk := plain.page("/junk", "junk")
	e = refuse(t, renderer(t), config(strings.Replace(trust, ca, junk, 1)))
	has(t, e.Error(), "is not PEM")
}

func TestProxy(t *testing.T) {
	w, passed := serve(t), []string{}
	w.page("/a", with(config(), "/a", "1"))
	behind, _ := url.Parse(w.URL)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		passed = append(passed, r.In.URL.String())
		r.SetURL(behind)
	}}
	proxy := serve(t)
	proxy.handleRest(forward)
	through := func(source string) string {
		return config(`"proxy": {"httpProxy": "`+proxy.URL+`", "noProxy": ["direct.example"]}`,
			`"config": {"merge": [{"source": "`+source+`"}]}`)
	}
	out := render(t, renderer(t, "127.0.0.0/8", "files.example"), through("http://files.example/a"))
	if got := filesOf(t, out); got != "/a=1" || len(passed) != 1 || passed[0] != "http://files.example/a" {
		t.Error(got, passed)
	}
	has(t, out, proxy.URL)
	// Without a proxy in the config there is none: net/http would use that of the environment for this name.
	direct := renderer(t, "127.0.0.0/8", "files.example")
	direct.dialer.Lookup = lookup(map[string][]string{"files.example": {"127.0.0.1"}})
	_, port, _ := strings.Cut(strings.TrimPrefix(w.URL, "http://"), ":")
	if got := filesOf(t, render(t, direct, merging("http://files.example:"+port+"/a"))); got != "/a=1" {
		t.Error(got)
	}
	// Neither is the list got round through a proxy, nor is a proxy that is not on it used.
	for _, c := range []struct{ config, allow, want string }{
		{through("http://other.example/a"), "127.0.0.0/8", "behind a proxy a host's address is not known"},
		{through("http://10.0.0.1/a"), "127.0.0.0/8", "--allow-fetch does not name it"},
		{through("http://169.254.169.254/a"), "127.0.0.0/8", "the metadata service"},
		{through("http://files.example/a"), "files.example", "--allow-fetch"},
	} {
		e := refuse(t, renderer(t, c.allow), c.config)
		if e.Kind != Refused {
			t.Errorf("kind %d", e.Kind)
		}
		has(t, e.Error(), c.want)
	}
	if len(passed) != 1 {
		t.Error(passed)
	}
}
