package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/testkit"
)

const (
	accessPath          = "/apis/rbac.authorization.k8s.io/v1"
	clusterRoles        = accessPath + "/clusterroles"
	clusterRoleBindings = accessPath + "/clusterrolebindings"
	rolesPath           = accessPath + "/namespaces/g10/roles"
	roleBindings        = accessPath + "/namespaces/g10/rolebindings"
)

// roleRef returns a reference to a role.
func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func users(names ...string) (subjects []rbacv1.Subject) {
	for _, name := range names {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	return subjects
}

// bind gives a user a ClusterRole in all namespaces.
func (a *api) bind(role, name string, header ...string) {
	a.t.Helper()
	a.bindAt(clusterRoleBindings, role, name, header)
}

// bindIn gives a user a ClusterRole in the namespace g10.
func (a *api) bindIn(role, name string, header ...string) {
	a.t.Helper()
	a.bindAt(roleBindings, role, name, header)
}

// bindAt creates a binding; both kinds have the same fields.
func (a *api) bindAt(path, role, name string, header []string) {
	a.t.Helper()
	a.awaitRoles()
	a.must(http.StatusCreated, "POST", path, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + ":" + name},
		RoleRef:    roleRef(rbac.KindClusterRole, role), Subjects: users(name),
	}, header...)
}

// awaitRoles waits until the built-in roles and bindings are stored.
func (a *api) awaitRoles() {
	a.t.Helper()
	testkit.Until(a.t, "it comes to pass", func() bool {
		key := "/" + kinds.ClusterRoleBindings + "/" + rbac.Discovery
		return a.stores[kinds.ClusterRoleBindings].Get(a.t.Context(), key, storage.GetOptions{},
			&rbacv1.ClusterRoleBinding{}) == nil
	})
}

// as returns the headers of a request as a user.
func as(name string, groups ...string) []string {
	header := []string{"Impersonate-User", name}
	for _, group := range groups {
		header = append(header, "Impersonate-Group", group)
	}
	return header
}

// TestRolesOfTwoTeams: a user with a role in one namespace does there what the role says, and nothing
// elsewhere.
func TestRolesOfTwoTeams(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.Edit, "ann")
	a.bind(rbac.View, "vic")
	other := strings.Replace(configs, "g10", "g11", 1)
	a.must(http.StatusCreated, "POST", configs, config("x", goodSource), as("ann")...)
	a.must(http.StatusCreated, "POST", other, config("x", goodSource))
	tests := []struct {
		who          string
		method, path string
		body         any
		want         int
	}{
		{"ann", "GET", configs, nil, 200},
		{"ann", "GET", configs + "/x", nil, 200},
		{"ann", "GET", other, nil, 403},
		{"ann", "GET", other + "/x", nil, 403},
		{"ann", "GET", "/api/v1/ignitionconfigs", nil, 403},
		{"ann", "POST", other, config("y", goodSource), 403},
		{"ann", "DELETE", other + "/x", nil, 403},
		{"ann", "GET", "/api/v1/namespaces", nil, 403},
		{"ann", "GET", g10, nil, 200},
		{"ann", "DELETE", g10, nil, 403},
		{"ann", "GET", rolesPath, nil, 403},
		{"ann", "GET", explainPath, nil, 403},
		{"ann", "POST", impactPath, map[string]any{}, 403},
		{"ann", "GET", "/api/v1/unknownmachines", nil, 403},
		{"vic", "GET", configs + "/x", nil, 200},
		{"vic", "GET", other + "/x", nil, 200},
		{"vic", "GET", "/api/v1/ignitionconfigs", nil, 200},
		{"vic", "GET", "/api/v1/unknownmachines", nil, 200},
		{"vic", "POST", configs, config("y", goodSource), 403},
		{"vic", "DELETE", configs + "/x", nil, 403},
		{"vic", "GET", clusterRoles, nil, 403},
		{"eve", "GET", configs, nil, 403},
		{"eve", "GET", "/api/v1", nil, 200},
		{"eve", "GET", "/openapi/v3", nil, 200},
		{"ann", "DELETE", configs + "/x", nil, 200},
	}
	for _, test := range tests {
		if got := a.do(test.method, test.path, test.body, as(test.who)...); got.code != test.want {
			t.Errorf("%s: %s %s: %d, want %d: %.300s", test.who, test.method, test.path, got.code, test.want, got.body)
		}
	}
	refused := `ignitionconfigs "x" is forbidden: User "ann" cannot get resource "ignitionconfigs" in API group "" ` +
		`in the namespace "g11"`
	if got := a.do("GET", other+"/x", nil, as("ann")...).status(t).Message; got != refused {
		t.Error(got)
	}
	// The deletion of a binding counts at once.
	a.must(http.StatusOK, "DELETE", roleBindings+"/edit:ann", nil)
	a.must(http.StatusForbidden, "GET", configs, nil, as("ann")...)
}

