package api

import (
	"context"
	"errors"
	"path"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
)

// redacted stands for a value that the reader may not read. Written back, it keeps the stored value.
const redacted = "<redacted>"

// Subresources whose verb get allows a user to read confidential values.
const (
	subresourceSource      = "source"
	subresourceRendered    = "rendered"
	subresourceCredentials = "credentials"
)

// rights knows what else a user may do than what he asks for.
type rights struct{ authorizer authorizer.Authorizer }

// mayGet reports whether the user of a request may get a subresource of an object, or the object
// itself.
func (r rights) mayGet(ctx context.Context, resource, subresource, namespace, name string) bool {
	return r.may(ctx, "get", resource, subresource, namespace, name)
}

// may reports whether the user of a request has a verb. The program itself, whose work in the background has no
// user, has all.
func (r rights) may(ctx context.Context, verb, resource, subresource, namespace, name string) bool {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return true
	}
	return allows(ctx, r.authorizer, attributesOf(who, verb, resource, subresource, namespace, name))
}

// allows reports whether an authorizer allows a request.
func allows(ctx context.Context, by authorizer.Authorizer, attributes authorizer.AttributesRecord) bool {
	decision, _, err := by.Authorize(ctx, attributes)
	return err == nil && decision == authorizer.DecisionAllow
}

// attributesOf describes the request of a user for a resource of the core group.
func attributesOf(who user.Info, verb, resource, subresource, namespace, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: who, Verb: verb, APIGroup: v1.GroupName, APIVersion: v1.SchemeGroupVersion.Version, Resource: resource,
		Subresource: subresource, Namespace: namespace, Name: name, ResourceRequest: true,
	}
}

// concealsFindings reports whether the findings of a config, which may quote its source, are none for the user
// of a request.
func (r rights) concealsFindings(ctx context.Context, config *v1.IgnitionConfig) bool {
	return config.Spec.Confidential &&
		!r.mayGet(ctx, kinds.IgnitionConfigs, subresourceSource, config.Namespace, config.Name)
}

// mayGetResult reports whether the user of a request may read what machines are served of a config. config is
// nil where it cannot be told whether that is confidential.
func (r rights) mayGetResult(ctx context.Context, view model.View, ref model.Ref, config *model.Config) bool {
	isOpen := config != nil && !config.Confidential && !view.HasConfidentialLayer(config)
	return isOpen || r.mayGet(ctx, kinds.IgnitionConfigs, subresourceRendered, ref.Namespace, ref.Name)
}

// secrecy describes what is confidential in the objects of a kind.
type secrecy struct {
	resource, subresource string
	// verbs are those of which one is enough to read the fields; none: get.
	verbs []string
	// paths are those of the confidential fields, and values returns what an object has in them.
	paths  [][]string
	values func(obj runtime.Object) []value
	// isFixed reports whether the fields of an object cannot change; nil: those of all can.
	isFixed func(obj runtime.Object) bool
	// isOpen reports whether everybody may read the fields of an object, and hideMore hides other
	// fields that may quote them; nil: no object is open, and there are no such fields.
	isOpen   func(obj runtime.Object) bool
	hideMore func(obj runtime.Object)
	rights   rights
}

func configSecrecy(r rights) *secrecy {
	return &secrecy{
		resource: kinds.IgnitionConfigs, subresource: subresourceSource, rights: r,
		paths: [][]string{{"spec", "config"}},
		values: func(obj runtime.Object) []value {
			return []value{textAt("spec.config", &obj.(*v1.IgnitionConfig).Spec.Config)}
		},
		isOpen: func(obj runtime.Object) bool { return !obj.(*v1.IgnitionConfig).Spec.Confidential },
		// The findings of a compiler quote the source.
		hideMore: func(obj runtime.Object) {
			status := &obj.(*v1.IgnitionConfig).Status
			hide(&status.ErrorMessage)
			for i := range status.Warnings {
				hide(&status.Warnings[i])
			}
			for i := range status.Conditions {
				hide(&status.Conditions[i].Message)
			}
			if status.Hosts != nil {
				for i := range status.Hosts.Failures {
					hide(&status.Hosts.Failures[i].Message)
				}
			}
		},
	}
}

