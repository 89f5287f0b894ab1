// Package policy has the roles and bindings in memory, as their buckets have them, and authorizes
// requests with them.
package policy

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/kvstore"
)

// Policy follows the buckets of roles and bindings. It is safe for concurrent use.
type Policy struct {
	log   *slog.Logger
	mu    sync.RWMutex
	rules rbac.Policy
}

// New returns an empty Policy, which allows nothing. Its Observers fill it. log takes what cannot be
// read; nil discards it.
func New(log *slog.Logger) *Policy {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Policy{log: log, rules: rbac.Policy{
		Roles: map[rbac.Key]*rbacv1.Role{}, ClusterRoles: map[string]*rbacv1.ClusterRole{},
		RoleBindings:    map[string]map[string]*rbacv1.RoleBinding{},
		ClusterBindings: map[string]*rbacv1.ClusterRoleBinding{},
	}}
}

// Authorize implements authorizer.UnconditionalAuthorizer. What no role allows, another authorizer may
// allow.
func (p *Policy) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	allowed, reason := p.rules.Authorize(a)
	if allowed {
		return authorizer.DecisionAllow, reason, nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// RulesFor returns the rules of a user; see rbac.Policy.
func (p *Policy) RulesFor(who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.rules.RulesFor(who, namespace)
}

// RulesOf returns the rules of a role that a binding in a namespace names.
func (p *Policy) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.rules.RulesOf(ref, namespace)
}

// Observers returns the observers of the buckets, by resource.
func (p *Policy) Observers() map[string]kvstore.Observer {
	return map[string]kvstore.Observer{
		kinds.Roles: &observer[rbacv1.Role]{
			policy: p, clear: func() { clear(p.rules.Roles) },
			put: func(at rbac.Key, role *rbacv1.Role) { put(p.rules.Roles, at, role) },
		},
		kinds.ClusterRoles: &observer[rbacv1.ClusterRole]{
			policy: p, clear: func() { clear(p.rules.ClusterRoles) },
			put: func(at rbac.Key, role *rbacv1.ClusterRole) { put(p.rules.ClusterRoles, at.Name, role) },
		},
		kinds.RoleBindings: &observer[rbacv1.RoleBinding]{
			policy: p, clear: func() { clear(p.rules.RoleBindings) },
			put: func(at rbac.Key, binding *rbacv1.RoleBinding) {
				in := p.rules.RoleBindings[at.Namespace]
				if in == nil {
					in = map[string]*rbacv1.RoleBinding{}
					p.rules.RoleBindings[at.Namespace] = in
				}
				if put(in, at.Name, binding); len(in) == 0 {
					delete(p.rules.RoleBindings, at.Namespace)
				}
			},
		},
		kinds.ClusterRoleBindings: &observer[rbacv1.ClusterRoleBinding]{
			policy: p, clear: func() { clear(p.rules.ClusterBindings) },
			put: func(at rbac.Key, binding *rbacv1.ClusterRoleBinding) {
				put(p.rules.ClusterBindings, at.Name, binding)
			},
		},
	}
}

// put sets or, for nil, removes an object.
func put[K comparable, T any](objects map[K]*T, at K, object *T) {
	if object == nil {
		delete(objects, at)
		return
	}
	objects[at] = object
}

// observer follows one bucket.
type observer[T any] struct {
	policy *Policy
	clear  func()
	// put sets an object or, for nil, removes it.
	put func(at rbac.Key, object *T)
}

// Load implements kvstore.Observer.
func (o *observer[T]) Load(items []kvstore.Item) {
	objects := map[rbac.Key]*T{}
	for _, item := range items {
		objects[keyOf(item.Key)] = o.decode(item)
	}
	o.policy.mu.Lock()
	defer o.policy.mu.Unlock()
	o.clear()
	for at, object := range objects {
		o.put(at, object)
	}
}

// Put implements kvstore.Observer.
func (o *observer[T]) Put(item kvstore.Item) {
	object := o.decode(item)
	o.policy.mu.Lock()
	defer o.policy.mu.Unlock()
	o.put(keyOf(item.Key), object)
}

// Delete implements kvstore.Observer.
func (o *observer[T]) Delete(key string, _ uint64) {
	o.policy.mu.Lock()
	defer o.policy.mu.Unlock()
	o.put(keyOf(key), nil)
}

// decode returns an object, or nil if it cannot be read: it then allows nothing.
func (o *observer[T]) decode(item kvstore.Item) *T {
	object := new(T)
	if err := json.Unmarshal(item.Value, object); err != nil {
		o.policy.log.Error("a stored role or binding cannot be read and allows nothing: write it again",
			"key", item.Key, "revision", item.Revision, "error", err)
		return nil
	}
	if meta, ok := any(object).(metav1.ObjectMetaAccessor); ok {
		meta.GetObjectMeta().SetManagedFields(nil) // not needed in memory
	}
	return object
}

// keyOf reads a bucket key: namespace/name, or the name of an object without a namespace.
func keyOf(key string) rbac.Key {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return rbac.Key{Name: key}
	}
	return rbac.Key{Namespace: namespace, Name: name}
}
