package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/manifest"
)

// connect returns a client of a server with one handler.
func connect(t *testing.T, handler http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	c, err := client.New(&rest.Config{Host: server.URL + "/", BearerToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return c
}

func TestRequests(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Warning", `299 - "take care"`)
		h := r.Header
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.RequestURI, h.Get("Content-Type"), h.Get("Authorization"), body)
	})
	for want, r := range map[string]*client.Request{
		"GET /api/v1/namespaces  Bearer secret ": {Resource: "namespaces"},
		"GET /api/v1/namespaces/g10/iscsicdroms/a%20b/iso?host=x  Bearer secret ": {
			Resource: "iscsicdroms", Namespace: "g10", Name: "a b", Subresource: "iso",
			Query: map[string][]string{"host": {"x"}},
		},
		"GET /streams/a%2Fb.json  Bearer secret ": {Path: "/streams/a%2Fb.json"},
		`POST /api/v1/namespaces application/json Bearer secret {"a":1}`: {
			Method: http.MethodPost, Resource: "namespaces", Body: map[string]int{"a": 1},
		},
		"PUT /x  Bearer secret content": {
			Method: http.MethodPut, Path: "/x", Upload: strings.NewReader("content"), Length: 7,
		},
	} {
		var got []byte
		if _, err := c.Do(t.Context(), r, &got); err != nil || string(got) != want {
			t.Errorf("%v %q, not %q", err, got, want)
		}
	}
	if _, err := c.Do(t.Context(), &client.Request{Resource: "namespaces", Name: "../x"}, nil); err == nil {
		t.Error("a name with a path in it is sent")
	}
	docs := manifest.Split("x", []byte("{apiVersion: v1, kind: ISCSICdrom, metadata: {name: one}}"))
	var got []byte
	warnings, err := c.Apply(t.Context(), &docs[0], "me", map[string][]string{"dryRun": {"All"}}, &got)
	const want = "PATCH /api/v1/namespaces/default/iscsicdroms/one?dryRun=All&fieldManager=me&force=true" +
		" application/apply-patch+yaml "
	if err != nil || !strings.HasPrefix(string(got), want) || len(warnings) != 1 || warnings[0] != "take care" {
		t.Errorf("%v %v %s", err, warnings, got)
	}
	docs[0].Kind = "Pod"
	_, err = c.Apply(t.Context(), &docs[0], "me", nil, nil)
	if err == nil || err.Error() != "v1 Pod is no kind of this server" {
		t.Error(err)
	}
}

// A refusal is an error at once: whether and when to try again is the caller's decision.
func TestRefusals(t *testing.T) {
	asked := 0
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"kind":"Status","message":"the store is away"}`)
	})
	_, err := c.Do(t.Context(), &client.Request{Resource: "namespaces"}, nil)
	refused, ok := err.(*client.Refused)
	if !ok || client.Code(err) != 503 || !client.MayRetry(err) || refused.Message != "the store is away" || asked != 1 ||
		err.Error() != "the server answered 503 Service Unavailable: the store is away" {
		t.Errorf("%d: %v", asked, err)
	}
}

func TestWatch(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/api/v1/namespaces/g10/iscsicdroms?fieldSelector=metadata.name%3Da&watch=true" {
			t.Error(r.RequestURI)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"type":"ADDED","object":{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"a"}}}`)
	})
	watcher, err := c.Watcher("iscsicdroms", "g10", "a").WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event := <-watcher.ResultChan()
	if cdrom, ok := event.Object.(*v1.ISCSICdrom); event.Type != watch.Added || !ok || cdrom.Name != "a" {
		t.Errorf("%s %v", event.Type, event.Object)
	}
	if _, more := <-watcher.ResultChan(); more {
		t.Error("the watch goes on after its end")
	}
}