func hostSecrecy(r rights) *secrecy {
	return &secrecy{
		resource: kinds.BareMetalHosts, subresource: subresourceCredentials, rights: r,
		paths: [][]string{{"spec", "bmc", "password"}},
		values: func(obj runtime.Object) []value {
			if bmc := obj.(*v1.BareMetalHost).Spec.BMC; bmc != nil {
				return []value{textAt("spec.bmc.password", &bmc.Password)}
			}
			return nil
		},
	}
}

func cdromSecrecy(r rights) *secrecy {
	return &secrecy{
		resource: kinds.ISCSICdroms, subresource: subresourceCredentials, rights: r,
		paths: [][]string{{"spec", "chap", "password"}, {"spec", "chap", "mutualPassword"}},
		values: func(obj runtime.Object) []value {
			if chap := obj.(*v1.ISCSICdrom).Spec.CHAP; chap != nil {
				return []value{
					textAt("spec.chap.password", &chap.Password), textAt("spec.chap.mutualPassword", &chap.MutualPassword),
				}
			}
			return nil
		},
	}
}

// hide replaces a value, unless there is none.
func hide(value *string) {
	if *value != "" {
		*value = redacted
	}
}

// conceals reports whether the user of a request may not read the confidential fields of an object.
func (s *secrecy) conceals(ctx context.Context, obj runtime.Object) bool {
	if s == nil || s.isOpen != nil && s.isOpen(obj) {
		return false
	}
	isThere := slices.ContainsFunc(s.values(obj), func(v value) bool { return v.text != "" })
	if !isThere && obj.(metav1.Object).GetAnnotations()[v1.AnnotationLastApplied] == "" || s.mayGet(ctx, obj) {
		return false
	}
	return isThere || slices.ContainsFunc(s.applied(obj), func(value any) bool { return value != "" })
}

// mayGet reports whether the user of a request may read what is confidential in an object.
func (s *secrecy) mayGet(ctx context.Context, obj runtime.Object) bool {
	object := obj.(metav1.Object)
	may := func(verb string) bool {
		return s.rights.may(ctx, verb, s.resource, s.subresource, object.GetNamespace(), object.GetName())
	}
	return may("get") || slices.ContainsFunc(s.verbs, may)
}

// neededVerb names what a user needs to read what is confidential.
func (s *secrecy) neededVerb() string {
	return "the verb get on " + path.Join(s.resource, s.subresource)
}

// redact returns an object, which may be nil, without what is confidential: a copy, since the prediction of an impact
// reads the object of a dry run. In a list, which nobody else reads, it changes the objects.
func (s *secrecy) redact(ctx context.Context, obj runtime.Object) runtime.Object {
	if s == nil || obj == nil {
		return obj
	}
	if meta.IsListType(obj) {
		_ = meta.EachListItem(obj, func(item runtime.Object) error {
			if hides := s.hidesFrom(ctx, item); hides != nil {
				hides(item)
			}
			return nil
		})
		return obj
	}
	if _, isKind := obj.(object); !isKind {
		return obj // a Status, for example
	}
	if hides := s.hidesFrom(ctx, obj); hides != nil {
		obj = obj.DeepCopyObject()
		hides(obj)
	}
	return obj
}

// hidesFrom returns what hides the part of an object that the user of a request may not read; nil: he may
// read all of it.
func (s *secrecy) hidesFrom(ctx context.Context, obj runtime.Object) func(runtime.Object) {
	switch {
	case s.conceals(ctx, obj):
		return s.hideAll
	case s.concealsApplied(ctx, obj):
		return s.hideApplied
	}
	return nil
}

