package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/testkit"
)

const g10 = "/api/v1/namespaces/g10"

func awaitGone(t *testing.T, a *api, path string) {
	t.Helper()
	testkit.Until(t, "it comes to pass", func() bool { return a.do("GET", path, nil).code == http.StatusNotFound })
}

// awaitCondition waits until a condition of the namespace g10 is true, and checks its message.
func awaitCondition(t *testing.T, a *api, typ, message string) {
	t.Helper()
	testkit.Until(t, "it comes to pass", func() bool {
		namespace := &v1.Namespace{}
		if err := json.Unmarshal(a.do("GET", g10, nil).body, namespace); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(namespace.Status.Conditions, typ)
		return namespace.Status.Phase == v1.NamespaceTerminating && c != nil && c.Status == "True" &&
			strings.Contains(c.Message, message)
	})
}

func finalized(name, finalizers string) string {
	return `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"` + name + `","finalizers":[` + finalizers +
		`]},"spec":{}}`
}

func TestADeletedNamespaceIsEmptied(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.must(http.StatusCreated, "POST", hosts, host("two"))
	a.must(http.StatusCreated, "POST", g10+"/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)
	a.must(http.StatusCreated, "POST", g10+"/events",
		`{"apiVersion":"v1","kind":"Event","metadata":{"name":"x"},"involvedObject":{"namespace":"g10"},`+
			`"reportingComponent":"","reportingInstance":""}`)
	a.must(http.StatusCreated, "POST", "/api/v1/namespaces/g11/baremetalhosts", host("other"))

	a.must(http.StatusOK, "DELETE", g10, nil)
	awaitGone(t, a, g10)
	for _, path := range []string{hosts + "/one", hosts + "/two", g10 + "/configmaps/x", g10 + "/events/x"} {
		a.must(http.StatusNotFound, "GET", path, nil)
	}
	a.must(http.StatusOK, "GET", "/api/v1/namespaces/g11/baremetalhosts/other", nil)
	a.must(http.StatusCreated, "POST", hosts, host("one")) // by first use, again
}

func TestATerminatingNamespaceTakesNothingNew(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, finalized("held", `"example.com/a"`))
	const merge = "application/merge-patch+json"
	a.must(http.StatusOK, "PATCH", g10, `{"metadata":{"finalizers":["example.com/own"]}}`, "Content-Type", merge)
	a.must(http.StatusOK, "DELETE", g10, nil)
	awaitCondition(t, a, "NamespaceFinalizersRemaining", "example.com/a in 1 resource instances")
	awaitCondition(t, a, "NamespaceContentRemaining", "baremetalhosts has 1 resource instances")

	const words = "unable to create new content in namespace g10 because it is being terminated"
	refused := a.must(http.StatusForbidden, "POST", hosts, host("late")).status(t)
	if !strings.Contains(refused.Message, words) || refused.Details.Causes[0].Type != "NamespaceTerminating" {
		t.Errorf("%+v", refused)
	}
	applied := a.must(http.StatusForbidden, "PATCH", hosts+"/x?fieldManager=a", manifest("BareMetalHost", `{}`),
		"Content-Type", "application/apply-patch+yaml").status(t)
	if !strings.Contains(applied.Message, words) {
		t.Error(applied.Message)
	}
	a.must(http.StatusOK, "PATCH", g10, `{"spec":{"finalizers":[]}}`, "Content-Type", merge)
	a.must(http.StatusOK, "PATCH", hosts+"/held", `{"metadata":{"finalizers":[]}}`, "Content-Type", merge)
	awaitGone(t, a, hosts+"/held")
	a.must(http.StatusOK, "GET", g10, nil) // its own finalizer holds it
	a.must(http.StatusOK, "PATCH", g10, `{"metadata":{"finalizers":[]}}`, "Content-Type", merge)
	awaitGone(t, a, g10)
}

func TestAnImageInUseHoldsItsNamespace(t *testing.T) {
	var inUse atomic.Bool
	inUse.Store(true)
	a := start(t, func(o *Options) {
		o.InUse = func(_, name string) []string {
			if inUse.Load() && name == "read" {
				return []string{"node-1"}
			}
			return nil
		}
	})
	for _, name := range []string{"read", "unread"} {
		a.must(http.StatusCreated, "POST", g10+"/iscsicdroms", `{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"`+
			name+`"},"spec":{"isoFile":"a.iso"}}`)
	}
	a.must(http.StatusOK, "DELETE", g10, nil)
	awaitCondition(t, a, "NamespaceDeletionContentFailure", "it is being read by node-1")
	awaitGone(t, a, g10+"/iscsicdroms/unread")
	a.must(http.StatusOK, "GET", g10+"/iscsicdroms/read", nil)
	inUse.Store(false)
	awaitGone(t, a, g10)
}

