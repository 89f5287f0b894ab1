package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	restclient "k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/testkit"
)

func TestStatusCodes(t *testing.T) {
	a := start(t)
	cdrom := map[string]any{"apiVersion": "v1", "kind": "ISCSICdrom", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{"isoFile": "x.iso"}}
	for path, object := range map[string]any{configs: config("x", goodSource), hosts: host("x"), cdroms: cdrom} {
		created := a.must(http.StatusCreated, "POST", path, object)
		if reason := a.must(http.StatusConflict, "POST", path,
			object).status(t).Reason; reason != metav1.StatusReasonAlreadyExists {
			t.Errorf("second POST to %s: %s", path, reason)
		}
		a.must(http.StatusOK, "GET", path+"/x", nil)
		a.must(http.StatusOK, "PUT", path+"/x", object) // unconditional
		fresh := a.must(http.StatusOK, "GET", path+"/x", nil).object(t)
		fresh.SetLabels(map[string]string{"a": "b"})
		a.must(http.StatusOK, "PUT", path+"/x", fresh)
		if reason := a.must(http.StatusConflict, "PUT", path+"/x", withLabel(created.object(t),
			fresh)).status(t).Reason; reason != metav1.StatusReasonConflict {
			t.Errorf("stale PUT to %s: %s", path, reason)
		}
		a.must(http.StatusNotFound, "PUT", path+"/y", strings.Replace(string(created.body), `"name":"x"`, `"name":"y"`, 1))
		a.must(http.StatusOK, "DELETE", path+"/x", nil)
		a.must(http.StatusNotFound, "DELETE", path+"/x", nil)
		if reason := a.must(http.StatusNotFound, "GET", path+"/x",
			nil).status(t).Reason; reason != metav1.StatusReasonNotFound {
			t.Errorf("GET of nothing at %s: %s", path, reason)
		}
	}
	a.must(http.StatusNotFound, "GET", "/api/v1/namespaces/g10/pods", nil)
	a.must(http.StatusBadRequest, "POST", configs, "nonsense")
	a.must(http.StatusUnsupportedMediaType, "POST", configs, "nonsense", "Content-Type", "text/plain")
}

// withLabel is an object as it was, with the version that the first answer had
// and another label.
func withLabel(stale, fresh *unstructured.Unstructured) *unstructured.Unstructured {
	out := fresh.DeepCopy()
	out.SetResourceVersion(stale.GetResourceVersion())
	out.SetLabels(map[string]string{"a": "c"})
	return out
}

func TestYAML(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts,
		"apiVersion: v1\nkind: BareMetalHost\nmetadata: {name: x}\nspec: {ip: 192.0.2.1}\n", "Content-Type",
		"application/yaml")
	if body := a.must(http.StatusOK, "GET", hosts+"/x", nil, "Accept",
		"application/yaml").body; !strings.Contains(string(body), "ip: 192.0.2.1\n") {
		t.Errorf("%s", body)
	}
}

func TestServerKeepsWhatIsIts(t *testing.T) {
	a := start(t)
	mine := host("x")
	mine.Status = v1.BareMetalHostStatus{State: "Mine", BootCount: 7}
	got := a.must(http.StatusCreated, "POST", hosts, mine).object(t)
	check := func(when, state string, generation int64) {
		t.Helper()
		found, _, _ := unstructured.NestedString(got.Object, "status", "state")
		if found != state || got.GetGeneration() != generation {
			t.Errorf("%s: state %q, generation %d", when, found, got.GetGeneration())
		}
	}
	check("created", v1.StateAvailable, 1)
	if mode, _, _ := unstructured.NestedString(got.Object, "spec", "bootMode"); mode != v1.BootOnce {
		t.Errorf("bootMode %q", mode)
	}
	got = a.must(http.StatusOK, "PUT", hosts+"/x", mine).object(t)
	check("replaced", v1.StateAvailable, 1)
	mine.Spec.IP = "192.0.2.9"
	got = a.must(http.StatusOK, "PUT", hosts+"/x", mine).object(t)
	check("changed", v1.StateAvailable, 2)
	mine.Spec.IP, mine.Status.State, mine.Labels = "192.0.2.10", v1.StateProvisioned, map[string]string{"a": "b"}
	got = a.must(http.StatusOK, "PUT", hosts+"/x/status", mine).object(t)
	check("status", v1.StateProvisioned, 2)
	if ip, _, _ := unstructured.NestedString(got.Object, "spec", "ip"); ip != "192.0.2.9" || got.GetLabels() != nil {
		t.Errorf("the status endpoint takes ip %q and labels %v", ip, got.GetLabels())
	}
}