// hideAll hides what is confidential in an object.
func (s *secrecy) hideAll(obj runtime.Object) {
	for _, v := range s.values(obj) {
		if v.text != "" {
			v.set(redacted)
		}
	}
	if s.hideMore != nil {
		s.hideMore(obj)
	}
	s.hideApplied(obj)
}

// restore puts the stored values in place of those that were redacted; stored is nil for a new object.
func (s *secrecy) restore(obj, stored runtime.Object) error {
	if s == nil {
		return nil
	}
	old := map[string]string{}
	if stored != nil {
		old = s.texts(stored)
	}
	for _, v := range s.values(obj) {
		switch {
		case v.text != redacted:
		case old[v.path] == "":
			return apierrors.NewInvalid(groupKind(s.resource), obj.(object).GetName(), field.ErrorList{field.Invalid(
				field.NewPath(v.path), redacted, "it stands for the stored value, and there is none: give the value itself")})
		default:
			v.set(old[v.path])
		}
	}
	if stored == nil {
		return nil
	}
	annotations, was := obj.(metav1.Object).GetAnnotations(), stored.(metav1.Object).GetAnnotations()
	applied, before := annotations[v1.AnnotationLastApplied], was[v1.AnnotationLastApplied]
	if applied != "" && applied != before && applied == s.redactApplied(before) {
		annotations[v1.AnnotationLastApplied] = before
	}
	return nil
}

// updated returns the object of an update. A user who may not read what is confidential changes a copy
// in which it is redacted: no patch copies it to a field that he reads.
func (s *secrecy) updated(info rest.UpdatedObjectInfo) rest.UpdatedObjectInfo {
	if s == nil {
		return info
	}
	return confidentialUpdate{info, s}
}

type confidentialUpdate struct {
	rest.UpdatedObjectInfo
	*secrecy
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (u confidentialUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	conceals := u.conceals(ctx, old)
	from := old
	if hides := u.hidesFrom(ctx, old); hides != nil {
		from = old.DeepCopyObject()
		hides(from)
	}
	obj, err := u.UpdatedObjectInfo.UpdatedObject(ctx, from)
	if err != nil {
		return nil, err
	}
	if conceals {
		if err := u.checkBlind(ctx, obj, old); err != nil {
			return nil, err
		}
	}
	if err := u.restore(obj, old); err != nil {
		return nil, err
	}
	if conceals && u.isOpen != nil && u.isOpen(obj) {
		object := obj.(object)
		return nil, apierrors.NewForbidden(kinds.Of(u.resource).GroupResource(), object.GetName(), errors.New(
			"spec.confidential may be removed only by a user with "+u.neededVerb()))
	}
	return obj, nil
}

// checkBlind keeps a user who may not read the values of an object from finding out with a write whether a
// guess is right: each value that he gives counts as a change, an immutable object takes none, and passwords, which
// are compared with each other, are given together.
func (u confidentialUpdate) checkBlind(ctx context.Context, obj, old runtime.Object) error {
	given, kept := 0, 0
	before := u.texts(old)
	for _, v := range u.values(obj) {
		switch {
		case v.text == redacted:
			kept++
		case v.text != "" || before[v.path] != "":
			given++
		}
	}
	name, at := obj.(object).GetName(), field.NewPath(u.paths[0][0], u.paths[0][1:]...)
	switch {
	case given > 0 && u.isFixed != nil && u.isFixed(old):
		return apierrors.NewInvalid(groupKind(u.resource), name, field.ErrorList{
			field.Forbidden(at, "a user without "+u.neededVerb()+" gives no values of an immutable object")})
	case given > 0 && kept > 0 && u.subresource == subresourceCredentials:
		return apierrors.NewInvalid(groupKind(u.resource), name, field.ErrorList{field.Required(at,
			"a user without "+u.neededVerb()+" gives all passwords of the object, or none")})
	}
	if a := attemptOf(ctx); a != nil && given > 0 {
		a.isBlind = true
	}
	return nil
}
