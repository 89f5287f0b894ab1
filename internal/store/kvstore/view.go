package kvstore

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// View is what a bucket held at a revision. It does not change.
type View struct {
	bucket *bucket
	snap   snapshot
}

// ViewOf returns what a bucket holds, as new as a read with a resourceVersion has to be.
func ViewOf(ctx context.Context, s *Store, resourceVersion string) (View, error) {
	if err := s.awaitRevision(ctx, resourceVersion); err != nil {
		return View{}, err
	}
	return View{s.bucket, s.contents.mirror.current()}, nil
}

// ViewAt returns what a bucket held at a revision; false: that is not known any more, or not yet.
func ViewAt(s *Store, revision uint64) (View, bool) {
	snap, ok := s.contents.mirror.at(revision)
	return View{s.bucket, snap}, ok
}

// Decode reads the object of an item.
func (v View) Decode(item Item, into runtime.Object) error {
	return v.bucket.decode(item.Key, item.Value, item.Revision, into)
}

// HoldItem takes what an item of a list needs in memory, whose value has so many bytes, from the budget of the
// request. Its error is 429.
func HoldItem(ctx context.Context, bytes int) error {
	return hold(ctx, int64(bytes)*readFactor+itemBytes)
}

// Revision is that of the view.
func (v View) Revision() uint64 { return v.snap.rev }

// Get returns the item of a bucket key.
func (v View) Get(key string) (Item, bool) {
	e, ok := v.snap.tree.Get(&entry{Item: Item{Key: key}})
	if !ok {
		return Item{}, false
	}
	return e.Item, true
}

// Each calls f with the items whose bucket keys have a prefix, in the order of the keys.
func (v View) Each(prefix string, f func(Item)) {
	v.snap.tree.AscendGreaterOrEqual(&entry{Item: Item{Key: prefix}}, func(e *entry) bool {
		if !strings.HasPrefix(e.Key, prefix) {
			return false
		}
		f(e.Item)
		return true
	})
}
