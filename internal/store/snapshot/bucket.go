package snapshot

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"glowplug/internal/store/kvstore"
)

// bucket is how far a bucket has been followed; Inventory.mu guards it.
type bucket struct {
	loaded   bool
	bad      map[string]struct{} // keys whose value cannot be read
	revision uint64
	at       time.Time
}

func (b *bucket) stats(objects int) BucketStats {
	return BucketStats{Loaded: b.loaded, Objects: objects, Bad: len(b.bad), Revision: b.revision, At: b.at}
}

// observer follows one bucket: it decodes outside the lock and applies inside.
type observer[T any] struct {
	inv    *Inventory
	bucket *bucket
	kind   string
	decode func(kvstore.Item, *interner) (*T, error)
	// build makes ready, outside the lock, the function that puts all objects in
	// the place of what was there.
	build func(objects []*T) (swap func())
	// put adds or, where object is nil, takes out one object under the lock, and
	// gives what is to be done after it, or nil.
	put func(ref Ref, object *T) (after func())
	// loaded gives what is to be done after a load; may be nil.
	loaded func() (after func())
}

// Hosts is the observer for the bucket of BareMetalHosts.
func (inv *Inventory) Hosts() kvstore.Observer {
	var old *hostIndex
	return &observer[Host]{
		inv: inv, bucket: &inv.hostBucket, kind: "BareMetalHost", decode: decodeHost,
		build: func(hosts []*Host) func() {
			x := newHostIndex(len(hosts))
			x.load(hosts)
			return func() { old, inv.hosts = inv.hosts, x }
		},
		put: inv.putHost,
		loaded: func() func() {
			changes := changesOfLoad(old, inv.hosts)
			old = nil
			return both(inv.report(changes), inv.changed(Change{All: true}))
		},
	}
}

// Configs is the observer for the bucket of IgnitionConfigs.
func (inv *Inventory) Configs() kvstore.Observer {
	return &observer[Config]{
		inv: inv, bucket: &inv.configBucket, kind: "IgnitionConfig", decode: decodeConfig,
		build: func(configs []*Config) func() {
			byRef, rules := indexConfigs(configs)
			above := indexLayers(configs)
			return func() { inv.configs, inv.rules, inv.above = byRef, rules, above }
		},
		put: func(ref Ref, c *Config) func() {
			old := inv.configs[ref]
			inv.putLayers(old, c)
			if c != nil {
				inv.configs[ref] = c
				inv.rules.Put(c.rule)
			} else {
				delete(inv.configs, ref)
				inv.rules.Delete(ref)
			}
			return both(inv.tell(old, c), inv.changed(Change{Config: c, OldConfig: old}))
		},
		loaded: func() func() { return both(inv.tellAll(), inv.changed(Change{All: true})) },
	}
}

// changed gives the call that tells of a change, or nil.
func (inv *Inventory) changed(c Change) func() {
	if inv.opts.OnChange == nil {
		return nil
	}
	return func() { inv.opts.OnChange(c) }
}

// both gives one call for two, each of which may be nil.
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
		inv: inv, bucket: &inv.imageBucket, kind: "ISCSICdrom", decode: decodeImage,
		build: func(images []*Image) func() {
			byRef := make(map[Ref]*Image, len(images))
			for _, i := range images {
				byRef[i.Ref] = i
			}
			return func() { inv.images = byRef }
		},
		put: func(ref Ref, i *Image) func() {
			old := inv.images[ref]
			if i == nil {
				delete(inv.images, ref)
			} else {
				inv.images[ref] = i
			}
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
		inv: inv, bucket: &inv.namespaceBucket, kind: "Namespace", decode: decodeNamespace,
		build: func(namespaces []*Namespace) func() {
			byName := make(map[string]*Namespace, len(namespaces))
			for _, n := range namespaces {
				byName[n.Name] = n
			}
			return func() { inv.scripts = byName }
		},
		put: func(ref Ref, n *Namespace) func() {
			// The key of a namespace has no slash, so that its name is read as
			// a namespace's.
			if n == nil {
				delete(inv.scripts, ref.Namespace)
			} else {
				inv.scripts[n.Name] = n
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
	var after func()
	o.inv.mu.Lock()
	swap()
	o.bucket.bad, o.bucket.loaded = bad, true
	o.seen(revision)
	o.inv.mu.Unlock()
	if o.loaded != nil {
		after = o.loaded()
	}
	if after != nil {
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
	o.inv.mu.Lock()
	after := o.put(refOf(item.Key), object)
	if err != nil {
		if o.bucket.bad == nil {
			o.bucket.bad = make(map[string]struct{})
		}
		o.bucket.bad[strings.Clone(item.Key)] = struct{}{}
	} else {
		delete(o.bucket.bad, item.Key)
	}
	o.seen(item.Revision)
	o.inv.mu.Unlock()
	if after != nil {
		after()
	}
}

// Delete implements kvstore.Observer.
func (o *observer[T]) Delete(key string, revision uint64) {
	o.inv.mu.Lock()
	after := o.put(refOf(key), nil)
	delete(o.bucket.bad, key)
	o.seen(revision)
	o.inv.mu.Unlock()
	if after != nil {
		after()
	}
}

func (o *observer[T]) seen(revision uint64) {
	o.bucket.revision, o.bucket.at = revision, o.inv.opts.Now()
}

// complain logs a value that cannot be read. The error names a place in it,
// never its contents at length.
func (o *observer[T]) complain(item kvstore.Item, err error) {
	o.inv.opts.Logger.Error("a stored object cannot be read and is kept out: write it anew",
		"kind", o.kind, "key", item.Key, "revision", item.Revision, "error", err)
}

// decodeAll decodes on all processors. The objects come in the order of items,
// without those that cannot be read.
func (o *observer[T]) decodeAll(items []kvstore.Item) (objects []*T, bad map[string]struct{}) {
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
		if bad == nil {
			bad = make(map[string]struct{})
		}
		bad[items[i].Key] = struct{}{}
	}
	return objects, bad
}
