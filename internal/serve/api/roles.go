package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
)

// The kinds of rbac.authorization.k8s.io, as Kubernetes has them.

// installRoles adds the endpoints of roles and bindings. They refuse writes that grant what the writer does not have,
// and mark the islands that the stored roles and bindings make, also before what makes them islands is taken away.
func (s *Server) installRoles(into *endpoints) {
	for _, e := range []*endpoint{
		install(into, roleKind[*rbacv1.Role](kinds.Roles)),
		install(into, roleKind[*rbacv1.ClusterRole](kinds.ClusterRoles)),
		install(into, bindingKind[*rbacv1.RoleBinding](kinds.RoleBindings)),
		install(into, bindingKind[*rbacv1.ClusterRoleBinding](kinds.ClusterRoleBindings)),
	} {
		e.check = grants{s.opts.Policy, s.authorizer, e.DefaultQualifiedResource}.check
		e.prepare = into.namespaces.markIslands
		e.finished = append(e.finished, func(ctx context.Context, a *attempt) {
			if a.dryRun {
				return
			}
			if err := e.prepare(ctx); err != nil { // the binding counts without the mark, which the next write makes
				warning.AddWarning(ctx, "", err.Error())
			}
		})
	}
}

func roleKind[T object](resource string) *kind[T] {
	return &kind[T]{
		Kind: kinds.Of(resource), isName: rbac.ValidateName,
		table: &table[T]{
			columns: []metav1.TableColumnDefinition{
				text("Name", "The role's name."), text("Created At", "When the role was created."),
			},
			row: func(obj T, _ time.Time) []any {
				return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
			},
		},
	}
}

func bindingKind[T object](resource string) *kind[T] {
	return &kind[T]{
		Kind: kinds.Of(resource), isName: rbac.ValidateName,
		table: &table[T]{
			columns: []metav1.TableColumnDefinition{
				text("Name", "The binding's name."),
				text("Role", "The role that it grants."),
				text("Age", "Time since the binding was created."),
				wide(text("Users", "The users that it grants the role to.")),
				wide(text("Groups", "The groups that it grants the role to.")),
				wide(text("ServiceAccounts", "The service accounts that it grants the role to.")),
			},
			row: func(obj T, now time.Time) []any { return bindingRow(obj, now) },
		},
		strategy: strategy[T]{
			immutable: func(obj, old T) field.ErrorList {
				return rbac.ValidateRoleRefUpdate(grantOf(obj).Role, grantOf(old).Role)
			},
		},
	}
}

func bindingRow(obj object, now time.Time) []any {
	given, created, names := grantOf(obj), obj.GetCreationTimestamp(), map[string][]string{}
	for _, s := range given.Subjects {
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			name = s.Namespace + "/" + name
		}
		names[s.Kind] = append(names[s.Kind], name)
	}
	list := func(kind string) string { return strings.Join(names[kind], ", ") }
	return []any{obj.GetName(), fmt.Sprintf("%s/%s", given.Role.Kind, given.Role.Name), age(&created, now),
		list(rbacv1.UserKind), list(rbacv1.GroupKind), list(rbacv1.ServiceAccountKind)}
}
