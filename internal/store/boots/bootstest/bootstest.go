// Package bootstest keeps the newest boots of hosts, and their history, in memory: for tests of what uses a
// boots.Tracker.
package bootstest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
)

// Bucket is the bucket of the newest boots, and their history: a boots.Store and a boots.Archive.
type Bucket struct {
	kind kvstore.Kind
	// writing is held while a batch is written, and its observers are called.
	writing   sync.Mutex
	observers []kvstore.Observer

	mu       sync.Mutex
	items    map[string]kvstore.Item
	revision uint64
	history  []*v1.Boot
	kept     map[string]int64 // the newest number in the history, by host
	log      []string
	// refused and noHistory are the errors of batches and of former boots, and next takes the next batch.
	refused, noHistory error
	next               func(store func() (uint64, error)) (uint64, error)
}

// New returns an empty bucket.
func New() *Bucket {
	return &Bucket{kind: objects.Stored(kinds.Of(kinds.Boots)), items: map[string]kvstore.Item{}, kept: map[string]int64{}}
}

// Observe has an observer follow what is stored from now on.
func (b *Bucket) Observe(o kvstore.Observer) {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.observers = append(b.observers, o)
}

// Load has the observer of a server that starts read all boots.
func (b *Bucket) Load(o kvstore.Observer) {
	b.mu.Lock()
	items := slices.Collect(maps.Values(b.items))
	b.mu.Unlock()
	o.Load(items)
}

// Fail has the bucket refuse all batches, and FailHistory the history all boots, with an error; nil: none any more.
func (b *Bucket) Fail(err error) { b.set(func() { b.refused = err }) }

// FailHistory is Fail for the history.
func (b *Bucket) FailHistory(err error) { b.set(func() { b.noHistory = err }) }

// Next has f take the next batch. store stores it.
func (b *Bucket) Next(f func(store func() (uint64, error)) (uint64, error)) {
	b.set(func() { b.next = f })
}

func (b *Bucket) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// Stored returns a copy of the newest boot of a host; nil: there is none.
func (b *Bucket) Stored(host model.Ref) *v1.Boot {
	b.mu.Lock()
	value := b.items[host.String()].Value
	b.mu.Unlock()
	boot := &v1.Boot{}
	if value == nil || b.kind.Codec.Decode(value, boot) != nil {
		return nil
	}
	return boot
}

// History returns the former boots, in the order in which they came.
func (b *Bucket) History() (boots []*v1.Boot) {
	b.set(func() { boots = slices.Clone(b.history) })
	return boots
}

// Log has what was stored, in order: "stored NAMESPACE/NAME" for each revision of the bucket, and "kept NAMESPACE/NAME"
// for each boot that came into the history.
func (b *Bucket) Log() (log []string) {
	b.set(func() { log = slices.Clone(b.log) })
	return log
}

// PutForeign stores a boot as another server does, whatever is there.
func (b *Bucket) PutForeign(boot *v1.Boot) {
	b.ChangeForeign(model.Ref{Namespace: boot.Namespace, Name: boot.Host}, func(stored *v1.Boot) { *stored = *boot })
}

// ChangeForeign changes the stored boot of a host as another server does.
func (b *Bucket) ChangeForeign(host model.Ref, change func(*v1.Boot)) {
	b.writing.Lock()
	defer b.writing.Unlock()
	boot := cmp.Or(b.Stored(host), &v1.Boot{})
	change(boot)
	put := kvstore.Put{Key: host.String(), Object: boot}
	b.set(func() { put.Expect = b.items[put.Key].Revision })
	if _, err := b.putLocked([]kvstore.Put{put}); err != nil {
		panic(err)
	}
}

// PutAll implements boots.Store.
func (b *Bucket) PutAll(_ context.Context, puts []kvstore.Put) (last uint64, err error) {
	var f func(func() (uint64, error)) (uint64, error)
	b.set(func() { f, b.next, err = b.next, nil, b.refused })
	store := func() (uint64, error) {
		b.writing.Lock()
		defer b.writing.Unlock()
		return b.putLocked(puts)
	}
	switch {
	case err != nil:
		return 0, err
	case f != nil:
		return f(store)
	}
	return store()
}

func (b *Bucket) putLocked(puts []kvstore.Put) (last uint64, err error) {
	var items []kvstore.Item
	b.set(func() { items, err = b.store(puts) })
	for _, item := range items {
		for _, o := range b.observers {
			if item.Value == nil {
				o.Delete(item.Key, item.Revision)
			} else {
				o.Put(item)
			}
		}
		last = item.Revision
	}
	return last, err
}

// store stores all of a batch or nothing.
func (b *Bucket) store(puts []kvstore.Put) (items []kvstore.Item, err error) {
	conflict := &kvstore.ConflictError{}
	for i, put := range puts {
		var value []byte // nil removes
		if put.Object != nil {
			if value, err = b.kind.Codec.Encode(put.Object); err != nil {
				return nil, err
			}
		}
		if has := b.items[put.Key].Revision; has != put.Expect {
			conflict.Keys, conflict.Revisions = append(conflict.Keys, put.Key), append(conflict.Revisions, has)
		}
		items = append(items, kvstore.Item{Key: put.Key, Revision: b.revision + uint64(i) + 1, Value: value})
	}
	if len(conflict.Keys) > 0 {
		return nil, conflict
	}
	for i, item := range items {
		b.items[item.Key], b.revision = item, item.Revision
		if boot, ok := puts[i].Object.(*v1.Boot); ok {
			b.log = append(b.log, "stored "+boot.Namespace+"/"+boot.Name)
		}
	}
	return items, nil
}

// Append implements boots.Archive. As the history does, it takes no boot whose number is not above those that it has
// of the host.
func (b *Bucket) Append(_ context.Context, boots []*v1.Boot) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noHistory != nil {
		return b.noHistory
	}
	for _, boot := range boots {
		host := boot.Namespace + "/" + boot.Host
		if last, ok := b.kept[host]; !ok || boot.Number > last {
			b.kept[host], b.history = boot.Number, append(b.history, boot.DeepCopy())
			b.log = append(b.log, "kept "+boot.Namespace+"/"+boot.Name)
		}
	}
	return nil
}
