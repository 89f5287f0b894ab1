package snapshot

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// bucket is what is known of a bucket that is followed.
type bucket struct {
	mu    sync.Mutex
	stats BucketStats // Objects and Bad are set by report
	// bad are the keys whose value cannot be read.
	bad map[string]bool
}

func (b *bucket) report(objects int) BucketStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := b.stats
	stats.Objects, stats.Bad = objects, len(b.bad)
	return stats
}

// observer follows one bucket. It decodes without the lock of the inventory.
type observer[T any] struct {
	*bucket
	inv  *Inventory
	kind *model.Kind[T]
	// change describes the change of an object, to be published; nil: the object decides what is an island.
	change func(old, now *T) Change
}

// Hosts returns the observer for the bucket of BareMetalHosts.
func (inv *Inventory) Hosts() kvstore.Observer {
	return &observer[model.Host]{&inv.hosts, inv, model.Hosts, func(old, now *model.Host) Change {
		return Change{Host: now, OldHost: old}
	}}
}

// Configs returns the observer for the bucket of IgnitionConfigs.
func (inv *Inventory) Configs() kvstore.Observer {
	return &observer[model.Config]{&inv.configs, inv, model.Configs, func(old, now *model.Config) Change {
		return Change{Config: now, OldConfig: old}
	}}
}

// Images returns the observer for the bucket of ISCSICdroms.
func (inv *Inventory) Images() kvstore.Observer {
	return &observer[model.Image]{&inv.images, inv, model.Images, func(old, now *model.Image) Change {
		return Change{Image: now, OldImage: old, All: configOf(old) != configOf(now)}
	}}
}

// configOf returns the config that an image names; zero where there is no image.
func configOf(i *model.Image) model.Ref {
	if i == nil {
		return model.Ref{}
	}
	return i.Config
}

// Namespaces returns the observer for the bucket of Namespaces. A key has no slash there:
// it is read as a namespace without a name.
func (inv *Inventory) Namespaces() kvstore.Observer {
	return &observer[model.Namespace]{&inv.namespaces, inv, model.Namespaces, nil}
}

// RoleBindings returns the observer for the bucket of RoleBindings.
func (inv *Inventory) RoleBindings() kvstore.Observer {
	return &observer[model.Binding]{&inv.bindings, inv, model.RoleBindings, nil}
}

// Roles returns the observer for the bucket of Roles.
func (inv *Inventory) Roles() kvstore.Observer {
	return &observer[model.Role]{&inv.roles, inv, model.Roles, nil}
}

// ClusterRoles returns the observer for the bucket of ClusterRoles.
func (inv *Inventory) ClusterRoles() kvstore.Observer {
	return &observer[model.Role]{&inv.clusterRoles, inv, model.ClusterRoles, nil}
}

// ClusterRoleBindings returns the observer for the bucket of ClusterRoleBindings.
func (inv *Inventory) ClusterRoleBindings() kvstore.Observer {
	return &observer[model.Binding]{&inv.clusterBindings, inv, model.ClusterRoleBindings, nil}
}

// Load implements kvstore.Observer.
func (o *observer[T]) Load(items []kvstore.Item) {
	objects, bad := o.decodeAll(items)
	stats := BucketStats{Loaded: true, At: o.inv.opts.Now()}
	for _, item := range items {
		stats.Revision = max(stats.Revision, item.Revision)
	}
	before, after := o.inv.update(o.kind.Load(func(yield func(model.Ref, *T) bool) {
		for i, item := range items {
			if objects[i] != nil && !yield(model.Stored(item).Ref(), objects[i]) {
				return
			}
		}
	}))
	o.mu.Lock()
	o.stats, o.bad = stats, bad
	o.mu.Unlock()
	if o.change != nil || before.Islands().Version() != after.Islands().Version() {
		o.inv.changes.Publish(reload)
	}
}

// Put implements kvstore.Observer.
func (o *observer[T]) Put(item kvstore.Item) {
	object, err := o.kind.Decode(model.Stored(item), nil)
	if err != nil {
		o.logBad(item, err)
		object = nil
	}
	o.apply(item.Key, object, item.Revision, err != nil)
}

// Delete implements kvstore.Observer.
func (o *observer[T]) Delete(key string, revision uint64) { o.apply(key, nil, revision, false) }

// apply puts an object, which may be nil, in place of the one with that key.
func (o *observer[T]) apply(key string, object *T, revision uint64, isBad bool) {
	ref := model.Stored{Key: key}.Ref()
	before, after := o.inv.update(func(v model.View) model.View { return o.kind.Put(v, ref, object) })
	o.mu.Lock()
	if delete(o.bad, key); isBad && o.bad == nil {
		o.bad = map[string]bool{strings.Clone(key): true}
	} else if isBad {
		o.bad[strings.Clone(key)] = true
	}
	o.stats.Revision, o.stats.At = revision, o.inv.opts.Now()
	o.mu.Unlock()
	if o.change == nil {
		if before.Islands().Version() != after.Islands().Version() {
			o.inv.changes.Publish(Change{All: true})
		}
		return
	}
	if old := o.kind.Get(before, ref); old != nil || object != nil {
		o.inv.changes.Publish(o.change(old, object))
	}
}

// logBad logs a value that cannot be read. The error names a place in it, and does not
// quote it at length.
func (o *observer[T]) logBad(item kvstore.Item, err error) {
	o.inv.opts.Logger.Error("a stored object cannot be read and is kept out: write it again",
		"kind", o.kind.Name, "key", item.Key, "revision", item.Revision, "error", err)
}

// decodeAll decodes on all processors. An object that cannot be read is nil.
func (o *observer[T]) decodeAll(items []kvstore.Item) (objects []*T, bad map[string]bool) {
	const stride = 64
	objects = make([]*T, len(items))
	errs := make([]error, len(items))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)/stride+1) {
		workers.Go(func() {
			in := model.NewInterner()
			for {
				start := int(next.Add(stride)) - stride
				if start >= len(items) {
					return
				}
				for i := start; i < min(start+stride, len(items)); i++ {
					objects[i], errs[i] = o.kind.Decode(model.Stored(items[i]), in)
				}
			}
		})
	}
	workers.Wait()
	bad = map[string]bool{}
	for i, err := range errs {
		if err != nil {
			o.logBad(items[i], err)
			bad[items[i].Key] = true
		}
	}
	return objects, bad
}
