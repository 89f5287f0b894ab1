package api

import (
	"bytes"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/secrets"
)

// changeSet is a set of changes for the prediction of their impact.
type changeSet struct {
	// before and after are the objects on both sides.
	before, after model.Changes
	// order has the configs in the order in which they are written.
	order []model.Ref
	// pending are the configs whose result is not known yet.
	pending map[model.Ref]bool
	// secretsBefore and secretsAfter are the changed Secrets on both sides.
	secretsBefore, secretsAfter map[types.NamespacedName]*v1.Secret
	// isolation is true where the changes make islands or end some, and islands says which.
	isolation bool
	islands   []string
	// isEmpty is true where nothing changes that a host depends on.
	isEmpty bool
}

// changesOf returns a set of changes; maxIgnition may be nil. What the objects of other kinds change
// does not concern hosts at once.
func changesOf(all []change, view model.View, maxIgnition func(*v1.ISCSICdrom) string) *changeSet {
	set := &changeSet{
		before: newChanges(), after: newChanges(), pending: map[model.Ref]bool{}, isEmpty: true,
		secretsBefore: map[types.NamespacedName]*v1.Secret{}, secretsAfter: map[types.NamespacedName]*v1.Secret{},
	}
	hasAccess := false
	for _, c := range all {
		switch object := c.object().(type) {
		case *v1.BareMetalHost:
			put(set, object, c, set.before.Hosts, set.after.Hosts, model.HostFrom)
		case *v1.IgnitionConfig:
			put(set, object, c, set.before.Configs, set.after.Configs, model.ConfigFrom)
			set.order = append(set.order, refOf(object))
			if config, ok := c.now.(*v1.IgnitionConfig); ok && isUnknown(config) {
				set.pending[refOf(config)] = true
			}
		case *v1.ISCSICdrom:
			put(set, object, c, set.before.Images, set.after.Images, imageFrom(view, maxIgnition))
		case *v1.Namespace:
			set.namespace(object, c, view)
		case *v1.Secret:
			set.secret(object, c)
		}
		hasAccess = set.access(c) || hasAccess
	}
	if hasAccess || len(set.after.Namespaces) > 0 {
		set.findIslands(view)
	}
	return set
}

// secret adds a Secret, of which only the data counts.
func (set *changeSet) secret(object *v1.Secret, c change) {
	at := types.NamespacedName(refOf(object))
	old, _ := c.old.(*v1.Secret)
	now, _ := c.now.(*v1.Secret)
	if old != nil && now != nil && maps.EqualFunc(old.Data, now.Data, bytes.Equal) {
		return
	}
	set.secretsBefore[at], set.secretsAfter[at] = old, now
	set.isEmpty = false
}

// secretsOf returns the values of Secrets on both sides; nil where there are no Secrets.
func (set *changeSet) secretsOf(stored *secrets.Secrets) *impact.Secrets {
	if stored == nil {
		return nil
	}
	changed := map[model.Ref]bool{}
	for at := range set.secretsAfter {
		changed[model.Ref(at)] = true
	}
	return &impact.Secrets{
		Before: stored.With(set.secretsBefore), After: stored.With(set.secretsAfter), Changed: changed,
	}
}

// concernsAll reports whether all hosts have to be looked at.
func (set *changeSet) concernsAll() bool {
	return len(set.after.Configs)+len(set.after.Images)+len(set.after.Namespaces)+len(set.secretsAfter) > 0 ||
		set.isolation
}

func newChanges() model.Changes {
	return model.Changes{
		Hosts: map[model.Ref]*model.Host{}, Configs: map[model.Ref]*model.Config{},
		Images: map[model.Ref]*model.Image{}, Namespaces: map[string]*model.Namespace{},
		Roles: map[model.Ref]*model.Role{}, Bindings: map[model.Ref]*model.Binding{},
		ClusterRoles: map[string]*model.Role{}, ClusterBindings: map[string]*model.Binding{},
	}
}

func refOf(object metav1.Object) model.Ref {
	return model.Ref{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// put adds an object to both sides, and notes whether it changes.
func put[T object, S any](set *changeSet, object T, c change, before, after map[model.Ref]*S, from func(T) *S) {
	ref := refOf(object)
	both(ref, c, before, after, from)
	set.isEmpty = set.isEmpty && reflect.DeepEqual(before[ref], after[ref])
}

// isUnknown reports whether it is not known what a config compiles to.
func isUnknown(config *v1.IgnitionConfig) bool {
	return config.Status.Phase == v1.PhasePending && !config.AwaitsHosts() &&
		(config.Compiled == nil || config.Compiled.Own == nil)
}

// imageFrom returns how an image is once the server has looked at it: a new one counts as ready.
func imageFrom(view model.View, maxIgnition func(*v1.ISCSICdrom) string) func(*v1.ISCSICdrom) *model.Image {
	return func(cdrom *v1.ISCSICdrom) *model.Image {
		image := model.ImageFrom(cdrom)
		if maxIgnition != nil && image.Stream {
			image.MaxIgnition = maxIgnition(cdrom)
		}
		if view.Image(image.Ref) == nil && image.Phase == v1.PhasePending && image.Message == "" {
			image.Phase = v1.PhaseReady
		}
		return image
	}
}

// namespace adds a namespace. With a deleted one all its objects are deleted.
func (set *changeSet) namespace(object *v1.Namespace, c change, view model.View) {
	name := object.Name
	if old, ok := c.old.(*v1.Namespace); ok {
		set.before.Namespaces[name] = model.NamespaceFrom(old)
	}
	now, exists := c.now.(*v1.Namespace)
	if exists {
		set.after.Namespaces[name] = model.NamespaceFrom(now)
		was := set.before.Namespaces[name]
		set.isEmpty = set.isEmpty && (was == nil && *set.after.Namespaces[name] == model.Namespace{Name: name} ||
			was != nil && *was == *set.after.Namespaces[name])
		return
	}
	set.isEmpty = false
	gone := view.DeletionOf(name)
	set.after.Namespaces[name] = nil
	maps.Copy(set.after.Hosts, gone.Hosts)
	maps.Copy(set.after.Configs, gone.Configs)
	maps.Copy(set.after.Images, gone.Images)
	maps.Copy(set.after.Roles, gone.Roles)
	maps.Copy(set.after.Bindings, gone.Bindings)
}
