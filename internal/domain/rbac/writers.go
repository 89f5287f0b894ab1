package rbac

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Kinds is a set of the kinds that decide what machines receive and boot.
type Kinds uint8

const allKinds Kinds = 1<<5 - 1

// kindOf has the kind that a resource belongs to. The annotations of a Namespace have the boot script of its hosts.
var kindOf = map[string]Kinds{
	"baremetalhosts": 1, "ignitionconfigs": 2, "iscsicdroms": 4, "iscsicdroms/iso": 4, "*/iso": 4, "secrets": 8,
	"namespaces": 16, rbacv1.ResourceAll: allKinds,
}

// Writes is what a role lets write of the Kinds: some objects of a kind, or all of them.
type Writes struct{ Some, All Kinds }

// WritesOf returns what rules let write.
func WritesOf(rules []rbacv1.PolicyRule) (w Writes) {
	for i := range rules {
		rule := &rules[i]
		isAny := slices.Contains(rule.Verbs, rbacv1.VerbAll)
		if !has(rule.APIGroups, rbacv1.APIGroupAll, "") ||
			!isAny && !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return slices.Contains(Writing, verb) }) {
			continue
		}
		isAll := len(rule.ResourceNames) == 0 && (isAny || !slices.ContainsFunc(Writing, func(verb string) bool {
			return !slices.Contains(rule.Verbs, verb)
		}))
		for _, resource := range rule.Resources {
			kind := kindOf[resource]
			w.Some |= kind
			if isAll && !strings.Contains(resource, "/") {
				w.All |= kind
			}
		}
	}
	return w
}

// ReadWrites is WritesOf for a stored Role or ClusterRole.
func ReadWrites(value []byte) (Writes, error) {
	var role rbacv1.Role // a ClusterRole has its rules in the same place
	err := json.Unmarshal(value, &role)
	return WritesOf(role.Rules), err
}

// Grant is a binding: its role and its subjects.
type Grant struct {
	// Role is the name of a Role in the namespace of the binding or, if it has no namespace, of a ClusterRole.
	Role     Key
	subjects []subject
}

// NewGrant returns the grant of a binding in a namespace, or of a ClusterRoleBinding where that is "".
func NewGrant(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespace string) Grant {
	g := Grant{Role: Key{Name: ref.Name}}
	if ref.Kind == KindRole {
		g.Role.Namespace = namespace
	}
	for _, s := range subjects {
		if of, ok := subjectOf(s, namespace); ok {
			g.subjects = append(g.subjects, of)
		}
	}
	return g
}

// ReadGrant is NewGrant for a stored RoleBinding or ClusterRoleBinding.
func ReadGrant(value []byte, namespace string) (Grant, error) {
	var b rbacv1.RoleBinding // a ClusterRoleBinding has the same members
	err := json.Unmarshal(value, &b)
	return NewGrant(b.RoleRef, b.Subjects, namespace), err
}

// Everywhere has the kinds of which subjects may write all objects in all namespaces.
type Everywhere map[subject]Kinds

// Add adds a ClusterRoleBinding to a role with these writes.
func (e Everywhere) Add(g Grant, w Writes) {
	for _, s := range g.subjects {
		e[s] |= w.All
	}
}

// of returns the kinds that a subject may write everywhere, by itself and by the groups that it is in for sure.
func (e Everywhere) of(s subject) Kinds {
	if s == (subject{isGroup: true, name: user.SystemPrivilegedGroup}) {
		return allKinds
	}
	kinds := e[s]
	groups := []string{user.AllAuthenticated}
	switch namespace, _, err := serviceaccount.SplitUsername(s.name); {
	case s.name == user.Anonymous || s.isGroup && s.name == user.AllUnauthenticated:
		groups = nil
	case err == nil && !s.isGroup:
		groups = append(groups, serviceaccount.AllServiceAccountsGroup, serviceaccount.MakeNamespaceGroupName(namespace))
	}
	for _, name := range groups {
		kinds |= e[subject{isGroup: true, name: name}]
	}
	return kinds
}

// Tenant returns who may write some of the kinds with a grant, and not the same everywhere; "": nobody.
func (g Grant) Tenant(w Writes, everywhere Everywhere) string {
	for _, s := range g.subjects {
		if w.Some&^everywhere.of(s) != 0 {
			return s.String()
		}
	}
	return ""
}

func (s subject) String() string {
	if s.isGroup {
		return "Group " + s.name
	}
	if namespace, name, err := serviceaccount.SplitUsername(s.name); err == nil {
		return fmt.Sprintf("ServiceAccount %s/%s", namespace, name)
	}
	return "User " + s.name
}
