package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/testkit"
)

const bootsPath = g10 + "/boots"

// storeBoots stores boots of a host as the server does: the last one in the bucket, and the others in the history.
func (a *api) storeBoots(namespace, host string, count int64) {
	a.t.Helper()
	store := a.stores[kinds.Boots].(bootStore)
	var all []*v1.Boot
	for number := int64(1); number <= count; number++ {
		begun := metav1.NewMicroTime(time.Now().Add(time.Duration(number-100) * time.Minute))
		ended := metav1.NewMicroTime(begun.Add(30 * time.Second))
		all = append(all, &v1.Boot{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s.%d", host, number), Namespace: namespace, CreationTimestamp: metav1.NewTime(begun.Time),
				UID: types.UID(fmt.Sprintf("%s-%s-%d", namespace, host, number)),
			},
			Host: host, Number: number, Outcome: []string{v1.OutcomeProvisioned, v1.OutcomeFailed}[number%2], Begun: &begun,
			Ended: &ended, Client: "192.0.2.1", Image: &v1.BootImage{Name: "g10/coreos"},
			Config: &v1.BootConfig{Name: "g10/builder", Hash: "sha256:01"},
			Match:  &v1.BootMatch{Tier: "mac", Reason: "its selector has the hardware address of the host"},
			Steps: []v1.BootStep{
				{Name: v1.StepScript, Time: begun}, {Name: v1.StepConfig, Time: metav1.NewMicroTime(begun.Add(time.Second))},
			},
		})
	}
	last := len(all) - 1
	if err := store.history.Append(a.t.Context(), all[:last]); err != nil {
		a.t.Fatal(err)
	}
	put := kvstore.Put{Key: namespace + "/" + host, Object: all[last]}
	if _, err := store.bucket.PutAll(a.t.Context(), []kvstore.Put{put}); err != nil {
		a.t.Fatal(err)
	}
}

// bootNames returns the names of a list, which is read by pages of some length.
func (a *api) bootNames(query string, limit int, header ...string) (names []string) {
	a.t.Helper()
	for token := ""; ; {
		path := fmt.Sprintf("%s&limit=%d&continue=%s", query, limit, token)
		var list v1.BootList
		if err := json.Unmarshal(a.must(http.StatusOK, "GET", path, nil, header...).body, &list); err != nil {
			a.t.Fatal(err)
		}
		for _, b := range list.Items {
			names = append(names, b.Name)
		}
		if token = list.Continue; token == "" {
			return names
		}
	}
}

// TestBootsAreListed: the newest boot of each host first, then those before it.
func TestBootsAreListed(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.storeBoots("g10", "one", 5)
	a.storeBoots("g10", "two", 3)
	for query, want := range map[string][]string{
		"?fieldSelector=":                        {"one.5", "two.3", "two.2", "two.1", "one.4", "one.3", "one.2", "one.1"},
		"?fieldSelector=host=two":                {"two.3", "two.2", "two.1"},
		"?fieldSelector=host=one,outcome=Failed": {"one.5", "one.3", "one.1"},
		"?fieldSelector=outcome!=Failed":         {"two.2", "one.4", "one.2"},
		"?fieldSelector=metadata.name=one.2":     {"one.2"},
		"?fieldSelector=metadata.name=one.9":     nil,
		"?fieldSelector=host=":                   nil,
	} {
		for _, limit := range []int{0, 2, 100} {
			if got := a.bootNames(bootsPath+query, limit); !slices.Equal(got, want) {
				t.Errorf("%s by pages of %d: %q, want %q", query, limit, got, want)
			}
		}
	}
	for name, code := range map[string]int{"one.5": 200, "one.1": 200, "one.6": 404, "one": 404} {
		a.must(code, "GET", bootsPath+"/"+name, nil)
	}
	a.must(http.StatusBadRequest, "GET", bootsPath+"?fieldSelector=client=192.0.2.1", nil)
	watched := string(a.must(http.StatusOK, "GET", bootsPath+"?watch=1&timeoutSeconds=1&fieldSelector=host=two", nil).body)
	if strings.Count(watched, "ADDED") != 1 || !strings.Contains(watched, `"two.3"`) {
		t.Error(watched)
	}
}

