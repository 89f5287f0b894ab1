package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/testkit"
)

// TestCollectionOfManyObjectsIsDeleted: one DELETE takes away more objects than the
// library lists in a page of 10,000, and than the store keeps changes of, which a list
// needs to be continued.
func TestCollectionOfManyObjectsIsDeleted(t *testing.T) {
	testkit.NeedsThorough(t)
	const many = 10_500
	const short = 100 << 10 // bytes: some hundred changes
	stores := storesOn(t, kvtest.JetStream(t), kvstore.Options{Exclusive: true, WindowBytes: short})
	a := startOn(t, stores, Listener{Admin: true, Admitted: true})
	fill(t, a.stores[kinds.ConfigMaps], many)
	a.must(http.StatusCreated, "POST", "/api/v1/namespaces/other/configmaps",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"stays"}}`)

	list := "/api/v1/namespaces/g10/configmaps"
	deleted := a.must(http.StatusOK, "DELETE", list, nil)
	if n := strings.Count(string(deleted.body), `"uid"`); n != many {
		t.Errorf("the answer names %d objects, want %d", n, many)
	}
	if rest := a.must(http.StatusOK, "GET", list, nil); strings.Contains(string(rest.body), `"uid"`) {
		t.Errorf("after the deletion: %.300s", rest.body)
	}
	a.must(http.StatusOK, "GET", "/api/v1/namespaces/other/configmaps/stays", nil)
	// Its namespace is empty now.
	a.must(http.StatusCreated, "POST", "/api/v1/namespaces",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"g10"}}`)
	a.must(http.StatusOK, "DELETE", "/api/v1/namespaces/g10", nil)
}

// TestCollectionIsDeletedByPages: a caller that asks for pages is given them.
func TestCollectionIsDeletedByPages(t *testing.T) {
	a := start(t)
	fill(t, a.stores[kinds.ConfigMaps], 5)
	list := "/api/v1/namespaces/g10/configmaps"
	for _, rest := range []int{3, 1, 0} {
		a.must(http.StatusOK, "DELETE", list+"?limit=2", nil)
		if n := strings.Count(string(a.must(http.StatusOK, "GET", list, nil).body), `"uid"`); n != rest {
			t.Errorf("%d objects are left, want %d", n, rest)
		}
	}
}

// fill makes n small ConfigMaps in the namespace g10.
func fill(t *testing.T, store storage.Interface, n int) {
	t.Helper()
	var writers sync.WaitGroup
	for w := range 64 {
		writers.Go(func() {
			for i := w; i < n; i += 64 {
				cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cm-%05d", i)}}
				rest.FillObjectMetaSystemFields(cm)
				cm.Namespace = "g10"
				if err := store.Create(t.Context(), "/configmaps/g10/"+cm.Name, cm, &v1.ConfigMap{}, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}
