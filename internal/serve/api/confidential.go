package api

import (
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/snapshot"
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
	decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: verb, APIGroup: v1.GroupName, APIVersion: v1.SchemeGroupVersion.Version, Resource: resource,
		Subresource: subresource, Namespace: namespace, Name: name, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}

// concealsFindings reports whether the findings of a config, which may quote its source, are none for the user
// of a request.
func (r rights) concealsFindings(ctx context.Context, config *v1.IgnitionConfig) bool {
	return config.Spec.Confidential &&
		!r.mayGet(ctx, kinds.IgnitionConfigs, subresourceSource, config.Namespace, config.Name)
}

// mayGetResult reports whether the user of a request may read what machines are served of a config. config is
// nil where it cannot be told whether that is confidential.
func (r rights) mayGetResult(ctx context.Context, view snapshot.View, ref snapshot.Ref, config *snapshot.Config) bool {
	isOpen := config != nil && !config.Confidential && !view.HasConfidentialLayer(config)
	return isOpen || r.mayGet(ctx, kinds.IgnitionConfigs, subresourceRendered, ref.Namespace, ref.Name)
}

// secrecy describes what is confidential in the objects of a kind.
type secrecy struct {
	resource, subresource string
	// paths are those of the confidential fields, and values returns pointers to them, in the same
	// order; none for an object that does not have them.
	paths  [][]string
	values func(obj runtime.Object) []*string
	// isOpen reports whether everybody may read the fields of an object, and hideMore hides other
	// fields that may quote them; nil: no object is open, and there are no such fields.
	isOpen   func(obj runtime.Object) bool
	hideMore func(obj runtime.Object)
	rights   rights
}

func configSecrecy(r rights) *secrecy {
	return &secrecy{
		resource: kinds.IgnitionConfigs, subresource: subresourceSource, rights: r,
		paths:  [][]string{{"spec", "config"}},
		values: func(obj runtime.Object) []*string { return []*string{&obj.(*v1.IgnitionConfig).Spec.Config} },
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
		values: func(obj runtime.Object) []*string {
			if bmc := obj.(*v1.BareMetalHost).Spec.BMC; bmc != nil {
				return []*string{&bmc.Password}
			}
			return nil
		},
	}
}

func cdromSecrecy(r rights) *secrecy {
	return &secrecy{
		resource: kinds.ISCSICdroms, subresource: subresourceCredentials, rights: r,
		paths: [][]string{{"spec", "chap", "password"}, {"spec", "chap", "mutualPassword"}},
		values: func(obj runtime.Object) []*string {
			if chap := obj.(*v1.ISCSICdrom).Spec.CHAP; chap != nil {
				return []*string{&chap.Password, &chap.MutualPassword}
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
	isThere := slices.ContainsFunc(s.values(obj), func(value *string) bool { return *value != "" })
	if !isThere && obj.(metav1.Object).GetAnnotations()[v1.AnnotationLastApplied] == "" || s.mayGet(ctx, obj) {
		return false
	}
	return isThere || slices.ContainsFunc(s.applied(obj), func(value any) bool { return value != "" })
}

// mayGet reports whether the user of a request may read what is confidential in an object.
func (s *secrecy) mayGet(ctx context.Context, obj runtime.Object) bool {
	object := obj.(metav1.Object)
	return s.rights.mayGet(ctx, s.resource, s.subresource, object.GetNamespace(), object.GetName())
}

// redact returns an object without what is confidential: a copy, since the prediction of an impact reads
// the object of a dry run. In a list, which nobody else reads, it changes the objects.
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
	for _, value := range s.values(obj) {
		hide(value)
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
	var old []*string
	if stored != nil {
		old = s.values(stored)
	}
	for i, value := range s.values(obj) {
		if *value != redacted {
			continue
		}
		if i >= len(old) || *old[i] == "" {
			object := obj.(object)
			path := field.NewPath(s.paths[i][0], s.paths[i][1:]...)
			return apierrors.NewInvalid(groupKind(s.resource), object.GetName(), field.ErrorList{field.Invalid(path,
				redacted, "it stands for the stored value, and there is none: give the value itself")})
		}
		*value = *old[i]
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
		return nil, apierrors.NewForbidden(kinds.GroupResource(u.resource), object.GetName(), errors.New(
			"spec.confidential may be removed only by a user with the verb get on "+u.resource+"/"+u.subresource))
	}
	return obj, nil
}

// checkBlind keeps a user who may not read the values of an object from finding out with a write whether a
// guess is right: each value that he gives counts as a change, and values that are compared with each
// other are given together.
func (u confidentialUpdate) checkBlind(ctx context.Context, obj, old runtime.Object) error {
	given, kept := 0, 0
	before := u.values(old)
	for i, value := range u.values(obj) {
		switch {
		case *value == redacted:
			kept++
		case *value != "" || i < len(before) && *before[i] != "":
			given++
		}
	}
	if given > 0 && kept > 0 {
		object := obj.(object)
		return apierrors.NewInvalid(groupKind(u.resource), object.GetName(), field.ErrorList{field.Required(
			field.NewPath(u.paths[0][0], u.paths[0][1:]...),
			"a user without the verb get on "+u.resource+"/"+u.subresource+" gives all passwords of the object, or none")})
	}
	if a := attemptOf(ctx); a != nil && given > 0 {
		a.isBlind = true
	}
	return nil
}

// watched hides what is confidential in the events of a watch.
func (s *secrecy) watched(ctx context.Context, w watch.Interface) watch.Interface {
	if who, ok := request.UserFrom(ctx); s == nil || !ok || isPrivileged(who) {
		return w
	}
	out := &redactedWatch{Interface: w, events: make(chan watch.Event), ended: make(chan struct{})}
	go out.run(ctx, func(event watch.Event) watch.Event {
		event.Object = s.redact(ctx, event.Object)
		return event
	})
	return out
}

// redactedWatch passes on the events of another watch. The library's watch.Filter would leave a goroutine
// behind if its reader stops while an event waits.
type redactedWatch struct {
	watch.Interface
	events chan watch.Event
	ended  chan struct{}
	once   sync.Once
}

// run ends with the request as well: the library does not stop the watch of a request that it refuses.
func (w *redactedWatch) run(ctx context.Context, change func(watch.Event) watch.Event) {
	defer close(w.events)
	for event := range w.Interface.ResultChan() {
		select {
		case w.events <- change(event):
		case <-w.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (w *redactedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *redactedWatch) Stop() {
	w.once.Do(func() { close(w.ended) })
	w.Interface.Stop()
}
