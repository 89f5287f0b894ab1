package api

import (
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
)

// The kinds of rbac.authorization.k8s.io, as Kubernetes has them.

// installRoles adds the endpoints of roles and bindings.
func (s *Server) installRoles(into *endpoints) {
	g, mark := grants{s.opts.Policy, s.authorizer}, into.namespaces.markIslands
	into.storage[kinds.Roles] = newGrantREST(install(into, roleKind()), g.checkRole, mark)
	into.storage[kinds.ClusterRoles] = newGrantREST(install(into, clusterRoleKind()), g.checkClusterRole, mark)
	into.storage[kinds.RoleBindings] = newGrantREST(install(into, roleBindingKind()), g.checkBinding, mark)
	into.storage[kinds.ClusterRoleBindings] = newGrantREST(install(into, clusterRoleBindingKind()),
		g.checkClusterBinding, mark)
}

func roleKind() *kind[*rbacv1.Role] {
	return &kind[*rbacv1.Role]{
		Kind: kinds.Of(kinds.Roles), isName: rbac.ValidateName,
		table:    createdTable(func(r *rbacv1.Role) *metav1.ObjectMeta { return &r.ObjectMeta }),
		strategy: strategy[*rbacv1.Role]{},
	}
}

func clusterRoleKind() *kind[*rbacv1.ClusterRole] {
	return &kind[*rbacv1.ClusterRole]{
		Kind: kinds.Of(kinds.ClusterRoles), isName: rbac.ValidateName,
		table:    createdTable(func(r *rbacv1.ClusterRole) *metav1.ObjectMeta { return &r.ObjectMeta }),
		strategy: strategy[*rbacv1.ClusterRole]{},
	}
}

func roleBindingKind() *kind[*rbacv1.RoleBinding] {
	return &kind[*rbacv1.RoleBinding]{
		Kind: kinds.Of(kinds.RoleBindings), isName: rbac.ValidateName,
		table: bindingTable(func(b *rbacv1.RoleBinding) (*metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject) {
			return &b.ObjectMeta, b.RoleRef, b.Subjects
		}),
		strategy: strategy[*rbacv1.RoleBinding]{
			immutable: func(b, old *rbacv1.RoleBinding) field.ErrorList {
				return rbac.ValidateRoleRefUpdate(b.RoleRef, old.RoleRef)
			},
		},
	}
}

func clusterRoleBindingKind() *kind[*rbacv1.ClusterRoleBinding] {
	return &kind[*rbacv1.ClusterRoleBinding]{
		Kind: kinds.Of(kinds.ClusterRoleBindings), isName: rbac.ValidateName,
		table: bindingTable(func(b *rbacv1.ClusterRoleBinding) (*metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject) {
			return &b.ObjectMeta, b.RoleRef, b.Subjects
		}),
		strategy: strategy[*rbacv1.ClusterRoleBinding]{
			immutable: func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
				return rbac.ValidateRoleRefUpdate(b.RoleRef, old.RoleRef)
			},
		},
	}
}

// createdTable is the table of roles.
func createdTable[T object](metaOf func(T) *metav1.ObjectMeta) rest.TableConvertor {
	return &table[T]{
		columns: []metav1.TableColumnDefinition{
			text("Name", "The role's name."), text("Created At", "When the role was created."),
		},
		row: func(obj T, _ time.Time) []any {
			meta := metaOf(obj)
			return []any{meta.Name, meta.CreationTimestamp.UTC().Format(time.RFC3339)}
		},
	}
}

// bindingTable is the table of bindings.
func bindingTable[T object](
	partsOf func(T) (*metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject),
) rest.TableConvertor {
	return &table[T]{
		columns: []metav1.TableColumnDefinition{
			text("Name", "The binding's name."),
			text("Role", "The role that it grants."),
			text("Age", "Time since the binding was created."),
			wide(text("Users", "The users that it grants the role to.")),
			wide(text("Groups", "The groups that it grants the role to.")),
			wide(text("ServiceAccounts", "The service accounts that it grants the role to.")),
		},
		row: func(obj T, now time.Time) []any {
			meta, ref, subjects := partsOf(obj)
			names := map[string][]string{}
			for _, s := range subjects {
				name := s.Name
				if s.Kind == rbacv1.ServiceAccountKind {
					name = s.Namespace + "/" + name
				}
				names[s.Kind] = append(names[s.Kind], name)
			}
			list := func(kind string) string { return strings.Join(names[kind], ", ") }
			return []any{meta.Name, fmt.Sprintf("%s/%s", ref.Kind, ref.Name), age(&meta.CreationTimestamp, now),
				list(rbacv1.UserKind), list(rbacv1.GroupKind), list(rbacv1.ServiceAccountKind)}
		},
	}
}
