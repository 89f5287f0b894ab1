package rendering

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// lru is a cache that is bounded by the bytes that its values take; the newest stays
// however large it is. Its owner holds a lock.
type lru[K comparable, V any] struct {
	entries     *simplelru.LRU[K, sized[V]]
	limit, size int
}

type sized[V any] struct {
	value V
	bytes int
}

// newLRU returns an empty cache. dropped is called with a value that is removed or
// replaced; nil: nothing is.
func newLRU[K comparable, V any](limit int, dropped func(V)) *lru[K, V] {
	l := &lru[K, V]{limit: limit}
	l.entries, _ = simplelru.NewLRU(math.MaxInt, func(_ K, s sized[V]) {
		l.size -= s.bytes
		if dropped != nil {
			dropped(s.value)
		}
	})
	return l
}

func (l *lru[K, V]) get(key K) V {
	s, _ := l.entries.Get(key)
	return s.value
}

func (l *lru[K, V]) put(key K, value V, bytes int) {
	l.entries.Remove(key)
	l.size += bytes
	l.entries.Add(key, sized[V]{value, bytes})
	for l.size > l.limit && l.entries.Len() > 1 {
		l.entries.RemoveOldest()
	}
}