// TestNobodyGrantsWhatHeDoesNotHave: escalation through roles and bindings is refused, unless a role
// allows the verbs escalate and bind.
func TestNobodyGrantsWhatHeDoesNotHave(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.Admin, "ann")
	rule := func(verb, group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
	}
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	binding := func(name, kind, to string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef(kind, to), Subjects: users("bob"),
		}
	}
	may := rule("get", "", "ignitionconfigs")
	mayNot := rule("create", "", "tokens")
	a.must(http.StatusCreated, "POST", rolesPath, role("mine", may), as("ann")...)
	a.must(http.StatusCreated, "POST", rolesPath, role("theirs", mayNot))
	ssa := []string{"Content-Type", "application/apply-patch+yaml"}
	applied := func(obj any, kind string) map[string]any {
		text, _ := json.Marshal(obj)
		out := map[string]any{}
		_ = json.Unmarshal(text, &out)
		out["apiVersion"], out["kind"] = "rbac.authorization.k8s.io/v1", kind
		return out
	}
	tests := []struct {
		name, method, path string
		body               any
		header             []string
		want               int
	}{
		{"a role", "POST", rolesPath, role("more", mayNot), nil, 403},
		{"a role with all", "POST", rolesPath, role("more", rule("*", "*", "*")), nil, 403},
		{"a wider role", "PUT", rolesPath + "/mine", role("mine", may, mayNot), nil, 403},
		{"a patch", "PATCH", rolesPath + "/mine", `{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`,
			[]string{"Content-Type", "application/merge-patch+json"}, 403},
		{"server-side apply of a new role", "PATCH", rolesPath + "/more?fieldManager=x",
			applied(role("more", mayNot), "Role"), ssa, 403},
		{"server-side apply of an old role", "PATCH", rolesPath + "/mine?fieldManager=x&force=true",
			applied(role("mine", may, mayNot), "Role"), ssa, 403},
		{"a narrower role", "PUT", rolesPath + "/mine", role("mine", may), nil, 200},
		{"a binding", "POST", roleBindings, binding("more", rbac.KindRole, "theirs"), nil, 403},
		{"a binding to cluster-admin", "POST", roleBindings,
			binding("more", rbac.KindClusterRole, rbac.ClusterAdmin), nil, 403},
		{"a binding to no role", "POST", roleBindings, binding("more", rbac.KindRole, "none"), nil, 404},
		{"server-side apply of a binding", "PATCH", roleBindings + "/more?fieldManager=x",
			applied(binding("more", rbac.KindClusterRole, rbac.ClusterAdmin), "RoleBinding"), ssa, 403},
		{"a binding to what he has", "POST", roleBindings, binding("bob", rbac.KindClusterRole, rbac.View), nil, 201},
		{"a cluster role", "POST", clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, nil, 403},
		{"another namespace", "POST", strings.Replace(roleBindings, "g10", "g11", 1),
			binding("bob", rbac.KindClusterRole, rbac.View), nil, 403},
	}
	for _, test := range tests {
		got := a.do(test.method, test.path, test.body, append(as("ann"), test.header...)...)
		if got.code != test.want {
			t.Errorf("%s: %d, want %d: %.500s", test.name, got.code, test.want, got.body)
		}
	}
	message := a.do("POST", rolesPath, role("more", mayNot), as("ann")...).status(t).Message
	if want := `user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["tokens"], Verbs:["create"]}`; !strings.HasSuffix(message, want) {
		t.Error(message)
	}

	// Who may escalate and bind, may.
	a.must(http.StatusCreated, "POST", rolesPath, role("granter",
		rule("escalate", rbacv1.GroupName, "roles"), rule("bind", rbacv1.GroupName, "roles")))
	a.must(http.StatusCreated, "POST", roleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "granter"}, RoleRef: roleRef(rbac.KindRole, "granter"), Subjects: users("ann"),
	})
	a.must(http.StatusCreated, "POST", rolesPath, role("more", mayNot), as("ann")...)
	a.must(http.StatusCreated, "POST", roleBindings, binding("more", rbac.KindRole, "theirs"), as("ann")...)
	// The role of a binding stays.
	a.must(http.StatusUnprocessableEntity, "PUT", roleBindings+"/more", binding("more", rbac.KindRole, "mine"))
}

