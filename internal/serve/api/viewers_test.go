package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/domain/rbac"
)

// TestViewersChangeNothing: each request that writes, of each resource and subresource that discovery has, is
// refused for a viewer, whatever its body, and also as a dry run.
func TestViewersChangeNothing(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.View, "vic")
	a.must(http.StatusCreated, "POST", configs, config("base", motd("one")))
	methods := map[string][]string{
		"create": {"POST"}, "update": {"PUT"}, "patch": {"PATCH"}, "delete": {"DELETE"}, "deletecollection": {"DELETE"},
	}
	requests := 0
	refused := func(method, path string) {
		t.Helper()
		requests++
		got := a.do(method, path, "{}", append(as("vic"), "Content-Type", contentTypeOf(method))...)
		if got.code != http.StatusForbidden {
			t.Errorf("%s %s: %d %.300s", method, path, got.code, got.body)
		}
	}
	for _, group := range []string{"/api/v1", "/apis/rbac.authorization.k8s.io/v1"} {
		var list metav1.APIResourceList
		if err := json.Unmarshal(a.must(http.StatusOK, "GET", group, nil).body, &list); err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			name, subresource, _ := strings.Cut(resource.Name, "/")
			collection := group + "/" + name
			if resource.Namespaced {
				collection = group + "/namespaces/g10/" + name
			}
			object := collection + "/base"
			if subresource != "" {
				object += "/" + subresource
			}
			for _, verb := range resource.Verbs {
				path := object
				if verb == "deletecollection" || verb == "create" && subresource == "" {
					path = collection
				}
				for _, method := range methods[verb] {
					refused(method, path)
					refused(method, path+"?dryRun=All")
				}
			}
		}
	}
	refused("PUT", cdroms+"/base/iso")
	refused("POST", "/api/v1/rewrite")
	if requests < 100 {
		t.Errorf("only %d requests were sent", requests)
	}
	got := a.must(http.StatusOK, "GET", configs+"/base", nil, as("vic")...).body
	if !strings.Contains(string(got), "one") {
		t.Errorf("the config: %s", got)
	}
}

func contentTypeOf(method string) string {
	if method == http.MethodPatch {
		return "application/merge-patch+json"
	}
	return "application/json"
}