// TestADeletionOfANamespaceContinuesOnAnotherServer: the second server begins with what the
// store has, as a server does after a restart.
func TestADeletionOfANamespaceContinuesOnAnotherServer(t *testing.T) {
	stores := newStores(t)
	a := startOn(t, stores, Listener{Admin: true, Admitted: true}, func(o *Options) {
		o.InUse = func(string, string) []string { return []string{"node-1"} }
	})
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.must(http.StatusCreated, "POST", g10+"/iscsicdroms",
		`{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"read"},"spec":{"isoFile":"a.iso"}}`)
	a.must(http.StatusOK, "DELETE", g10, nil)
	awaitCondition(t, a, "NamespaceContentRemaining", "iscsicdroms has 1")
	b := startOn(t, stores, Listener{Admin: true, Admitted: true})
	awaitGone(t, b, g10)
	b.must(http.StatusNotFound, "GET", g10+"/iscsicdroms/read", nil)
}

// TestADeletedNamespaceWithAnObjectIsCreatedAgain: another server created the object before
// it knew of the deletion.
func TestADeletedNamespaceWithAnObjectIsCreatedAgain(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("late"))
	if err := a.stores["namespaces"].Delete(t.Context(), namespaceKey("g10"), &v1.Namespace{}, nil,
		rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it comes to pass", func() bool { return a.do("GET", g10, nil).code == http.StatusOK })
}

// TestEventsOfADeletedNamespaceAreDeleted: an event that was written during the deletion goes
// as well, and what is not written yet is told of.
func TestEventsOfADeletedNamespaceAreDeleted(t *testing.T) {
	deleted := make(chan string, 1)
	a := startOn(t, newStores(t), Listener{Admin: true, Admitted: true}, func(o *Options) {
		o.NamespaceDeleted = func(name string) { deleted <- name }
	})
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.must(http.StatusOK, "DELETE", hosts+"/one", nil)
	event := &v1.Event{Reason: "Late", InvolvedObject: v1.ObjectReference{Namespace: "g10", Name: "one"}}
	event.Namespace, event.Name = "g10", "one.late"
	if err := a.stores["events"].Create(t.Context(), "/events/g10/one.late", event, &v1.Event{}, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.stores["namespaces"].Delete(t.Context(), namespaceKey("g10"), &v1.Namespace{}, nil,
		rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, a, g10+"/events/one.late")
	a.must(http.StatusNotFound, "GET", g10, nil)
	if name := <-deleted; name != "g10" {
		t.Errorf("%s is told of", name)
	}
}

// TestTwoServersDeleteANamespace: both servers work at once on one store, and one of them
// creates hosts all the while. No host is left without its namespace.
func TestTwoServersDeleteANamespace(t *testing.T) {
	js := kvtest.JetStream(t)
	open := Listener{Admin: true, Admitted: true}
	a, b := startOn(t, storesOn(t, js, kvstore.Options{}), open), startOn(t, storesOn(t, js, kvstore.Options{}), open)
	for i := range 30 {
		a.must(http.StatusCreated, "POST", hosts, host(fmt.Sprintf("h-%d", i)))
	}
	var wasDeleted atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; !wasDeleted.Load(); i++ {
			code := b.do("POST", hosts, host(fmt.Sprintf("late-%d", i))).code
			if code != http.StatusCreated && code != http.StatusForbidden {
				t.Errorf("a creation is answered %d", code)
			}
		}
	})
	a.must(http.StatusOK, "DELETE", g10, nil)
	testkit.Until(t, "it comes to pass", func() bool { return a.do("GET", hosts+"/h-29", nil).code == http.StatusNotFound })
	time.Sleep(50 * time.Millisecond) // the writer may make the namespace anew
	wasDeleted.Store(true)
	writer.Wait()
	testkit.Until(t, "it comes to pass", func() bool {
		if a.do("GET", g10, nil).code == http.StatusOK {
			return b.do("GET", g10, nil).code == http.StatusOK && !strings.Contains(string(a.do("GET", g10, nil).body),
				v1.NamespaceTerminating)
		}
		return !strings.Contains(string(b.do("GET", hosts, nil).body), `"uid"`)
	})
}
