package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/testkit"
)

// TestOnlyAdministratorsChangeIslandMarks: who may write a Namespace by a RoleBinding in it, or by its name alone,
// changes no mark of islands, in whichever way he writes. He may change what else is in it.
func TestOnlyAdministratorsChangeIslandMarks(t *testing.T) {
	a := start(t)
	const one = "patch-g10"
	a.must(http.StatusCreated, "POST", clusterRoles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: one}, Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get", "patch", "update"}, APIGroups: []string{""}, Resources: []string{"namespaces"},
			ResourceNames: []string{"g10"},
		}},
	})
	a.bindIn(rbac.ClusterAdmin, "ann")
	a.bind(one, "nat")
	a.bind(rbac.ClusterAdmin, "root")
	testkit.Until(t, "it comes to pass", func() bool { return a.markOf("g10") == "true" })
	object := func(annotations string) string {
		return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"g10","annotations":{` + annotations + `}}}`
	}
	// full is what a client writes that has read the Namespace.
	full := func(annotations string) string { return object(`"glowplug.dev/island":"true",` + annotations) }
	apply := []string{"Content-Type", "application/apply-patch+yaml"}
	const manager = "?fieldManager=kubectl&force=true"
	send := func(method, query string, body func(string) string, more ...string) func(string, []string) answer {
		return func(annotations string, header []string) answer {
			return a.do(method, g10+query, body(annotations), append(header, more...)...)
		}
	}
	ways := map[string]func(annotations string, header []string) answer{
		"a patch":            send("PATCH", "", object, mergePatch...),
		"an apply":           send("PATCH", manager, object, apply...),
		"an update":          send("PUT", "", full),
		"a dry run":          send("PUT", "?dryRun=All", full),
		"a patch's dry run":  send("PATCH", "?dryRun=All", object, mergePatch...),
		"an apply's dry run": send("PATCH", manager+"&dryRun=All", object, apply...),
	}
	marks := map[string]string{
		v1.AnnotationIsland: `"glowplug.dev/island":"false"`, v1.AnnotationIsolated: `"glowplug.dev/isolated":"true"`,
	}
	const other = `"glowplug.dev/provisioning-max-fetches":"3","team":"a"`
	for what, write := range ways {
		for _, who := range []string{"ann", "nat"} {
			for key, mark := range marks {
				got := write(mark, as(who))
				if got.code != http.StatusForbidden || !strings.Contains(string(got.body), "the annotation "+key) ||
					!strings.Contains(string(got.body), "an administrator of all namespaces has to change it") {
					t.Errorf("%s of %s by %s: %d %s", what, key, who, got.code, got.body)
				}
			}
			if got := write(other, as(who)); got.code != http.StatusOK {
				t.Errorf("%s of other annotations by %s: %d %s", what, who, got.code, got.body)
			}
		}
	}
	// An update without the mark removes it, and so does a patch with null.
	for name, got := range map[string]answer{
		"an update without the mark": a.do("PUT", g10, object(other), as("ann")...),
		"a patch with null": a.do("PATCH", g10, object(`"glowplug.dev/island":null`),
			append(as("ann"), mergePatch...)...),
		"a JSON patch": a.do("PATCH", g10, `[{"op":"remove","path":"/metadata/annotations/glowplug.dev~1island"}]`,
			append(as("ann"), "Content-Type", "application/json-patch+json")...),
		"a creation": a.do("POST", "/api/v1/namespaces", object(marks[v1.AnnotationIsland]), as("ann")...),
		"a creation of another one": a.do("PATCH", "/api/v1/namespaces/g12"+manager,
			strings.Replace(object(""), "g10", "g12", 1), append(as("ann"), apply...)...),
	} {
		if got.code != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
	}
	if !a.isIsland("g10") || a.markOf("g10") != "true" {
		t.Errorf("g10 is an island: %t, marked %q", a.isIsland("g10"), a.markOf("g10"))
	}
	for what, write := range ways {
		for name, header := range map[string][]string{"an administrator": as("root"), "the local administrator": nil} {
			if got := write(marks[v1.AnnotationIsolated], header); got.code != http.StatusOK {
				t.Errorf("%s by %s: %d %s", what, name, got.code, got.body)
			}
			a.must(http.StatusOK, "PATCH", g10, object(`"glowplug.dev/isolated":null`), mergePatch...)
		}
	}
	a.must(http.StatusOK, "PATCH", g10, object(marks[v1.AnnotationIsland]), append(as("root"), mergePatch...)...)
	testkit.Until(t, "it comes to pass", func() bool { return !a.isIsland("g10") })
}

// TestDeletedNamespacesStayIslands: a tenant who deletes his namespace does not end the island as long as an object
// is left in it, and none of his rights outlasts it.
func TestDeletedNamespacesStayIslands(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.ClusterAdmin, "ann")
	const patch = `{"metadata":{"finalizers":%s}}`
	a.must(http.StatusCreated, "POST", configs, config("c", goodSource), as("ann")...)
	a.must(http.StatusOK, "PATCH", configs+"/c", fmt.Sprintf(patch, `["example.com/hold"]`),
		append(as("ann"), mergePatch...)...)
	// The mark is missing, as after a crash.
	a.must(http.StatusOK, "PATCH", g10, `{"metadata":{"annotations":{"glowplug.dev/island":null}}}`, mergePatch...)
	a.must(http.StatusOK, "DELETE", g10, nil, as("ann")...)
	awaitGone(t, a, roleBindings+"/"+rbac.ClusterAdmin+":ann")
	if !a.isIsland("g10") || a.markOf("g10") != "true" {
		t.Errorf("the config is left, and g10 is an island: %t, marked %q", a.isIsland("g10"), a.markOf("g10"))
	}
	a.must(http.StatusOK, "PATCH", configs+"/c", fmt.Sprintf(patch, "null"), mergePatch...)
	awaitGone(t, a, g10)
	a.must(http.StatusCreated, "POST", configs, config("c", goodSource))
	a.must(http.StatusForbidden, "GET", configs, nil, as("ann")...)
	a.bindIn(rbac.ClusterAdmin, "ann")
	testkit.Until(t, "it comes to pass", func() bool { return a.isIsland("g10") && a.markOf("g10") == "true" })
}