// TestBootsAreReadOnly: clients may read boots, and neither write nor delete them.
func TestBootsAreReadOnly(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.storeBoots("g10", "one", 2)
	a.bindIn(rbac.View, "vic")
	const merge = "application/merge-patch+json"
	object := `{"apiVersion":"v1","kind":"Boot","metadata":{"name":"one.2"}}`
	for _, refused := range []answer{
		a.must(http.StatusMethodNotAllowed, "POST", bootsPath, object),
		a.must(http.StatusMethodNotAllowed, "PUT", bootsPath+"/one.2", object),
		a.must(http.StatusMethodNotAllowed, "PATCH", bootsPath+"/one.2", object, "Content-Type", merge),
		a.must(http.StatusMethodNotAllowed, "DELETE", bootsPath+"/one.2", nil),
		a.must(http.StatusMethodNotAllowed, "DELETE", bootsPath, nil),
	} {
		if s := refused.status(t); !strings.HasPrefix(s.Message, "only the server writes Boots") {
			t.Errorf("%+v", s)
		}
	}
	if got := a.bootNames(bootsPath+"?", 0, as("vic")...); !slices.Equal(got, []string{"one.2", "one.1"}) {
		t.Errorf("a viewer reads %q", got)
	}
	a.must(http.StatusForbidden, "GET", bootsPath, nil, as("nobody")...)
	list := string(a.must(http.StatusOK, "GET", "/api/v1", nil).body)
	_, ours, _ := strings.Cut(list, `"boots"`)
	if ours, _, _ = strings.Cut(ours, "}"); !strings.Contains(ours, `"verbs":["get","list","watch"]`) {
		t.Errorf("discovery: %s", ours)
	}
}

// TestLateBootsBringNoNamespaceBack: a machine may boot while its namespace is being deleted.
func TestLateBootsBringNoNamespaceBack(t *testing.T) {
	var a *api
	late := make(chan struct{})
	a = start(t, func(o *Options) {
		o.NamespaceDeleted = func(namespace string) {
			a.storeBoots(namespace, "one", 2)
			close(late)
		}
	})
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.must(http.StatusOK, "DELETE", g10, nil)
	<-late
	testkit.Until(t, "the boots are removed", func() bool { return len(a.bootNames("/api/v1/boots?", 0)) == 0 })
	a.must(http.StatusNotFound, "GET", g10, nil)
}

// TestADeletedNamespaceHasNoBoots: neither in the bucket nor in the history.
func TestADeletedNamespaceHasNoBoots(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.must(http.StatusCreated, "POST", "/api/v1/namespaces/g11/baremetalhosts", host("one"))
	a.storeBoots("g10", "one", 5)
	a.storeBoots("g11", "one", 2)
	a.must(http.StatusOK, "DELETE", g10, nil)
	awaitGone(t, a, g10)
	if got := a.bootNames("/api/v1/boots?", 0); !slices.Equal(got, []string{"one.2", "one.1"}) {
		t.Errorf("%q", got)
	}
}

// TestBootsByKubectl uses the real kubectl.
func TestBootsByKubectl(t *testing.T) {
	a := start(t)
	k := newKubectl(t, a.url)
	a.must(http.StatusCreated, "POST", hosts, host("one"))
	a.storeBoots("g10", "one", 7)
	a.storeBoots("g10", "two", 7)
	k.ok("get boots -n g10", "NAME", "OUTCOME", "STEP", "one.7", "two.1", "g10/coreos", "Config", "30s")
	k.ok("get boots -A --field-selector host=one,outcome=Failed -o wide", "NAMESPACE", "one.7", "192.0.2.1")
	out, errs, code := k.run("get", "boots", "-n", "g10", "--chunk-size=2", "-o", "name", "--field-selector", "host=two")
	want := "boot/two.7\nboot/two.6\nboot/two.5\nboot/two.4\nboot/two.3\nboot/two.2\nboot/two.1\n"
	if out != want || code != 0 {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	k.ok("get boot one.3 -n g10 -o yaml", "outcome: Failed", "number: 3")
	k.ok("describe boot one.3 -n g10", "Outcome:", "Steps:")
	k.ok("explain boots.steps", "first reached")
	k.fails("delete boot one.3 -n g10", "only the server writes Boots")
}
