package kinds

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/domain/rbac"
)

// TestBuiltinRolesAreNested: admin has what edit has, and edit what view has; view changes nothing and reads
// nothing confidential.
func TestBuiltinRolesAreNested(t *testing.T) {
	p := &rbac.Policy{ClusterRoles: map[string]*rbacv1.ClusterRole{}}
	for _, role := range BuiltinRoles() {
		p.ClusterRoles[role.Name] = role
		p.Bind(rbac.Key{Name: role.Name}, rbac.Binding{
			RoleRef:  rbacv1.RoleRef{Kind: rbac.KindClusterRole, Name: role.Name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: role.Name}},
		})
		if errs := rbac.ValidateClusterRole(role); len(errs) > 0 {
			t.Errorf("%s: %v", role.Name, errs)
		}
	}
	confirm := func(who user.Info, role string) error {
		owned, err := p.RulesFor(who, "")
		return rbac.ConfirmNoEscalation(who, owned, p.ClusterRoles[role].Rules, err)
	}
	for _, pair := range [][2]string{{rbac.ClusterAdmin, rbac.Admin}, {rbac.Admin, rbac.Edit}, {rbac.Edit, rbac.View}} {
		who := &user.DefaultInfo{Name: pair[0]}
		if err := confirm(who, pair[1]); err != nil {
			t.Errorf("%s lacks what %s has: %v", pair[0], pair[1], err)
		}
		who.Name = pair[1]
		if confirm(who, pair[0]) == nil {
			t.Errorf("%s has what %s has", pair[1], pair[0])
		}
	}
	for _, rule := range p.ClusterRoles[rbac.View].Rules {
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("view may %s %v", verb, rule.Resources)
			}
		}
		for _, resource := range rule.Resources {
			if slices.Contains([]string{"*", "secrets", "baremetalhosts/credentials", "ignitionconfigs/source",
				"ignitionconfigs/rendered", "iscsicdroms/credentials", "boots/rendered"}, resource) {
				t.Errorf("view reads %s", resource)
			}
		}
	}
}
