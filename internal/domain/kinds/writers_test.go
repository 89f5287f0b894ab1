package kinds

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"glowplug/internal/domain/rbac"
)

// TestWhoWritesInANamespaceAlone: a tenant is who may write hosts, configs, images or Secrets in a namespace, or
// the Namespace itself, and not the same in all of them.
func TestWhoWritesInANamespaceAlone(t *testing.T) {
	roles := map[string]rbac.Writes{}
	for _, role := range BuiltinRoles() {
		roles[role.Name] = rbac.WritesOf(role.Rules)
	}
	one := func(verbs, group, resource string, names ...string) rbac.Writes {
		return rbac.WritesOf([]rbacv1.PolicyRule{{
			Verbs: []string{"get", verbs}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names,
		}})
	}
	ann := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "ann"}
	robot := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot"}
	group := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name} }
	for _, c := range []struct {
		name       string
		writes     rbac.Writes
		subject    rbacv1.Subject
		everywhere map[rbacv1.Subject]rbac.Writes
		want       string
	}{
		{"edit", roles[rbac.Edit], ann, nil, "User ann"},
		{"admin", roles[rbac.Admin], group("team"), nil, "Group team"},
		{"cluster-admin in a namespace", roles[rbac.ClusterAdmin], robot, nil, "ServiceAccount b/robot"},
		{"view", roles[rbac.View], ann, nil, ""},
		{"no role", rbac.Writes{}, ann, nil, ""},
		{"one verb", one("patch", "", "secrets"), ann, nil, "User ann"},
		{"one object", one("update", "*", "ignitionconfigs", "x"), ann, nil, "User ann"},
		{"uploads", one("update", "", "iscsicdroms/iso"), ann, nil, "User ann"},
		{"reports of hardware", one("update", "", "baremetalhosts/status"), ann, nil, ""},
		{"ConfigMaps", one("*", "", "configmaps"), ann, nil, ""},
		{"the Namespace", one("patch", "", "namespaces"), ann, nil, "User ann"},
		{"a reader of the Namespace", one("list", "", "namespaces"), ann, nil, ""},
		{"all Namespaces", one("patch", "", "namespaces"), ann,
			map[rbacv1.Subject]rbac.Writes{ann: one("*", "", "namespaces")}, ""},
		{"the Namespace, and the rest everywhere", one("*", "*", "*"), ann,
			map[rbacv1.Subject]rbac.Writes{ann: roles[rbac.Edit]}, "User ann"},
		{"another API group", one("*", "apps", "secrets"), ann, nil, ""},
		{"masters", roles[rbac.Edit], group("system:masters"), nil, ""},
		{"an administrator", roles[rbac.Edit], ann, map[rbacv1.Subject]rbac.Writes{ann: roles[rbac.ClusterAdmin]}, ""},
		{"the same everywhere", roles[rbac.Admin], ann, map[rbacv1.Subject]rbac.Writes{ann: roles[rbac.Edit]}, ""},
		{"less everywhere", roles[rbac.Edit], ann, map[rbacv1.Subject]rbac.Writes{ann: one("*", "", "secrets")}, "User ann"},
		{"some of it everywhere", one("*", "", "secrets"), ann,
			map[rbacv1.Subject]rbac.Writes{ann: one("*", "", "secrets", "x")}, "User ann"},
		{"another one everywhere", roles[rbac.Edit], ann, map[rbacv1.Subject]rbac.Writes{robot: roles[rbac.Edit]}, "User ann"},
		{"all accounts", roles[rbac.Edit], robot,
			map[rbacv1.Subject]rbac.Writes{group("system:serviceaccounts"): roles[rbac.Edit]}, ""},
		{"all users", roles[rbac.Edit], ann, map[rbacv1.Subject]rbac.Writes{group("system:authenticated"): roles[rbac.Edit]}, ""},
		{"nobody", roles[rbac.Edit], group("system:unauthenticated"),
			map[rbacv1.Subject]rbac.Writes{group("system:authenticated"): roles[rbac.Edit]}, "Group system:unauthenticated"},
	} {
		everywhere := rbac.Everywhere{}
		for s, writes := range c.everywhere {
			s.Namespace = "b"
			everywhere.Add(rbac.NewGrant(rbacv1.RoleRef{}, []rbacv1.Subject{s}, ""), writes)
		}
		if got := rbac.NewGrant(rbacv1.RoleRef{}, []rbacv1.Subject{c.subject}, "b").Tenant(c.writes, everywhere); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
