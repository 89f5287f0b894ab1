package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/testkit"
)

var mergePatch = []string{"Content-Type", "application/merge-patch+json"}

// isIsland reports whether a namespace is an island.
func (a *api) isIsland(namespace string) bool {
	return a.stores[kinds.IgnitionConfigs].(followed).inv.View().Islands().Has(namespace)
}

// markOf returns the mark of a namespace.
func (a *api) markOf(namespace string) string {
	return a.must(http.StatusOK, "GET", "/api/v1/namespaces/"+namespace, nil).object(a.t).
		GetAnnotations()[v1.AnnotationIsland]
}

func bindingOf(name, role, who string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef(rbac.KindClusterRole, role), Subjects: users(who),
	}
}

// TestIslandsOutlastTheirBindings: a tenant who deletes his RoleBinding does not end the island, which an
// administrator of all namespaces ends.
func TestIslandsOutlastTheirBindings(t *testing.T) {
	a := start(t)
	a.awaitRoles()
	for name, step := range map[string]func(){
		"a dry run": func() {
			a.must(http.StatusCreated, "POST", roleBindings+"?dryRun=All", bindingOf("x", rbac.Admin, "ann"))
		},
		"an invalid binding": func() {
			a.must(http.StatusUnprocessableEntity, "POST", roleBindings, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: roleRef("Robot", "x"),
			})
		},
		"a viewer": func() { a.must(http.StatusCreated, "POST", roleBindings, bindingOf("vic", rbac.View, "vic")) },
	} {
		if step(); a.isIsland("g10") {
			t.Errorf("%s makes an island", name)
		}
	}
	a.bindIn(rbac.Admin, "ann")
	if !a.isIsland("g10") || a.markOf("g10") != "true" || a.isIsland("g11") {
		t.Errorf("g10 is an island: %t, marked %q; g11: %t", a.isIsland("g10"), a.markOf("g10"), a.isIsland("g11"))
	}
	a.must(http.StatusForbidden, "PATCH", "/api/v1/namespaces/g10", `{"metadata":{"annotations":{"glowplug.dev/island":`+
		`"false"}}}`, append(as("ann"), mergePatch...)...)
	a.must(http.StatusOK, "DELETE", roleBindings, nil, as("ann")...)
	testkit.Until(t, "it comes to pass", func() bool { return a.do("GET", configs, nil, as("ann")...).code == http.StatusForbidden })
	if !a.isIsland("g10") {
		t.Error("a tenant has ended the island")
	}
	const off = `{"metadata":{"annotations":{"glowplug.dev/island":null}}}`
	a.must(http.StatusOK, "PATCH", "/api/v1/namespaces/g10", off, mergePatch...)
	testkit.Until(t, "it comes to pass", func() bool { return !a.isIsland("g10") })
	// A mark that is missing, as after a crash, is made before the binding is deleted.
	a.bindIn(rbac.Edit, "ann")
	a.must(http.StatusOK, "PATCH", "/api/v1/namespaces/g10", off, mergePatch...)
	if !a.isIsland("g10") || a.markOf("g10") != "" {
		t.Error("the binding makes no island without the mark")
	}
	a.must(http.StatusOK, "DELETE", roleBindings, nil)
	if !a.isIsland("g10") || a.markOf("g10") != "true" {
		t.Errorf("the deletion left the mark %q", a.markOf("g10"))
	}
	// A Role that becomes one of writers makes an island as well, by server-side apply too.
	const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},"rules":[{"apiGroups":` +
		`[""],"resources":["secrets"],"verbs":["VERB"]}]}`
	roles := strings.Replace(strings.Replace(roleBindings, "rolebindings", "roles", 1), "g10", "g11", 1)
	apply := []string{"Content-Type", "application/apply-patch+yaml"}
	a.must(http.StatusCreated, "PATCH", roles+"/r?fieldManager=x", strings.Replace(role, "VERB", "get", 1), apply...)
	binding := bindingOf("ann", "r", "ann")
	binding.RoleRef = roleRef(rbac.KindRole, "r")
	a.must(http.StatusCreated, "POST", strings.Replace(roleBindings, "g10", "g11", 1), binding)
	if a.isIsland("g11") {
		t.Error("a reader makes an island")
	}
	a.must(http.StatusOK, "PATCH", roles+"/r?fieldManager=x", strings.Replace(role, "VERB", "create", 1), apply...)
	if !a.isIsland("g11") || a.markOf("g11") != "true" {
		t.Error("a role that lets write makes no island")
	}
}

// TestIslandsWarn: the write that makes an island says which hosts lose which config and how to undo it, and the one
// that ends it says what it changes.
func TestIslandsWarn(t *testing.T) {
	a := startPredicting(t)
	other := config("for-all", goodSource)
	other.Spec.Selector.Default = true
	a.must(http.StatusCreated, "POST", strings.Replace(configs, "g10", "g11", 1), other)
	a.must(http.StatusOK, "DELETE", configs+"/c", nil) // x receives the config of the other namespace
	a.awaitRoles()
	expect := func(what string, got answer, impact string, parts ...string) {
		t.Helper()
		if impacts := impactsIn(got); impact == "" && len(impacts) > 0 || impact != "" && !slices.Equal(impacts, []string{impact}) {
			t.Errorf("%s: %q, want %q", what, impacts, impact)
		}
		text := strings.Join(got.warnings, "\n")
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q does not have %q", what, got.warnings, part)
			}
		}
		if len(parts) == 0 && len(got.warnings) > 0 {
			t.Errorf("%s: %q", what, got.warnings)
		}
	}
	const (
		lost  = "impact on 1 of 1 hosts: no config any more (g10/x)"
		begin = "the namespace g10 is an island from now on, since "
		end   = "the namespace g10 is no island any more"
		undo  = "kubectl annotate namespace g10 --overwrite glowplug.dev/island-"
		had   = "g10/x had g11/for-all and gets none"
		gets  = "g10/x had none and gets g11/for-all"
	)
	namespace := "/api/v1/namespaces/g10"
	patch := func(value string) answer {
		return a.must(http.StatusOK, "PATCH", namespace, `{"metadata":{"annotations":{"glowplug.dev/island":`+value+`}}}`,
			mergePatch...)
	}
	expect("a viewer", a.must(http.StatusCreated, "POST", roleBindings, bindingOf("vic", rbac.View, "vic")), "")
	for _, path := range []string{roleBindings + "?dryRun=All", roleBindings} {
		expect(path, a.must(http.StatusCreated, "POST", path, bindingOf("ann", rbac.Edit, "ann")), lost, begin,
			"the RoleBinding g10/ann lets User ann write in it", undo, had, "kubectl delete rolebinding ann -n g10")
	}
	expect("another one", a.must(http.StatusCreated, "POST", roleBindings, bindingOf("bob", rbac.Edit, "bob")), "")
	expect("the dry run of a deletion", a.must(http.StatusOK, "DELETE", roleBindings+"?dryRun=All", nil), "")
	expect("a deletion", a.must(http.StatusOK, "DELETE", roleBindings, nil), "")
	ends := patch("null")
	if impacts := impactsIn(ends); len(impacts) != 1 || !strings.Contains(impacts[0], "(g10/x)") {
		t.Errorf("the removal of the mark: %q", impacts)
	}
	expect("the removal of the mark", answer{warnings: slices.DeleteFunc(ends.warnings, func(s string) bool {
		return strings.HasPrefix(s, "impact")
	})}, "", end, gets, "glowplug.dev/island=true")
	expect("the mark", patch(`"true"`), lost, begin, "its annotation", undo, had)
}
