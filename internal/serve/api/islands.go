package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/rbac"
)

// markIslands marks the namespaces that are islands since a binding says so: they stay islands without it. It is
// called after each write of a role or binding and, for marks that are missing after a crash, before it.
func (n *namespaces) markIslands(ctx context.Context) error {
	for _, name := range n.inventory.View().Islands().Tenants() {
		if err := n.markIsland(ctx, name); err != nil {
			return fmt.Errorf("marking the namespace %s as an island: %w", name, err)
		}
	}
	return nil
}

// markIsland marks a namespace, unless an administrator has decided about it.
func (n *namespaces) markIsland(ctx context.Context, name string) error {
	// One that is being terminated loses its bindings before the objects with finalizers.
	if err := n.ensure(ctx, name); err != nil && err != errTerminating {
		return err
	}
	err := amend(ctx, n.stores[kinds.Namespaces], namespaceKey(name), &v1.Namespace{}, nil,
		func(namespace *v1.Namespace) {
			if namespace.Annotations[v1.AnnotationIsland] == "" {
				metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, v1.AnnotationIsland, "true")
			}
		})
	if storage.IsNotFound(err) {
		return nil // it has been terminated meanwhile
	}
	return err
}

// checkMarks refuses a write of a Namespace that changes a mark of islands, unless its user has the same verb on all
// namespaces: a RoleBinding in a namespace lets a tenant write the Namespace itself too, and would let him end the
// isolation that holds him.
func (r rights) checkMarks(ctx context.Context, now, old object) error {
	verb := "update"
	if info, ok := request.RequestInfoFrom(ctx); ok {
		verb = info.Verb
	}
	for _, key := range [...]string{v1.AnnotationIsland, v1.AnnotationIsolated} {
		if now.GetAnnotations()[key] != old.GetAnnotations()[key] && !r.may(ctx, verb, kinds.Namespaces, "", "", "") {
			return apierrors.NewForbidden(v1.Resource(kinds.Namespaces), now.GetName(), fmt.Errorf("the annotation %s decides "+
				"which namespaces are islands: an administrator of all namespaces has to change it, who has the verb %s on "+
				"namespaces by a ClusterRoleBinding", key, verb))
		}
	}
	return nil
}

// access adds a role or binding to both sides of a change set. It reports whether the object is one.
func (set *changeSet) access(c change) bool {
	switch object := c.object().(type) {
	case *rbacv1.Role:
		both(refOf(object), c, set.before.Roles, set.after.Roles, func(r *rbacv1.Role) *model.Role {
			return &model.Role{Ref: refOf(r), Writes: rbac.WritesOf(r.Rules)}
		})
	case *rbacv1.ClusterRole:
		both(object.Name, c, set.before.ClusterRoles, set.after.ClusterRoles, func(r *rbacv1.ClusterRole) *model.Role {
			return &model.Role{Ref: refOf(r), Writes: rbac.WritesOf(r.Rules)}
		})
	case *rbacv1.RoleBinding:
		both(refOf(object), c, set.before.Bindings, set.after.Bindings, func(b *rbacv1.RoleBinding) *model.Binding {
			return &model.Binding{Ref: refOf(b), Grant: rbac.NewGrant(b.RoleRef, b.Subjects, b.Namespace)}
		})
	case *rbacv1.ClusterRoleBinding:
		both(object.Name, c, set.before.ClusterBindings, set.after.ClusterBindings,
			func(b *rbacv1.ClusterRoleBinding) *model.Binding {
				return &model.Binding{Ref: refOf(b), Grant: rbac.NewGrant(b.RoleRef, b.Subjects, "")}
			})
	default:
		return false
	}
	return true
}

// both adds an object to both sides of a change set.
func both[K comparable, T object, S any](key K, c change, before, after map[K]*S, from func(T) *S) {
	before[key], after[key] = nil, nil
	if old, ok := c.old.(T); ok {
		before[key] = from(old)
	}
	if now, ok := c.now.(T); ok {
		after[key] = from(now)
	}
}

// findIslands finds out which namespaces the changes make islands, or end as such. An island stays one without its
// binding.
func (set *changeSet) findIslands(view model.View) {
	before, after := view.With(&set.before), view.With(&set.after)
	for _, name := range before.Islands().Tenants() {
		if _, changes := set.after.Namespaces[name]; !changes && !after.Islands().Has(name) {
			set.after.Namespaces[name] = after.Islands().Marked(name)
		}
	}
	after = view.With(&set.after)
	names, others := after.Islands().Changed(before.Islands())
	if len(names) == 0 && !others {
		return
	}
	set.isolation, set.isEmpty = true, false
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxWarned)] {
		set.islands = append(set.islands, islandWarning(after, name, !before.Islands().Any()))
	}
	switch more := len(names) - maxWarned; {
	case more > 0:
		set.islands = append(set.islands, fmt.Sprintf("the same holds for %d more namespaces", more))
	case others && after.Islands().Any():
		set.islands = append(set.islands, "all namespaces but default are islands from now on, since the annotation "+
			v1.AnnotationIsolated+" of the namespace default says so")
	case others:
		set.islands = append(set.islands, "the namespaces are no islands any more, except those that are marked or that "+
			"tenants may write")
	}
}

// islandWarning says what a change of an island means, and how to undo it.
func islandWarning(after model.View, name string, isFirst bool) string {
	annotate := "kubectl annotate namespace " + name + " --overwrite " + v1.AnnotationIsland
	island, isIsland := after.Islands().Why(name)
	if !isIsland {
		return "the namespace " + name + " is no island any more: its configs and images reach the hosts of other namespaces, " +
			"and theirs reach its hosts; to undo that: " + annotate + "=true"
	}
	strangers := ""
	if isFirst {
		strangers = "; it is the first island, so machines that are no known hosts are offered only configs with " +
			"default: true of namespaces that are none"
	}
	undo := annotate + "-"
	if island.Binding != (model.Ref{}) {
		undo = fmt.Sprintf("kubectl delete rolebinding %s -n %s, and then %s; to let %s write without it: %s=false",
			island.Binding.Name, name, undo, island.Tenant, annotate)
	}
	return "the namespace " + name + " is an island from now on, since " + island.String() + ": its configs and images reach " +
		"its own hosts only, and its hosts get no others" + strangers + "; to undo that: " + undo
}

// warnMoves says which hosts have another config than before, and which, of those that the user may read.
func warnMoves(result *impact.Impact, nameable func(host string) bool, mayRead func(config model.Ref) bool) string {
	name := func(config model.Ref) string {
		switch {
		case config == (model.Ref{}):
			return "none"
		case !mayRead(config):
			return "one that you may not read"
		}
		return config.String()
	}
	var texts []string
	for _, move := range result.Moves(maxWarned, nameable) {
		texts = append(texts, fmt.Sprintf("%s had %s and gets %s", move.Host, name(move.Before), name(move.After)))
	}
	if len(texts) == 0 {
		return ""
	}
	return "configs of these hosts: " + strings.Join(texts, "; ") + "; glowplug diff lists all"
}
