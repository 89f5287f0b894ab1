package snapshot

import (
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"glowplug/internal/domain/shardmap"
	"glowplug/internal/store/kvstore"
)

// bucket is the state of a bucket that is followed. Objects and Bad are set by report.
type bucket struct {
	stats BucketStats
	// bad are the keys whose value cannot be read.
	bad shardmap.Map[string, struct{}]
}

func (b *bucket) report(objects int) BucketStats {
	stats := b.stats
	stats.Objects, stats.Bad = objects, b.bad.Len()
	return stats
}

// observer follows one bucket. It decodes without the lock of the inventory.
type observer[T any] struct {
	inv    *Inventory
	kind   string
	bucket func(*state) *bucket
	decode func(kvstore.Item, *interner) (*T, error)
	// put puts an object, which may be nil, in place of the one with that name.
	put func(s *state, edit *shardmap.Edit, ref Ref, object *T)
	// replace takes over the objects and the bucket of another state.
	replace func(s *state, from *state)
	// derive derives what depends on an object that was put; nil: nothing does. After a load all is derived.
	derive func(s *state, edit *shardmap.Edit, ref Ref)
	// changed is called after a change was published, and loaded after a load; nil: changed is, without a name.
	changed func(before, after *state, ref Ref)
	loaded  func(before, after *state)
}

// Hosts returns the observer for the bucket of BareMetalHosts.
func (inv *Inventory) Hosts() kvstore.Observer {
	return &observer[Host]{
		inv: inv, kind: "BareMetalHost", decode: decodeHost,
		bucket:  func(s *state) *bucket { return &s.hosts.bucket },
		put:     func(s *state, edit *shardmap.Edit, ref Ref, h *Host) { s.hosts.put(edit, ref, h) },
		replace: func(s, from *state) { s.hosts = from.hosts },
		changed: func(before, after *state, ref Ref) {
			old, h := before.hosts.byRef.get(ref), after.hosts.byRef.get(ref)
			// Most updates are of the status, which leaves conflicts as they are.
			if old == nil || h == nil || !h.sameIdentity(old) {
				around := map[Ref]bool{}
				before.hosts.addSharers(around, old)
				after.hosts.addSharers(around, h)
				inv.reportConflicts(before, after, around)
			}
			inv.opts.OnChange(Change{Host: h, OldHost: old})
		},
		loaded: func(before, after *state) {
			around := before.hosts.conflicting()
			maps.Copy(around, after.hosts.conflicting())
			inv.reportConflicts(before, after, around)
			inv.opts.OnChange(Change{All: true})
		},
	}
}

// Configs returns the observer for the bucket of IgnitionConfigs.
func (inv *Inventory) Configs() kvstore.Observer {
	return &observer[Config]{
		inv: inv, kind: "IgnitionConfig", decode: decodeConfig,
		bucket: func(s *state) *bucket { return &s.configs.bucket },
		put: func(s *state, edit *shardmap.Edit, ref Ref, c *Config) {
			s.configs.put(edit, ref, c, s.isIsland(ref.Namespace))
		},
		replace: func(s, from *state) {
			s.configs = from.configs
			s.configs.rules.SetIslands(new(shardmap.Edit), s.isIsland)
		},
		changed: func(before, after *state, ref Ref) {
			old, c := before.configs.byRef.get(ref), after.configs.byRef.get(ref)
			if old != nil || c != nil {
				after.callFollowers(old, c)
			}
			inv.opts.OnChange(Change{Config: c, OldConfig: old})
		},
		loaded: func(_, after *state) {
			// A config with layers may have been merged over others than are there now, and a
			// foreign one was written by another program.
			for _, c := range after.unsure() {
				after.callFollowers(nil, c)
			}
			inv.opts.OnChange(Change{All: true})
		},
	}
}

