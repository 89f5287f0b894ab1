package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/component-helpers/auth/rbac/validation"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
)

// createRoles creates the built-in roles and their bindings as soon as the store answers. As in
// Kubernetes, it adds what is missing in those that exist, unless their annotation
// rbac.authorization.kubernetes.io/autoupdate says false.
func (s *Server) createRoles() {
	s.untilDone("cannot create the built-in roles yet", func(ctx context.Context) error {
		err := ensureRoles(ctx, s.opts.Stores)
		s.hasRoles.Store(err == nil)
		return err
	})
}

// untilDone calls a function until it succeeds, as the store answers. message is for the log.
func (s *Server) untilDone(message string, do func(context.Context) error) {
	_ = wait.PollUntilContextCancel(s.ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err != nil {
			s.opts.Logger.Debug(message, "error", err)
		}
		return err == nil, nil
	})
}

// HasRoles is a part of /readyz: it returns an error until the built-in roles exist. A command such as
// glowplug token create --role edit needs them.
func (s *Server) HasRoles(*http.Request) error {
	if s.hasRoles.Load() {
		return nil
	}
	return errors.New("the built-in roles do not exist yet")
}

func ensureRoles(ctx context.Context, stores map[string]storage.Interface) error {
	for _, role := range kinds.BuiltinRoles() {
		err := ensureBuiltin(ctx, stores[kinds.ClusterRoles], kinds.ClusterRoles, role,
			func(stored *rbacv1.ClusterRole) (complete bool) {
				complete, missing := validation.Covers(stored.Rules, role.Rules)
				stored.Rules = append(stored.Rules, missing...)
				return complete
			})
		if err != nil {
			return err
		}
	}
	for _, binding := range rbac.ClusterRoleBindings() {
		err := ensureBuiltin(ctx, stores[kinds.ClusterRoleBindings], kinds.ClusterRoleBindings, binding,
			func(stored *rbacv1.ClusterRoleBinding) (complete bool) {
				if slices.Contains(stored.Subjects, binding.Subjects[0]) {
					return true
				}
				stored.Subjects = append(stored.Subjects, binding.Subjects...)
				return false
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureBuiltin creates an object, or lets add complete the stored one.
func ensureBuiltin[T object](ctx context.Context, store storage.Interface, resource string, builtin T,
	add func(stored T) (complete bool)) error {
	key := "/" + resource + "/" + builtin.GetName()
	stored := newObject(resource).(T)
	err := store.Get(ctx, key, storage.GetOptions{}, stored)
	if storage.IsNotFound(err) {
		rest.FillObjectMetaSystemFields(builtin)
		err = store.Create(ctx, key, builtin, newObject(resource), 0)
		if storage.IsExist(err) { // by another server
			return nil
		}
		return err
	}
	if err != nil || stored.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" || add(stored) {
		return err
	}
	return amend(ctx, store, key, newObject(resource).(T), nil, func(stored T) { add(stored) })
}

// amend changes a stored object; empty is one without content.
func amend[T object](ctx context.Context, store storage.Interface, key string, empty T, only *storage.Preconditions,
	change func(stored T)) error {
	return store.GuaranteedUpdate(ctx, key, empty, false, only,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			change(obj.(T))
			return obj, nil
		}), nil)
}
