package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"glowplug/internal/client"
	"glowplug/internal/serve/console/live"
	"glowplug/internal/store/snapshot"
)

// answers are what an API answers, by resource and what follows in the path, as "boots/rack-a/node-1.1/rendered", or by
// that with a query: an object, bytes, or an error. A list that is not there is empty, and an object 404.
type answers map[string]any

// ServeHTTP implements http.Handler.
func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	namespace, isNamespaced := "", false
	if rest, ok := strings.CutPrefix(path, "namespaces/"); ok && strings.Contains(rest, "/") {
		namespace, path, _ = strings.Cut(rest, "/")
		isNamespaced = true
	}
	resource, name, isNamed := strings.Cut(path, "/")
	key := resource
	if isNamespaced {
		key += "/" + namespace
	}
	if isNamed {
		key += "/" + name
	}
	answer, ok := a[key+"?"+r.URL.RawQuery]
	if !ok {
		answer, ok = a[key]
	}
	switch answer := answer.(type) {
	case []byte:
		_, _ = w.Write(answer)
	case error:
		refuse(w, http.StatusForbidden, answer.Error())
	default:
		switch {
		case !ok && isNamed:
			refuse(w, http.StatusNotFound, resource+` "`+name+`" not found`)
		case !ok:
			_, _ = io.WriteString(w, "{}")
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: message})
}

// open returns what the console answers to ann, who may do everything that no change of the options takes from her.
func (a answers) open(t *testing.T, path string, changes ...func(*Options)) *httptest.ResponseRecorder {
	t.Helper()
	api := httptest.NewServer(a)
	t.Cleanup(api.Close)
	asking, err := client.New(&rest.Config{Host: api.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(asking.Close)
	opts := Options{
		Client: asking, As: func(r *http.Request, _ user.Info) context.Context { return r.Context() },
		User:    func(*http.Request) user.Info { return &user.DefaultInfo{Name: "ann"} },
		MayList: func(context.Context, user.Info, string, string) bool { return true },
		IsLocal: func(*http.Request) bool { return true },
		Live:    live.New(live.Options{Inventory: snapshot.New(snapshot.Options{}), Storm: func() bool { return false }}),
		Ready: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "[+]ping ok\n[-]nats failed: reason withheld\n")
		}),
		MayGet: func(context.Context, user.Info, string) bool { return true },
		Facts:  func() []Fact { return nil }, Key: testKey(1),
	}
	for _, change := range changes {
		change(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Prefix+path, nil))
	return answer
}

// has fails unless a page has all of these texts, in their order.
func has(t *testing.T, page *httptest.ResponseRecorder, texts ...string) {
	t.Helper()
	rest := page.Body.String()
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Errorf("%d: the page has no %q, or not there:\n%s", page.Code, text, page.Body)
			return
		}
		rest = after
	}
}

// hasNone fails if a page has one of these texts.
func hasNone(t *testing.T, page *httptest.ResponseRecorder, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page.Body.String(), text) {
			t.Errorf("the page has %q:\n%s", text, page.Body)
		}
	}
}
