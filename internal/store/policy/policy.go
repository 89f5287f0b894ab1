// Package policy has the roles and bindings in memory, as their buckets have them, and authorizes
// requests with them.
package policy

import (
	"context"
	"log/slog"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
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
		kinds.Roles: follow(p, func() { clear(p.rules.Roles) },
			func(at types.NamespacedName, role *rbacv1.Role) { put(p.rules.Roles, rbac.Key(at), role) }),
		kinds.ClusterRoles: follow(p, func() { clear(p.rules.ClusterRoles) },
			func(at types.NamespacedName, role *rbacv1.ClusterRole) { put(p.rules.ClusterRoles, at.Name, role) }),
		kinds.RoleBindings: follow(p, p.rules.UnbindRoles, func(at types.NamespacedName, b *rbacv1.RoleBinding) {
			if b == nil {
				p.rules.Unbind(rbac.Key(at))
				return
			}
			p.rules.Bind(rbac.Key(at), rbac.Binding{RoleRef: b.RoleRef, Subjects: b.Subjects})
		}),
		kinds.ClusterRoleBindings: follow(p, p.rules.UnbindClusterRoles,
			func(at types.NamespacedName, b *rbacv1.ClusterRoleBinding) {
				if b == nil {
					p.rules.Unbind(rbac.Key(at))
					return
				}
				p.rules.Bind(rbac.Key(at), rbac.Binding{RoleRef: b.RoleRef, Subjects: b.Subjects})
			}),
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

// follow returns the observer of a bucket. An object that cannot be read allows nothing.
func follow[T any](p *Policy, clear func(), put func(types.NamespacedName, *T)) kvstore.Observer {
	o := &objects.Observer[T]{Lock: &p.mu, Clear: clear, Put: put, Unreadable: func(item kvstore.Item, err error) {
		p.log.Error("a stored role or binding cannot be read and allows nothing: write it again",
			"key", item.Key, "revision", item.Revision, "error", err)
	}}
	return o.Follow()
}
