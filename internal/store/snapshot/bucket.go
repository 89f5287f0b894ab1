package snapshot

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/shardmap"
	"glowplug/internal/store/kvstore"
)

// bucket is how far a bucket has been followed.
type bucket struct {
	loaded bool
	// bad are the keys whose value cannot be read.
	bad      shardmap.Map[string, struct{}]
	revision uint64
	at       time.Time
}

func (b *bucket) stats(objects int) BucketStats {
	return BucketStats{Loaded: b.loaded, Objects: objects, Bad: b.bad.Len(), Revision: b.revision, At: b.at}
}

// seen has the bucket followed up to a revision.
func (b *bucket) seen(revision uint64, at time.Time) { b.revision, b.at = revision, at }

// observer follows one bucket: it decodes before it has the lock, and applies then.
type observer[T any] struct {
	inv    *Inventory
	bucket func(*state) *bucket
	kind   string
	decode func(kvstore.Item, *interner) (*T, error)
	// build makes ready, without the lock, the function that puts all objects in
	// the place of what was there.
	build func(objects []*T) (swap func(next *state))
	// put adds or, where object is nil, takes out one object, and returns what is to
	// be done once the state is published, or nil.
	put func(next *state, ref Ref, object *T) (after func())
	// loaded returns what is to be done after a load; may be nil.
	loaded func() (after func())
}

// Hosts is the observer for the bucket of BareMetalHosts.
func (inv *Inventory) Hosts() kvstore.Observer {
	var old, loaded *hostIndex
	return &observer[Host]{
		inv: inv, bucket: func(s *state) *bucket { return &s.hostBucket }, kind: "BareMetalHost", decode: decodeHost,
		build: func(hosts []*Host) func(*state) {
			loaded = indexHosts(hosts)
			return func(next *state) { old, next.hosts = next.hosts, loaded }
		},
		put: inv.putHost,
		loaded: func() func() {
			changes := changesOfLoad(old, loaded)
			old, loaded = nil, nil
			return both(inv.report(changes), inv.changed(Change{All: true}))
		},
	}
}

// Configs is the observer for the bucket of IgnitionConfigs.
func (inv *Inventory) Configs() kvstore.Observer {
	return &observer[Config]{
		inv: inv, bucket: func(s *state) *bucket { return &s.configBucket }, kind: "IgnitionConfig", decode: decodeConfig,
		build: func(configs []*Config) func(*state) {
			x := indexConfigs(configs)
			return func(next *state) { next.configs = x }
		},
		put: func(next *state, ref Ref, c *Config) func() {
			old := next.configs.byRef.Get(ref)
			next.configs.put(old, c)
			return both(inv.tell(old, c), inv.changed(Change{Config: c, OldConfig: old}))
		},
		loaded: func() func() { return both(inv.tellAll(), inv.changed(Change{All: true})) },
	}
}

// changed returns the call that tells of a change, or nil.
func (inv *Inventory) changed(c Change) func() {
	if inv.opts.OnChange == nil {
		return nil
	}
	return func() { inv.opts.OnChange(c) }
}

// both returns one call for two, each of which may be nil.
func both(a, b func()) func() {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func() { a(); b() }
}

// Images is the observer for the bucket of ISCSICdroms.
func (inv *Inventory) Images() kvstore.Observer {
	return &observer[Image]{
		inv: inv, bucket: func(s *state) *bucket { return &s.imageBucket }, kind: "ISCSICdrom", decode: decodeImage,
		build: func(images []*Image) func(*state) {
			x := indexImages(images)
			return func(next *state) { next.images = x }
		},
		put: func(next *state, ref Ref, i *Image) func() {
			old := next.images.byRef.Get(ref)
			next.images.put(old, i)
			return inv.changed(Change{Image: i, OldImage: old, All: configOf(old) != configOf(i)})
		},
		loaded: func() func() { return inv.changed(Change{All: true}) },
	}
}

// configOf is the config that an image names; zero where there is no image.
func configOf(i *Image) Ref {
	if i == nil {
		return Ref{}
	}
	return i.Config
}

// Namespaces is the observer for the bucket of Namespaces.
func (inv *Inventory) Namespaces() kvstore.Observer {
	return &observer[Namespace]{
		inv: inv, bucket: func(s *state) *bucket { return &s.namespaceBucket }, kind: "Namespace", decode: decodeNamespace,
		build: func(namespaces []*Namespace) func(*state) {
			var byName shardmap.Map[string, *Namespace]
			for _, n := range namespaces {
				byName.Add(n.Name, n)
			}
			return func(next *state) { next.namespaces = byName }
		},
		put: func(next *state, ref Ref, n *Namespace) func() {
			// The key of a namespace has no slash, so that its name is read as
			// a namespace's.
			if n == nil {
				next.namespaces = next.namespaces.Without(ref.Namespace)
			} else {
				next.namespaces = next.namespaces.With(n.Name, n)
			}
			return nil
		},
	}
}

// Load implements kvstore.Observer.
func (o *observer[T]) Load(items []kvstore.Item) {
	objects, bad := o.decodeAll(items)
	swap := o.build(objects)
	var revision uint64
	for _, item := range items {
		revision = max(revision, item.Revision)
	}
	o.inv.update(func(next *state) {
		swap(next)
		b := o.bucket(next)
		b.bad, b.loaded = bad, true
		b.seen(revision, o.inv.opts.Now())
	})
	if o.loaded == nil {
		return
	}
	if after := o.loaded(); after != nil {
		after()
	}
}

// Put implements kvstore.Observer.
func (o *observer[T]) Put(item kvstore.Item) {
	object, err := o.decode(item, nil)
	if err != nil {
		o.complain(item, err)
		object = nil
	}
	o.apply(item.Key, object, item.Revision, err != nil)
}

// Delete implements kvstore.Observer.
func (o *observer[T]) Delete(key string, revision uint64) { o.apply(key, nil, revision, false) }

// apply puts an object, or nothing where it is nil, in the place of what has that
// key.
func (o *observer[T]) apply(key string, object *T, revision uint64, bad bool) {
	var after func()
	o.inv.update(func(next *state) {
		after = o.put(next, refOf(key), object)
		b := o.bucket(next)
		if bad {
			b.bad = b.bad.With(strings.Clone(key), struct{}{})
		} else {
			b.bad = b.bad.Without(key)
		}
		b.seen(revision, o.inv.opts.Now())
	})
	if after != nil {
		after()
	}
}

// complain logs a value that cannot be read. The error names a place in it,
// never its contents at length.
func (o *observer[T]) complain(item kvstore.Item, err error) {
	o.inv.opts.Logger.Error("a stored object cannot be read and is kept out: write it anew",
		"kind", o.kind, "key", item.Key, "revision", item.Revision, "error", err)
}

// decodeAll decodes on all processors. The objects come in the order of items,
// without those that cannot be read.
func (o *observer[T]) decodeAll(items []kvstore.Item) (objects []*T, bad shardmap.Map[string, struct{}]) {
	const stride = 64
	decoded := make([]*T, len(items))
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
					decoded[i], errs[i] = o.decode(items[i], in)
				}
			}
		})
	}
	workers.Wait()
	objects = decoded[:0]
	for i, err := range errs {
		if err == nil {
			objects = append(objects, decoded[i])
			continue
		}
		o.complain(items[i], err)
		bad.Add(items[i].Key, struct{}{})
	}
	return objects, bad
}