// TestImpersonationNeedsItsVerb: a user asks as another one only if a role allows that.
func TestImpersonationNeedsItsVerb(t *testing.T) {
	a := startOn(t, newStores(t), Listener{}, func(opts *Options) {
		opts.TokenFile = t.TempDir() + "/tokens.csv"
		writeTokens(t, opts.TokenFile, "token-ann,ann,1\n")
	})
	admin, ann := []string{"Authorization", "Bearer admin-token"}, []string{"Authorization", "Bearer token-ann"}
	a.bind(rbac.Edit, "ann", admin...)
	asVic := append(slices.Clone(ann), as("vic")...)
	a.must(http.StatusForbidden, "GET", "/api/v1", nil, asVic...)
	a.must(http.StatusForbidden, "GET", configs, nil, append(slices.Clone(ann), as("x", "system:masters")...)...)
	a.must(http.StatusCreated, "POST", clusterRoles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "support"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"},
			ResourceNames: []string{"vic"},
		}},
	}, admin...)
	a.bind("support", "ann", admin...)
	a.must(http.StatusOK, "GET", "/api/v1", nil, asVic...)
	a.must(http.StatusForbidden, "GET", configs, nil, asVic...) // what vic may not do
	a.must(http.StatusForbidden, "GET", "/api/v1", nil, append(slices.Clone(ann), as("bob")...)...)
}

// TestReviews: kubectl auth can-i and can-i --list answer what the roles say.
func TestReviews(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.View, "ann")
	can := func(who, verb, resource, namespace string) bool {
		t.Helper()
		var review authorizationv1.SelfSubjectAccessReview
		review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: verb, Resource: resource, Namespace: namespace,
		}
		body := a.must(http.StatusCreated, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review,
			as(who)...).body
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	for _, test := range []struct {
		who, verb, resource, namespace string
		want                           bool
	}{
		{"ann", "get", "ignitionconfigs", "g10", true},
		{"ann", "create", "ignitionconfigs", "g10", false},
		{"ann", "get", "ignitionconfigs", "g11", false},
		{"ann", "get", "ignitionconfigs", "", false},
		{"bob", "get", "ignitionconfigs", "g10", false},
	} {
		if got := can(test.who, test.verb, test.resource, test.namespace); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
	rules := func(header ...string) (resources sets.Set[string]) {
		t.Helper()
		var review authorizationv1.SelfSubjectRulesReview
		review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectRulesReview"
		review.Spec.Namespace = "g10"
		body := a.must(http.StatusCreated, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review,
			header...).body
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatal(err)
		}
		resources = sets.New[string]()
		for _, rule := range review.Status.ResourceRules {
			resources.Insert(rule.Resources...)
		}
		return resources
	}
	if got := rules(as("ann")...); !got.HasAll("ignitionconfigs", "selfsubjectreviews") || got.Has("*") {
		t.Error(got)
	}
	if got := rules(); !got.Has("*") {
		t.Errorf("an admin: %v", got)
	}
}

// TestBuiltinRoles: a start adds what is missing in the built-in roles, and removes nothing.
func TestBuiltinRoles(t *testing.T) {
	a := start(t)
	a.awaitRoles()
	edit := func(name string, change func(*rbacv1.ClusterRole)) {
		t.Helper()
		var role rbacv1.ClusterRole
		if err := json.Unmarshal(a.must(http.StatusOK, "GET", clusterRoles+"/"+name, nil).body, &role); err != nil {
			t.Fatal(err)
		}
		change(&role)
		a.must(http.StatusOK, "PUT", clusterRoles+"/"+name, &role)
	}
	own := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"x"}, Resources: []string{"own"}}
	edit(rbac.View, func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{own} })
	edit(rbac.Edit, func(r *rbacv1.ClusterRole) {
		r.Rules, r.Annotations = []rbacv1.PolicyRule{own}, map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	})
	a.must(http.StatusOK, "DELETE", clusterRoles+"/"+rbac.Admin, nil)
	if err := ensureRoles(context.Background(), a.stores); err != nil {
		t.Fatal(err)
	}
	edit(rbac.View, func(r *rbacv1.ClusterRole) {
		if fmt.Sprint(r.Rules[0]) != fmt.Sprint(own) || len(r.Rules) < 3 {
			t.Errorf("view: %v", r.Rules)
		}
	})
	edit(rbac.Edit, func(r *rbacv1.ClusterRole) {
		if len(r.Rules) != 1 {
			t.Errorf("edit: %v", r.Rules)
		}
	})
	a.must(http.StatusOK, "GET", clusterRoles+"/"+rbac.Admin, nil)
}

