// Package objects keeps the objects of a bucket in memory as they change.
package objects

import (
	"encoding/json"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"glowplug/internal/store/kvstore"
)

// Observer follows a bucket of objects of the type T.
type Observer[T any] struct {
	// Lock is held while the functions below are called.
	Lock sync.Locker
	// Clear removes all objects of the bucket.
	Clear func()
	// Put sets an object or, for nil, removes it. An object without a namespace has only a name.
	Put func(at types.NamespacedName, object *T)
	// Unreadable is called without the lock for an object that cannot be read, and that counts as removed.
	Unreadable func(item kvstore.Item, err error)
}

var _ kvstore.Observer = follower[int]{}

// Follow returns the observer of the bucket.
func (o *Observer[T]) Follow() kvstore.Observer { return follower[T]{o} }

type follower[T any] struct{ *Observer[T] }

// Load implements kvstore.Observer.
func (f follower[T]) Load(items []kvstore.Item) {
	objects := map[types.NamespacedName]*T{}
	for _, item := range items {
		objects[keyOf(item.Key)] = f.decode(item)
	}
	f.Lock.Lock()
	defer f.Lock.Unlock()
	f.Clear()
	for at, object := range objects {
		f.Observer.Put(at, object)
	}
}

// Put implements kvstore.Observer.
func (f follower[T]) Put(item kvstore.Item) {
	object := f.decode(item)
	f.Lock.Lock()
	defer f.Lock.Unlock()
	f.Observer.Put(keyOf(item.Key), object)
}

// Delete implements kvstore.Observer.
func (f follower[T]) Delete(key string, _ uint64) {
	f.Lock.Lock()
	defer f.Lock.Unlock()
	f.Observer.Put(keyOf(key), nil)
}

func (f follower[T]) decode(item kvstore.Item) *T {
	object := new(T)
	if err := json.Unmarshal(item.Value, object); err != nil {
		f.Unreadable(item, err)
		return nil
	}
	if meta, ok := any(object).(metav1.ObjectMetaAccessor); ok {
		meta.GetObjectMeta().SetManagedFields(nil) // not needed in memory
	}
	return object
}

// keyOf reads a bucket key: namespace/name, or the name of an object without a namespace.
func keyOf(key string) types.NamespacedName {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return types.NamespacedName{Name: key}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
