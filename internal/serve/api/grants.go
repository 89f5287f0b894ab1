package api

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
)

// Policy has the roles and bindings (store/policy).
type Policy interface {
	Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error)
	RulesFor(who user.Info, namespace string) ([]rbacv1.PolicyRule, error)
	RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
}

// grantREST is the endpoint of a kind of roles or bindings. It refuses writes that grant what the
// writer does not have.
type grantREST[T object] struct {
	*endpoint
	// check returns why a user may not put obj in place of old, whose zero value is no object.
	check func(ctx context.Context, who user.Info, obj, old T) error
	// mark marks the islands that the stored roles and bindings make.
	mark func(ctx context.Context) error
}

func newGrantREST[T object](e *endpoint, check func(ctx context.Context, who user.Info, obj, old T) error,
	mark func(ctx context.Context) error) *grantREST[T] {
	e.finished = append(e.finished, func(ctx context.Context, a *attempt) {
		if a.dryRun {
			return
		}
		if err := mark(ctx); err != nil { // the binding counts without the mark, which the next write makes
			warning.AddWarning(ctx, "", err.Error())
		}
	})
	return &grantREST[T]{e, check, mark}
}

// Create implements rest.Creater.
func (r *grantREST[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	var none T
	if err := r.confirm(ctx, obj.(T), none); err != nil {
		return nil, err
	}
	return r.endpoint.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater, and creates an object for server-side apply.
func (r *grantREST[T]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if err := r.prepare(ctx, options.DryRun); err != nil {
		return nil, false, err
	}
	info = rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
		stored, _ := old.(T)
		if stored.GetUID() == "" { // the library passes an empty object if there is none
			var none T
			stored = none
		}
		return obj, r.confirm(ctx, obj.(T), stored)
	})
	return r.endpoint.Update(ctx, name, info, create, update, forceCreate, options)
}

// Delete implements rest.GracefulDeleter.
func (r *grantREST[T]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := r.prepare(ctx, options.DryRun); err != nil {
		return nil, false, err
	}
	return r.endpoint.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *grantREST[T]) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	if err := r.prepare(ctx, options.DryRun); err != nil {
		return nil, err
	}
	return r.endpoint.DeleteCollection(ctx, validate, options, list)
}

// prepare marks the islands before a write that may take away what makes them islands.
func (r *grantREST[T]) prepare(ctx context.Context, dryRun []string) error {
	if dryrun.IsDryRun(dryRun) {
		return nil
	}
	return r.mark(ctx)
}

func (r *grantREST[T]) confirm(ctx context.Context, obj, old T) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return errNoUser
	}
	if isPrivileged(who) {
		return nil
	}
	return r.check(ctx, who, obj, old)
}

// grants checks who grants what, as kube-apiserver does.
type grants struct {
	policy     Policy
	authorizer authorizer.Authorizer
}

func (g grants) checkRole(ctx context.Context, who user.Info, role, old *rbacv1.Role) error {
	if old != nil && apiequality.Semantic.DeepEqual(role.Rules, old.Rules) {
		return nil
	}
	return g.checkRules(ctx, who, kinds.Roles, request.NamespaceValue(ctx), role.Name, role.Rules)
}

func (g grants) checkClusterRole(ctx context.Context, who user.Info, role, old *rbacv1.ClusterRole) error {
	if old != nil && apiequality.Semantic.DeepEqual(role.Rules, old.Rules) {
		return nil
	}
	return g.checkRules(ctx, who, kinds.ClusterRoles, "", role.Name, role.Rules)
}

// checkRules returns an error unless a user has all rules of a role, or may escalate it.
func (g grants) checkRules(ctx context.Context, who user.Info, resource, namespace, name string,
	rules []rbacv1.PolicyRule) error {
	if g.may(ctx, who, "escalate", resource, namespace, name) {
		return nil
	}
	if err := g.confirm(who, namespace, rules); err != nil {
		return apierrors.NewForbidden(kinds.Of(resource).GroupResource(), name, err)
	}
	return nil
}

func (g grants) checkBinding(ctx context.Context, who user.Info, b, old *rbacv1.RoleBinding) error {
	if old != nil && old.RoleRef == b.RoleRef && apiequality.Semantic.DeepEqual(b.Subjects, old.Subjects) {
		return nil
	}
	return g.checkRoleRef(ctx, who, kinds.RoleBindings, request.NamespaceValue(ctx), b.Name, b.RoleRef)
}

func (g grants) checkClusterBinding(ctx context.Context, who user.Info, b, old *rbacv1.ClusterRoleBinding) error {
	if old != nil && old.RoleRef == b.RoleRef && apiequality.Semantic.DeepEqual(b.Subjects, old.Subjects) {
		return nil
	}
	return g.checkRoleRef(ctx, who, kinds.ClusterRoleBindings, "", b.Name, b.RoleRef)
}

// checkRoleRef returns an error unless a user may bind a role, or has all its rules.
func (g grants) checkRoleRef(ctx context.Context, who user.Info, resource, namespace, name string,
	ref rbacv1.RoleRef) error {
	if ref.Kind != rbac.KindRole && ref.Kind != rbac.KindClusterRole {
		return nil // the validation refuses it
	}
	if g.may(ctx, who, "bind", rbac.ResourceOf(ref), namespace, ref.Name) {
		return nil
	}
	rules, err := g.policy.RulesOf(ref, namespace)
	if err != nil {
		return err
	}
	if err := g.confirm(who, namespace, rules); err != nil {
		return apierrors.NewForbidden(kinds.Of(resource).GroupResource(), name, err)
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
