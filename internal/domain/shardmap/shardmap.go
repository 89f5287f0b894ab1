// Package shardmap is a map that is never changed: an edit returns the next map,
// which shares nearly all of its entries with the one before.
package shardmap

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
)

const (
	// groupSize is the number of shards of a group, of a map that has more than one
	// group.
	groupSize = 64
	// shardSize is the average number of entries from which on there are twice as
	// many shards.
	shardSize = 56
)

var seed = maphash.MakeSeed()

// Map has its entries in small maps, the shards, of which an edit copies one: an
// edit costs as much with a hundred thousand entries as with a hundred, and a
// lookup little more than that of a Go map. The zero value is an empty map.
type Map[K comparable, V any] struct {
	// groups are a power of two, and so are the shards in each of them; all have as
	// many.
	groups [][]map[K]V
	size   int
}

// Sized returns an empty map with room for a number of entries.
func Sized[K comparable, V any](entries int) Map[K, V] {
	shards := 1
	for shards*shardSize < entries {
		shards *= 2
	}
	m := Map[K, V]{groups: make([][]map[K]V, max(1, shards/groupSize))}
	for g := range m.groups {
		m.groups[g] = make([]map[K]V, min(shards, groupSize))
		for s := range m.groups[g] {
			m.groups[g][s] = make(map[K]V, entries/shards)
		}
	}
	return m
}

// Get returns the value of a key, or zero.
func (m *Map[K, V]) Get(key K) V {
	if m.size == 0 {
		var none V
		return none
	}
	g, s := m.place(key)
	return m.groups[g][s][key]
}

// Has reports whether a key has a value.
func (m *Map[K, V]) Has(key K) bool {
	if m.size == 0 {
		return false
	}
	g, s := m.place(key)
	_, ok := m.groups[g][s][key]
	return ok
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return m.size }

// All walks the entries, in no order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, group := range m.groups {
			for _, shard := range group {
				for k, v := range shard {
					if !yield(k, v) {
						return
					}
				}
			}
		}
	}
}

// place is where the shard of a key is. There is at least one shard.
func (m *Map[K, V]) place(key K) (group, shard uint64) {
	first := uint64(len(m.groups[0]))
	if first == 1 {
		return 0, 0
	}
	h := maphash.Comparable(seed, key)
	return h / groupSize & uint64(len(m.groups)-1), h & (first - 1)
}

// With returns the map with a value for a key.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	if m.full() {
		m = m.grown()
		m.Add(key, value)
		return m
	}
	g, s := m.copyShard(key)
	shard := m.groups[g][s]
	m.size -= len(shard)
	shard[key] = value
	m.size += len(shard)
	return m
}

// Without returns the map without a key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	switch {
	case !m.Has(key):
		return m
	case m.size == 1:
		return Map[K, V]{}
	}
	g, s := m.copyShard(key)
	delete(m.groups[g][s], key)
	m.size--
	return m
}

// Add is With for a map that nobody else has yet, which it changes.
func (m *Map[K, V]) Add(key K, value V) {
	if m.full() {
		*m = m.grown()
	}
	g, s := m.place(key)
	shard := m.groups[g][s]
	m.size -= len(shard)
	shard[key] = value
	m.size += len(shard)
}

// copyShard has the map, which is a copy itself, keep a shard of its own.
func (m *Map[K, V]) copyShard(key K) (group, shard uint64) {
	group, shard = m.place(key)
	m.groups = slices.Clone(m.groups)
	m.groups[group] = slices.Clone(m.groups[group])
	m.groups[group][shard] = maps.Clone(m.groups[group][shard])
	return group, shard
}

// full reports whether another entry needs more shards.
func (m *Map[K, V]) full() bool {
	return m.groups == nil || m.size >= shardSize*len(m.groups)*len(m.groups[0])
}

// grown is a copy with twice as many shards.
func (m *Map[K, V]) grown() Map[K, V] {
	next := Sized[K, V](max(1, 2*m.size))
	for k, v := range m.All() {
		next.Add(k, v)
	}
	return next
}
