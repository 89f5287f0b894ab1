// Package rbac evaluates the roles and bindings of rbac.authorization.k8s.io/v1 as kube-apiserver
// does: which requests a user may send, which rules apply to a user, and which permissions a user
// may grant to others.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/ and kube-apiserver's
// plugin/pkg/auth/authorizer/rbac and pkg/apis/rbac/v1/evaluation_helpers.go.
package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Allows reports whether one of the rules allows a request.
func Allows(rules []rbacv1.PolicyRule, a authorizer.Attributes) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return ruleAllows(&r, a) })
}

func ruleAllows(r *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !has(r.Verbs, rbacv1.VerbAll, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return matchesURL(url, a.GetPath()) })
	}
	return has(r.APIGroups, rbacv1.APIGroupAll, a.GetAPIGroup()) &&
		slices.ContainsFunc(r.Resources, func(resource string) bool {
			return matchesResource(resource, a.GetResource(), a.GetSubresource())
		}) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.GetName()))
}

// has reports whether a list has a value, or the one that stands for all.
func has(values []string, all, value string) bool {
	return slices.Contains(values, all) || slices.Contains(values, value)
}

// matchesResource compares a resource of a rule, which may be *, RESOURCE, RESOURCE/SUBRESOURCE or
// */SUBRESOURCE, with that of a request. A rule for a resource says nothing of its subresources.
func matchesResource(rule, resource, subresource string) bool {
	switch {
	case rule == rbacv1.ResourceAll:
		return true
	case subresource == "":
		return rule == resource
	}
	return rule == resource+"/"+subresource || rule == "*/"+subresource
}

// matchesURL compares a path of a rule, which may end in *, with that of a request.
func matchesURL(rule, path string) bool {
	if rule == rbacv1.NonResourceAll || rule == path {
		return true
	}
	return strings.HasSuffix(rule, "*") && strings.HasPrefix(path, strings.TrimRight(rule, "*"))
}
