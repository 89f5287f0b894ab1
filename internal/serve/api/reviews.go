package api

import (
	"context"
	"reflect"
	"slices"
	"strings"

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
	"glowplug/internal/store/policy"
)

// newAuthorizer returns the authorizer of requests: the group system:masters may do all, and others
// what their roles allow.
func newAuthorizer(roles *policy.Policy) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (
		authorizer.Decision, string, error,
	) {
		if isPrivileged(a.GetUser()) {
			return authorizer.DecisionAllow, "", nil
		}
		return roles.Authorize(ctx, a)
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

// review is the endpoint of a kind of reviews, which ask about their caller.
type review[T runtime.Object] struct {
	// answer completes a review of a user.
	answer func(ctx context.Context, who user.Info, asked T) error
}

func (review[T]) kind() reflect.Type        { return reflect.TypeFor[T]().Elem() }
func (r review[T]) New() runtime.Object     { return reflect.New(r.kind()).Interface().(T) }
func (review[T]) Destroy()                  {}
func (review[T]) NamespaceScoped() bool     { return false }
func (r review[T]) GetSingularName() string { return strings.ToLower(r.kind().Name()) }

// Create implements rest.Creater. A review is not stored.
func (r review[T]) Create(ctx context.Context, obj runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	asked, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest("not a " + r.kind().Name())
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return asked, r.answer(ctx, who, asked)
}

// reviewAccess answers kubectl auth can-i.
func (s *Server) reviewAccess(ctx context.Context, who user.Info,
	asked *authorizationv1.SelfSubjectAccessReview) error {
	attributes := authorizer.AttributesRecord{User: who}
	switch spec := &asked.Spec; {
	case (spec.ResourceAttributes == nil) == (spec.NonResourceAttributes == nil):
		return apierrors.NewBadRequest("spec: exactly one of resourceAttributes and nonResourceAttributes must be set")
	case spec.ResourceAttributes != nil:
		a := spec.ResourceAttributes
		attributes.Verb, attributes.Namespace, attributes.Name = a.Verb, a.Namespace, a.Name
		attributes.APIGroup, attributes.APIVersion = a.Group, a.Version
		attributes.Resource, attributes.Subresource, attributes.ResourceRequest = a.Resource, a.Subresource, true
	default:
		attributes.Verb, attributes.Path = spec.NonResourceAttributes.Verb, spec.NonResourceAttributes.Path
	}
	decision, reason, err := s.authorizer.Authorize(ctx, attributes)
	asked.Status = authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	if err != nil {
		asked.Status.EvaluationError = err.Error()
	}
	return nil
}

// reviewRules answers kubectl auth can-i --list.
func (s *Server) reviewRules(_ context.Context, who user.Info, asked *authorizationv1.SelfSubjectRulesReview) error {
	if asked.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	rules, err := s.opts.Policy.RulesFor(who, asked.Spec.Namespace)
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	if err != nil {
		status.Incomplete, status.EvaluationError = true, err.Error()
	}
	asked.Status = status
	return nil
}

// reviewCaller answers kubectl auth whoami.
func reviewCaller(_ context.Context, who user.Info, asked *authenticationv1.SelfSubjectReview) error {
	info := authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
	for key, values := range who.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	*asked = authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: info}}
	return nil
}