func TestPatches(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	patch := func(media, body string) *unstructured.Unstructured {
		t.Helper()
		return a.must(http.StatusOK, "PATCH", hosts+"/x?fieldManager=test", body, "Content-Type", media).object(t)
	}
	patch("application/merge-patch+json", `{"spec":{"hostname":"one","labels":{"role":"builder"}}}`)
	got := patch("application/json-patch+json", `[{"op":"replace","path":"/spec/hostname","value":"two"}]`)
	if name, _, _ := unstructured.NestedString(got.Object, "spec", "hostname"); name != "two" || got.GetGeneration() != 3 {
		t.Errorf("hostname %q, generation %d", name, got.GetGeneration())
	}
	apply := func(code int, query, body string) answer {
		t.Helper()
		return a.must(code, "PATCH", hosts+"/"+query, body, "Content-Type", "application/apply-patch+yaml")
	}
	apply(http.StatusCreated, "y?fieldManager=one",
		`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"ip":"192.0.2.1"}}`)
	same := apply(http.StatusOK, "y?fieldManager=one",
		`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"ip":"192.0.2.1"},"status":{"state":"Mine"}}`).object(t)
	if state, _, _ := unstructured.NestedString(same.Object, "status", "state"); state != v1.StateAvailable {
		t.Errorf("server-side apply sets the state to %q", state)
	}
	apply(http.StatusConflict, "y?fieldManager=two",
		`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"ip":"192.0.2.2"}}`)
	apply(http.StatusOK, "y?fieldManager=two&force=true",
		`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"ip":"192.0.2.2"}}`)
	for _, version := range []string{"/openapi/v2", "/openapi/v3/api/v1"} {
		body := string(a.must(http.StatusOK, "GET", version, nil, "Accept", "application/json").body)
		if strings.Contains(body, "strategic-merge") || !strings.Contains(body, "merge-patch+json") {
			t.Errorf("%s advertises strategic merge patches", version)
		}
	}
	// kubectl sends them for namespaces all the same.
	a.must(http.StatusOK, "PATCH", "/api/v1/namespaces/g10", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type",
		"application/strategic-merge-patch+json")
}

func TestWatchAndInformer(t *testing.T) {
	a := start(t)
	client, err := dynamic.NewForConfig(&restclient.Config{Host: a.url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: kinds.BareMetalHosts}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	lister := informers.ForResource(resource).Lister()
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	defer informers.Shutdown()
	defer cancel()

	watcher, err := client.Resource(resource).Namespace("g10").Watch(ctx, metav1.ListOptions{LabelSelector: "watched=yes"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	one := host("one")
	a.must(http.StatusCreated, "POST", hosts, one)
	one.Labels = map[string]string{"watched": "yes"}
	a.must(http.StatusOK, "PUT", hosts+"/one", one)
	one.Spec.IP = "192.0.2.1"
	a.must(http.StatusOK, "PUT", hosts+"/one", one)
	a.must(http.StatusOK, "DELETE", hosts+"/one", nil)
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		select {
		case event := <-watcher.ResultChan():
			if event.Type != want {
				t.Errorf("%s, want %s", event.Type, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("no %s", want)
		}
	}
	a.must(http.StatusCreated, "POST", hosts, host("two"))
	testkit.Until(t, "it comes to pass", func() bool { _, err := lister.ByNamespace("g10").Get("two"); return err == nil })
}

// TestArming: a new value of the annotation that arms a host is kept with its time, which a client
// cannot set. A value that has taken effect arms nothing.
func TestArming(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("x"))
	armed := func(rearm string) string {
		t.Helper()
		got := a.must(http.StatusOK, "PATCH", hosts+"/x",
			`{"metadata":{"annotations":{"`+v1.AnnotationRearm+`":`+rearm+`}},"status":{"armed":"2020-01-01T00:00:00Z"}}`,
			"Content-Type", "application/merge-patch+json").object(t)
		at, _, _ := unstructured.NestedString(got.Object, "status", "armed")
		return at
	}
	isNow := func(at string) bool {
		parsed, err := time.Parse(time.RFC3339, at)
		return err == nil && time.Since(parsed).Abs() < time.Minute
	}
	first := armed(`"1"`)
	if created := a.must(http.StatusOK, "GET", hosts+"/x", nil).object(t).GetCreationTimestamp(); !isNow(first) ||
		first <= created.UTC().Format(time.RFC3339) {
		t.Errorf("created at %s and armed at %q: each arming has a time of its own", created, first)
	}
	if second := armed(`"2"`); second <= first {
		t.Errorf("armed at %s and at %s", first, second)
	}
	a.must(http.StatusOK, "PATCH", hosts+"/x/status", `{"status":{"armed":"2020-01-01T00:00:00Z","rearmed":"2"}}`,
		"Content-Type", "application/merge-patch+json")
	for _, rearm := range []string{`"2"`, `null`, `"2"`} {
		if at := armed(rearm); at != "2020-01-01T00:00:00Z" {
			t.Errorf("%s arms the host at %s", rearm, at)
		}
	}
	if at := armed(`"3"`); !isNow(at) {
		t.Errorf("a new value arms it at %s", at)
	}
}
