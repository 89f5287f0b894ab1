// Package shardmap is a map for many readers and one writer: an Edit leaves copies of
// the map from before as they are, and shares nearly all entries with them.
package shardmap

import (
	"hash/maphash"
	"iter"
	"slices"
)

const (
	// groupSize is the number of shards of a group, of a map that has more than one
	// group.
	groupSize = 64
	// shardSize is the average number of entries at which the number of shards doubles.
	shardSize = 8
)

var seed = maphash.MakeSeed()

// Map has its entries in short lists, the shards, of which an edit copies one: an edit
// costs as much with a hundred thousand entries as with a hundred, and a lookup no more
// than that of a Go map. The zero value is an empty map.
type Map[K comparable, V any] struct {
	// The number of groups is a power of two, and so is that of the shards of a group,
	// which all groups have.
	groups []*group[K, V]
	size   int
}

type group[K comparable, V any] struct {
	// edit is the one that made the group, and may change it.
	edit   *Edit
	shards [][]entry[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Edit is a series of changes of maps, which are not copied before it has ended. It saves
// copies where the changes are many.
type Edit struct{ _ bool }

// Get returns the value of a key, or zero.
func (m *Map[K, V]) Get(key K) V {
	if e := m.find(key); e != nil {
		return e.value
	}
	var none V
	return none
}

// Has reports whether a key has a value.
func (m *Map[K, V]) Has(key K) bool { return m.find(key) != nil }

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return m.size }

// All returns the entries, in no order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, g := range m.groups {
			for _, shard := range g.shards {
				for _, e := range shard {
					if !yield(e.key, e.value) {
						return
					}
				}
			}
		}
	}
}

func (m *Map[K, V]) find(key K) *entry[K, V] {
	if m.size == 0 {
		return nil
	}
	g, s := m.place(key)
	shard := m.groups[g].shards[s]
	for i := range shard {
		if shard[i].key == key {
			return &shard[i]
		}
	}
	return nil
}

// place returns the position of a key's shard. There is at least one shard.
func (m *Map[K, V]) place(key K) (group, shard uint64) {
	shards := uint64(len(m.groups[0].shards))
	if shards == 1 {
		return 0, 0
	}
	h := maphash.Comparable(seed, key)
	return h / groupSize & uint64(len(m.groups)-1), h & (shards - 1)
}

// Set gives a key a value.
func (m *Map[K, V]) Set(edit *Edit, key K, value V) {
	if m.groups == nil || m.size >= shardSize*len(m.groups)*len(m.groups[0].shards) {
		m.grow(edit)
	}
	shard := m.ownShard(edit, key)
	added := []entry[K, V]{{key, value}}
	if i := indexOf(*shard, key); i >= 0 {
		*shard = slices.Concat((*shard)[:i], added, (*shard)[i+1:])
		return
	}
	*shard = slices.Concat(*shard, added)
	m.size++
}

// Delete removes a key.
func (m *Map[K, V]) Delete(edit *Edit, key K) {
	switch {
	case !m.Has(key):
	case m.size == 1:
		*m = Map[K, V]{}
	default:
		shard := m.ownShard(edit, key)
		i := indexOf(*shard, key)
		*shard = slices.Concat((*shard)[:i], (*shard)[i+1:])
		m.size--
	}
}

func indexOf[K comparable, V any](shard []entry[K, V], key K) int {
	return slices.IndexFunc(shard, func(e entry[K, V]) bool { return e.key == key })
}

// ownShard returns the shard of a key in a group that belongs to an edit.
func (m *Map[K, V]) ownShard(edit *Edit, key K) *[]entry[K, V] {
	g, s := m.place(key)
	if m.groups[g].edit != edit {
		m.groups = slices.Clone(m.groups)
		m.groups[g] = &group[K, V]{edit, slices.Clone(m.groups[g].shards)}
	}
	return &m.groups[g].shards[s]
}

// grow doubles the number of shards.
func (m *Map[K, V]) grow(edit *Edit) {
	before, shards := *m, 1
	for shards*shardSize <= m.size {
		shards *= 2
	}
	*m = Map[K, V]{groups: make([]*group[K, V], max(1, shards/groupSize)), size: m.size}
	for g := range m.groups {
		m.groups[g] = &group[K, V]{edit, make([][]entry[K, V], min(shards, groupSize))}
	}
	for key, value := range before.All() {
		shard := m.ownShard(edit, key)
		*shard = append(*shard, entry[K, V]{key, value})
	}
}

// SetListed inserts a value into the sorted list of a key, in place of one that compares
// equal, or removes it from there. A key without values has no list.
func SetListed[K comparable, V any](
	edit *Edit, m *Map[K, []V], key K, value V, isListed bool, compare func(a, b V) int,
) {
	list := m.Get(key)
	i, found := slices.BinarySearchFunc(list, value, compare)
	rest := list[i:]
	if found {
		rest = list[i+1:]
	}
	switch {
	case isListed:
		m.Set(edit, key, slices.Concat(list[:i], []V{value}, rest))
	case found && len(list) == 1:
		m.Delete(edit, key)
	case found:
		m.Set(edit, key, slices.Concat(list[:i], rest))
	}
}
