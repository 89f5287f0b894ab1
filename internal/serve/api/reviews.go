package api

import (
	"context"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// newAuthorizer returns the authorizer of requests: the group system:masters may do all, and others
// what their roles allow.
func newAuthorizer(policy Policy) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (
		authorizer.Decision, string, error,
	) {
		if isPrivileged(a.GetUser()) {
			return authorizer.DecisionAllow, "", nil
		}
		return policy.Authorize(ctx, a)
	})
}

// resultAuthorizer also lets those who may get a config ask for its results, rendered and plan: their
// endpoints refuse those of a confidential config.
func resultAuthorizer(all authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (
		authorizer.Decision, string, error,
	) {
		decision, reason, err := all.Authorize(ctx, a)
		isResult := a.GetSubresource() == subresourceRendered || a.GetSubresource() == "plan"
		if decision == authorizer.DecisionAllow || !isResult || a.GetVerb() != "get" || a.GetAPIGroup() != v1.GroupName ||
			a.GetResource() != kinds.IgnitionConfigs {
			return decision, reason, err
		}
		ofConfig := attributesOf(a.GetUser(), a.GetVerb(), a.GetResource(), "", a.GetNamespace(), a.GetName())
		if allows(ctx, all, ofConfig) {
			return authorizer.DecisionAllow, "", nil
		}
		return decision, reason, err
	})
}

// isPrivileged reports whether a user may do all, whatever the roles are.
func isPrivileged(who user.Info) bool {
	return slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// isReview reports whether a request asks about its caller.
func isReview(info *request.RequestInfo) bool {
	return info.APIGroup == authorizationv1.GroupName || info.APIGroup == authenticationv1.GroupName
}

// accessReview answers kubectl auth can-i.
type accessReview struct{ authorizer authorizer.Authorizer }

func (*accessReview) New() runtime.Object     { return &authorizationv1.SelfSubjectAccessReview{} }
func (*accessReview) Destroy()                {}
func (*accessReview) NamespaceScoped() bool   { return false }
func (*accessReview) GetSingularName() string { return "selfsubjectaccessreview" }

func (r *accessReview) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationv1.SelfSubjectAccessReview)
	if !ok {
		return nil, apierrors.NewBadRequest("not a SelfSubjectAccessReview")
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if validation != nil {
		if err := validation(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	attributes := authorizer.AttributesRecord{User: who}
	switch spec := &review.Spec; {
	case (spec.ResourceAttributes == nil) == (spec.NonResourceAttributes == nil):
		return nil, apierrors.NewBadRequest("spec: exactly one of resourceAttributes and nonResourceAttributes must be set")
	case spec.ResourceAttributes != nil:
		a := spec.ResourceAttributes
		attributes.Verb, attributes.Namespace, attributes.Name = a.Verb, a.Namespace, a.Name
		attributes.APIGroup, attributes.APIVersion = a.Group, a.Version
		attributes.Resource, attributes.Subresource, attributes.ResourceRequest = a.Resource, a.Subresource, true
	default:
		attributes.Verb, attributes.Path = spec.NonResourceAttributes.Verb, spec.NonResourceAttributes.Path
	}
	decision, reason, err := r.authorizer.Authorize(ctx, attributes)
	review.Status = authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	if err != nil {
		review.Status.EvaluationError = err.Error()
	}
	return review, nil
}

// rulesReview answers kubectl auth can-i --list.
type rulesReview struct{ policy Policy }

func (*rulesReview) New() runtime.Object     { return &authorizationv1.SelfSubjectRulesReview{} }
func (*rulesReview) Destroy()                {}
func (*rulesReview) NamespaceScoped() bool   { return false }
func (*rulesReview) GetSingularName() string { return "selfsubjectrulesreview" }

func (r *rulesReview) Create(ctx context.Context, obj runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationv1.SelfSubjectRulesReview)
	if !ok {
		return nil, apierrors.NewBadRequest("not a SelfSubjectRulesReview")
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	namespace := review.Spec.Namespace
	if namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	rules, err := r.policy.RulesFor(who, namespace)
	review.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			review.Status.ResourceRules = append(review.Status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			review.Status.NonResourceRules = append(review.Status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	if err != nil {
		review.Status.Incomplete, review.Status.EvaluationError = true, err.Error()
	}
	return review, nil
}

// callerReview answers kubectl auth whoami.
type callerReview struct{}

func (*callerReview) New() runtime.Object     { return &authenticationv1.SelfSubjectReview{} }
func (*callerReview) Destroy()                {}
func (*callerReview) NamespaceScoped() bool   { return false }
func (*callerReview) GetSingularName() string { return "selfsubjectreview" }

func (*callerReview) Create(ctx context.Context, _ runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	review := &authenticationv1.SelfSubjectReview{}
	review.Status.UserInfo = authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
	for key, values := range who.GetExtra() {
		if review.Status.UserInfo.Extra == nil {
			review.Status.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
		}
		review.Status.UserInfo.Extra[key] = values
	}
	return review, nil
}
