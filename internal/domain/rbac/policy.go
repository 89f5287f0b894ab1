package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The kinds that a roleRef may name.
const (
	KindRole        = "Role"
	KindClusterRole = "ClusterRole"
)

// Key names an object of a namespace.
type Key struct{ Namespace, Name string }

// Policy has the roles and bindings of a server. It is not safe for use during a change.
type Policy struct {
	Roles        map[Key]*rbacv1.Role
	ClusterRoles map[string]*rbacv1.ClusterRole
	bindings     map[string]*bindings // by namespace; "" has those of all namespaces
}

// Authorize reports whether a request is allowed. The reason is that of kube-apiserver: the binding
// that allows the request, or the roles that bindings of the user name and that do not exist.
func (p *Policy) Authorize(a authorizer.Attributes) (allowed bool, reason string) {
	var missing []error
	for g := range p.grants(a.GetUser(), a.GetNamespace()) {
		rules, err := p.RulesOf(g.ref, g.namespace)
		switch {
		case err != nil:
			missing = append(missing, err)
		case Allows(rules, a):
			return true, "RBAC: allowed by " + g.String()
		}
	}
	if len(missing) > 0 {
		return false, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(missing))
	}
	return false, ""
}

// RulesFor returns the rules of a user in a namespace, or of all namespaces if it is "". The error
// names the roles that bindings of the user name and that do not exist; the rules are complete apart
// from them.
func (p *Policy) RulesFor(who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var missing []error
	var granted []grant
	for g := range p.grants(who, namespace) {
		granted = append(granted, g)
	}
	slices.SortFunc(granted, func(a, b grant) int { return strings.Compare(a.String(), b.String()) })
	for _, g := range granted {
		of, err := p.RulesOf(g.ref, g.namespace)
		if err != nil {
			missing = append(missing, err)
		}
		rules = append(rules, of...)
	}
	return rules, errors.Join(missing...)
}

// RulesOf returns the rules of a role that a binding in a namespace names.
func (p *Policy) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case KindRole:
		if role := p.Roles[Key{namespace, ref.Name}]; role != nil {
			return role.Rules, nil
		}
	case KindClusterRole:
		if role := p.ClusterRoles[ref.Name]; role != nil {
			return role.Rules, nil
		}
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: ResourceOf(ref)}, ref.Name)
}

// ResourceOf returns the resource of the role that a roleRef names: roles or clusterroles.
func ResourceOf(ref rbacv1.RoleRef) string { return strings.ToLower(ref.Kind) + "s" }