// TestInvalidRoles: what Kubernetes refuses is refused with the same fields.
func TestInvalidRoles(t *testing.T) {
	a := start(t)
	const view = `"roleRef":{"kind":"ClusterRole","name":"view"}`
	for _, test := range []struct{ name, path, fields, want string }{
		{"no verbs", rolesPath, `"rules":[{"apiGroups":[""],"resources":["x"]}]`, "rules[0].verbs"},
		{"no group", rolesPath, `"rules":[{"verbs":["get"],"resources":["x"]}]`, "rules[0].apiGroups"},
		{"no resource", rolesPath, `"rules":[{"verbs":["get"],"apiGroups":[""]}]`, "rules[0].resources"},
		{"a URL in a role", rolesPath, `"rules":[{"verbs":["get"],"nonResourceURLs":["/x"]}]`, "rules[0].nonResourceURLs"},
		{"a URL and a resource", clusterRoles,
			`"rules":[{"verbs":["get"],"nonResourceURLs":["/x"],"apiGroups":[""],"resources":["x"]}]`,
			"rules[0].nonResourceURLs"},
		{"aggregation", clusterRoles, `"aggregationRule":{}`, "aggregationRule"},
		{"no role", roleBindings, `"subjects":[]`, "roleRef.kind roleRef.name"},
		{"a Role in all namespaces", clusterRoleBindings, `"roleRef":{"kind":"Role","name":"x"}`, "roleRef.kind"},
		{"an unknown subject", roleBindings, view + `,"subjects":[{"kind":"Robot","name":"x"}]`, "subjects[0].kind"},
		{"no namespace", clusterRoleBindings, view + `,"subjects":[{"kind":"ServiceAccount","name":"x"}]`,
			"subjects[0].namespace"},
		{"another group", roleBindings, view + `,"subjects":[{"kind":"User","apiGroup":"x","name":"x"}]`,
			"subjects[0].apiGroup"},
	} {
		answer := a.must(http.StatusUnprocessableEntity, "POST", test.path, `{"metadata":{"name":"x"},`+test.fields+`}`)
		if got := strings.Join(answer.fields(t), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestWhoIsBelieved: the endpoints for machines believe a user who may impersonate every host. Another credential
// makes its bearer no machine.
func TestWhoIsBelieved(t *testing.T) {
	a := startOn(t, newStores(t), Listener{}, func(opts *Options) {
		opts.TokenFile = t.TempDir() + "/tokens.csv"
		writeTokens(t, opts.TokenFile, "token-vic,vic,1\ntoken-ann,ann,2\ntoken-eve,eve,3\n")
	})
	admin := []string{"Authorization", "Bearer admin-token"}
	a.bind(rbac.Admin, "vic", admin...)
	a.must(http.StatusCreated, "POST", clusterRoles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "machines"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"baremetalhosts"},
		}},
	}, admin...)
	a.bind("machines", "ann", admin...)
	a.bindIn("machines", "eve", admin...)
	for token, want := range map[string]bool{
		"admin-token": true, "token-ann": true, "token-vic": false, "token-eve": false, "wrong": false, "": false,
	} {
		r := httptest.NewRequest("GET", "/api/v1/ignition?mac=x", nil).WithContext(WithListener(t.Context(), Listener{}))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if got := a.server.Believe(r); got != want {
			t.Errorf("%q: %t", token, got)
		}
	}
}

// TestLargeRolesAreRefusedAtOnce: a small request with a product of long lists takes neither time nor memory.
func TestLargeRolesAreRefusedAtOnce(t *testing.T) {
	a := start(t)
	a.bindIn(rbac.Admin, "ann")
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("x", i))
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Rules:      []rbacv1.PolicyRule{{Verbs: many, APIGroups: many, Resources: many}},
	}
	began := time.Now()
	a.must(http.StatusForbidden, "POST", rolesPath, role, as("ann")...)
	a.must(http.StatusUnprocessableEntity, "POST", rolesPath, role)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("that took %s", took)
	}
}

// TestWarningsNameNoHostsOfOthers: a tenant whose write concerns hosts of other namespaces learns their number
// alone.
func TestWarningsNameNoHostsOfOthers(t *testing.T) {
	a := startPredicting(t)
	a.bind("writer", "ann")
	a.must(http.StatusCreated, "POST", clusterRoles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "writer"},
		Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"ignitionconfigs"},
		}},
	})
	got := impactsIn(a.must(http.StatusOK, "DELETE", configs+"/c?dryRun=All", nil, as("ann")...))
	want := "impact on 1 of 1 hosts: no config any more (of namespaces that you may not read)"
	if !slices.Equal(got, []string{want}) {
		t.Errorf("%q", got)
	}
	a.addDisk(t)
	got = impactsIn(a.must(http.StatusOK, "PUT", configs+"/c", selecting("c", wipingSource), as("ann")...))
	if text := strings.Join(got, "\n"); !strings.Contains(text, "would destroy") || strings.Contains(text, "g10/x") {
		t.Errorf("the warning of lost data: %q", got)
	}
}
