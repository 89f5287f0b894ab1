package api

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"glowplug/internal/testkit"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func TestNamespacesByUse(t *testing.T) {
	a := start(t)
	const g10 = "/api/v1/namespaces/g10"
	testkit.Until(t, "it comes to pass", func() bool { return a.do("GET", "/api/v1/namespaces/default", nil).code == http.StatusOK })
	a.must(http.StatusNotFound, "GET", g10, nil)

	var writers sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		writers.Go(func() { a.must(http.StatusCreated, "POST", hosts, host(name)) })
	}
	writers.Wait()
	a.must(http.StatusOK, "GET", g10, nil)
	a.must(http.StatusConflict, "POST", "/api/v1/namespaces",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"g10"}}`)

	a.must(http.StatusOK, "DELETE", g10+"?dryRun=All", nil)
	a.must(http.StatusOK, "GET", hosts+"/a", nil)
	a.must(http.StatusOK, "DELETE", g10, nil)
	awaitGone(t, a, g10)
	a.must(http.StatusForbidden, "DELETE", "/api/v1/namespaces/default", nil)

	a.must(http.StatusCreated, "PATCH", hosts+"/x?fieldManager=a", manifest("BareMetalHost", `{}`), "Content-Type",
		"application/apply-patch+yaml")
	a.must(http.StatusOK, "GET", g10, nil)
}

// Typed clients of Kubernetes send protobuf for what they know.
func TestProtobufBodies(t *testing.T) {
	a := start(t)
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	var body strings.Builder
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "typed"}}
	if err := protobuf.NewSerializer(s, s).Encode(namespace, &body); err != nil {
		t.Fatal(err)
	}
	const media = "application/vnd.kubernetes.protobuf"
	got := a.must(http.StatusCreated, "POST", "/api/v1/namespaces", body.String(), "Content-Type", media, "Accept", media+
		",application/json")
	if got.header.Get("Content-Type") != "application/json" || len(got.warnings) > 0 {
		t.Errorf("%v", got.header)
	}
	a.must(http.StatusBadRequest, "POST", "/api/v1/namespaces", "nonsense", "Content-Type", media)
	a.must(http.StatusNotAcceptable, "GET", "/api/v1/namespaces", nil, "Accept", media)
}

func TestEventSelectors(t *testing.T) {
	a := start(t)
	const events = "/api/v1/namespaces/g10/events"
	for _, name := range []string{"one", "two"} {
		a.must(http.StatusCreated, "POST", events, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"`+name+
			`"},"involvedObject":{"kind":"BareMetalHost","name":"`+name+`","namespace":"g10","uid":"u-`+name+
			`"},"reason":"R","type":"Normal","reportingComponent":"","reportingInstance":""}`)
	}
	for selector, want := range map[string]int{
		"involvedObject.name=one": 1, "involvedObject.uid=u-two,involvedObject.kind=BareMetalHost": 1,
		"type=Normal,reason=R": 2,
		"reason!=R":            0, "metadata.name=two,metadata.namespace=g10": 1,
	} {
		body := string(a.must(http.StatusOK, "GET", "/api/v1/events?fieldSelector="+selector, nil).body)
		if got := strings.Count(body, `"reason":"R"`); got != want {
			t.Errorf("%s: %d, want %d", selector, got, want)
		}
	}
	a.must(http.StatusBadRequest, "GET", events+"?fieldSelector=spec.x=y", nil)
}
