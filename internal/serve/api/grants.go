package api

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/policy"
)

// grants checks who grants what by a kind of roles or bindings, as kube-apiserver does.
type grants struct {
	policy     *policy.Policy
	authorizer authorizer.Authorizer
	resource   schema.GroupResource
}

// grant is what a role or a binding gives.
type grant struct {
	Rules    []rbacv1.PolicyRule
	Role     rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

func grantOf(obj object) (g grant) {
	switch o := obj.(type) {
	case *rbacv1.Role:
		g.Rules = o.Rules
	case *rbacv1.ClusterRole:
		g.Rules = o.Rules
	case *rbacv1.RoleBinding:
		g.Role, g.Subjects = o.RoleRef, o.Subjects
	case *rbacv1.ClusterRoleBinding:
		g.Role, g.Subjects = o.RoleRef, o.Subjects
	}
	return g
}

// check refuses a role or binding in place of old that grants what its writer does not have. He may escalate a role or
// bind one without that.
func (g grants) check(ctx context.Context, obj, old object) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return errNoUser
	}
	given, namespace := grantOf(obj), request.NamespaceValue(ctx)
	isSame := old.GetUID() != "" && apiequality.Semantic.DeepEqual(given, grantOf(old))
	if isPrivileged(who) || isSame {
		return nil
	}
	rules := given.Rules
	switch role := given.Role; {
	case role.Kind == "": // obj is a role
		if g.may(ctx, who, "escalate", g.resource.Resource, namespace, obj.GetName()) {
			return nil
		}
	case role.Kind != rbac.KindRole && role.Kind != rbac.KindClusterRole:
		return nil // the validation refuses it
	case g.may(ctx, who, "bind", rbac.ResourceOf(role), namespace, role.Name):
		return nil
	default:
		var err error
		if rules, err = g.policy.RulesOf(role, namespace); err != nil {
			return err
		}
	}
	if err := g.confirm(who, namespace, rules); err != nil {
		return apierrors.NewForbidden(g.resource, obj.GetName(), err)
	}
	return nil
}

// confirm returns an error if rules allow what a user may not do in a namespace. The roles and bindings
// can change during the comparison, which takes a while for many rules.
func (g grants) confirm(who user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	owned, unresolved := g.policy.RulesFor(who, namespace)
	return rbac.ConfirmNoEscalation(who, owned, rules, unresolved)
}

func (g grants) may(ctx context.Context, who user.Info, verb, resource, namespace, name string) bool {
	return allows(ctx, g.authorizer, authorizer.AttributesRecord{
		User: who, Verb: verb, APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: resource, Namespace: namespace,
		Name: name, ResourceRequest: true,
	})
}
