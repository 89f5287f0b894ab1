package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	restclient "k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/testkit"
)

const unknownPath = "/api/v1/unknownmachines"

// storeUnknown stores an unknown machine, as the server does.
func (a *api) storeUnknown(name string) {
	a.t.Helper()
	now := metav1.NewTime(time.Now())
	object := &v1.UnknownMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-1", CreationTimestamp: now},
		Status: v1.UnknownMachineStatus{
			Adopt: "glowplug adopt um/" + name + " -n NAMESPACE --name HOST", MAC: strings.ReplaceAll(name, "-", ":"),
			Addresses: []string{"192.0.2.7"}, Product: "R640", Serial: "S1", Count: 3, FirstSeen: now, LastSeen: now,
			Requests: []string{"ipxe"},
		},
	}
	err := a.stores[kinds.UnknownMachines].Create(a.t.Context(), "/unknownmachines/"+name, object, &v1.UnknownMachine{}, 0)
	if err != nil {
		a.t.Fatal(err)
	}
}

// TestUnknownMachinesAreReadOnly: clients may read and delete unknown machines, and not write
// them.
func TestUnknownMachinesAreReadOnly(t *testing.T) {
	a := start(t)
	testkit.Until(t, "the store is read", func() bool { return a.stores[kinds.UnknownMachines].ReadinessCheck() == nil })
	a.storeUnknown("52-54-00-00-00-01")
	object := map[string]any{"apiVersion": "v1", "kind": "UnknownMachine", "metadata": map[string]any{
		"name": "52-54-00-00-00-01"}}
	one := unknownPath + "/52-54-00-00-00-01"
	for _, refused := range []answer{
		a.must(http.StatusMethodNotAllowed, "POST", unknownPath, object),
		a.must(http.StatusMethodNotAllowed, "PUT", one, object),
		a.must(http.StatusMethodNotAllowed, "PATCH", one, object, "Content-Type", "application/merge-patch+json"),
		a.must(http.StatusMethodNotAllowed, "PATCH", one+"?fieldManager=x", object, "Content-Type",
			"application/apply-patch+yaml"),
	} {
		if s := refused.status(t); s.Reason != metav1.StatusReasonMethodNotAllowed ||
			!strings.HasPrefix(s.Message, "only the server writes UnknownMachines") {
			t.Errorf("%+v", s)
		}
	}
	list := string(a.must(http.StatusOK, "GET", "/api/v1", nil).body)
	_, ours, _ := strings.Cut(list, `"unknownmachines"`)
	if ours, _, _ = strings.Cut(ours, "}"); !strings.Contains(ours, `"verbs":["delete","deletecollection","get","list","watch"]`) {
		t.Errorf("discovery: %s", ours)
	}
	a.must(http.StatusOK, "DELETE", one, nil)
	a.must(http.StatusNotFound, "GET", one, nil)
}

// TestUnknownMachinesByKubectl uses the real kubectl and an informer.
func TestUnknownMachinesByKubectl(t *testing.T) {
	a := start(t)
	k := newKubectl(t, a.url)
	testkit.Until(t, "the store is read", func() bool { return a.stores[kinds.UnknownMachines].ReadinessCheck() == nil })
	client, err := dynamic.NewForConfig(&restclient.Config{Host: a.url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	lister := informers.ForResource(schema.GroupVersionResource{Version: "v1", Resource: kinds.UnknownMachines}).Lister()
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	defer informers.Shutdown()
	defer cancel()

	a.storeUnknown("52-54-00-00-00-01")
	a.storeUnknown("52-54-00-00-00-02")
	testkit.Until(t, "it comes to pass", func() bool { _, err := lister.Get("52-54-00-00-00-01"); return err == nil })
	k.ok("get um", "NAME", "MAC", "ADDRESS", "PRODUCT", "SERIAL", "COUNT", "LAST SEEN", "AGE", "52:54:00:00:00:01",
		"192.0.2.7", "R640", "S1")
	k.ok("get unknownmachines -o wide", "REQUESTS", "ipxe", "NEIGHBOR-MAC")
	k.ok("get um 52-54-00-00-00-01 -o yaml", "serial: S1")
	k.ok("describe um 52-54-00-00-00-01", "glowplug adopt um/52-54-00-00-00-01 -n NAMESPACE --name HOST")
	k.ok("explain um.status", "addresses")
	k.fails("label um 52-54-00-00-00-01 a=b", "only the server writes UnknownMachines")
	k.ok("delete um 52-54-00-00-00-01", "deleted")
	k.ok("delete um --all", "52-54-00-00-00-02")
	testkit.Until(t, "it comes to pass", func() bool { _, err := lister.Get("52-54-00-00-00-02"); return err != nil })
}