// Images returns the observer for the bucket of ISCSICdroms.
func (inv *Inventory) Images() kvstore.Observer {
	return &observer[Image]{
		inv: inv, kind: "ISCSICdrom", decode: decodeImage,
		bucket:  func(s *state) *bucket { return &s.images.bucket },
		put:     func(s *state, edit *shardmap.Edit, ref Ref, i *Image) { s.images.put(edit, ref, i) },
		replace: func(s, from *state) { s.images = from.images },
		changed: func(before, after *state, ref Ref) {
			old, i := before.images.byRef.get(ref), after.images.byRef.get(ref)
			inv.opts.OnChange(Change{Image: i, OldImage: old, All: configOf(old) != configOf(i)})
		},
		loaded: func(_, _ *state) { inv.opts.OnChange(Change{All: true}) },
	}
}

// configOf returns the config that an image names; zero where there is no image.
func configOf(i *Image) Ref {
	if i == nil {
		return Ref{}
	}
	return i.Config
}

// Namespaces returns the observer for the bucket of Namespaces. A key has no slash there:
// it is read as a namespace without a name.
func (inv *Inventory) Namespaces() kvstore.Observer {
	return &observer[Namespace]{
		inv: inv, kind: "Namespace", decode: decodeNamespace,
		bucket: func(s *state) *bucket { return &s.namespaces.bucket },
		put: func(s *state, edit *shardmap.Edit, ref Ref, n *Namespace) {
			s.namespaces.byRef.put(edit, ref, n)
		},
		replace: func(s, from *state) { s.namespaces = from.namespaces },
		derive:  deriveOfNamespace, changed: inv.reportIslands,
	}
}

// Load implements kvstore.Observer.
func (o *observer[T]) Load(items []kvstore.Item) {
	objects, bad := o.decodeAll(items)
	next, edit := newState(IsolateTenants), new(shardmap.Edit)
	b := o.bucket(next)
	b.bad, b.stats.Loaded, b.stats.At = bad, true, o.inv.opts.Now()
	for i, item := range items {
		b.stats.Revision = max(b.stats.Revision, item.Revision)
		if objects[i] != nil {
			o.put(next, edit, refOf(item.Key), objects[i])
		}
	}
	before, after := o.inv.update(func(s *state) {
		o.replace(s, next)
		if o.derive != nil {
			s.deriveAllIslands(edit)
		}
	})
	if o.loaded == nil {
		o.changed(before, after, Ref{})
		return
	}
	o.loaded(before, after)
}

// Put implements kvstore.Observer.
func (o *observer[T]) Put(item kvstore.Item) {
	object, err := o.decode(item, nil)
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
	ref, edit := refOf(key), new(shardmap.Edit)
	before, after := o.inv.update(func(next *state) {
		o.put(next, edit, ref, object)
		if o.derive != nil {
			o.derive(next, edit, ref)
		}
		b := o.bucket(next)
		if isBad {
			b.bad.Set(edit, strings.Clone(key), struct{}{})
		} else {
			b.bad.Delete(edit, key)
		}
		b.stats.Revision, b.stats.At = revision, o.inv.opts.Now()
	})
	o.changed(before, after, ref)
}

// logBad logs a value that cannot be read. The error names a place in it, and does not
// quote it at length.
func (o *observer[T]) logBad(item kvstore.Item, err error) {
	o.inv.opts.Logger.Error("a stored object cannot be read and is kept out: write it again",
		"kind", o.kind, "key", item.Key, "revision", item.Revision, "error", err)
}

// decodeAll decodes on all processors. An object that cannot be read is nil.
func (o *observer[T]) decodeAll(items []kvstore.Item) (objects []*T, bad shardmap.Map[string, struct{}]) {
	const stride = 64
	objects = make([]*T, len(items))
	errs := make([]error, len(items))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)/stride+1) {
		workers.Go(func() {
			in := newInterner()
			for {
				start := int(next.Add(stride)) - stride
				if start >= len(items) {
					return
				}
				for i := start; i < min(start+stride, len(items)); i++ {
					objects[i], errs[i] = o.decode(items[i], in)
				}
			}
		})
	}
	workers.Wait()
	edit := new(shardmap.Edit)
	for i, err := range errs {
		if err != nil {
			o.logBad(items[i], err)
			bad.Set(edit, items[i].Key, struct{}{})
		}
	}
	return objects, bad
}
