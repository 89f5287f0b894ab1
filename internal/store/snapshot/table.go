package snapshot

import (
	"slices"

	"glowplug/internal/domain/shardmap"
)

// ranked is an object that wins or loses what it shares with another.
type ranked[V any] interface {
	comparable
	compare(other V) int
}

// table finds objects by one kind of key. Nearly every key has one object.
type table[K comparable, V ranked[V]] struct {
	// first is the object that wins the key.
	first shardmap.Map[K, V]
	// shared holds, in the order in which they win, all objects of a key that has
	// several.
	shared shardmap.Map[K, []V]
}

// sized returns an empty table with room for as many hosts.
func sized[K comparable](hosts int) table[K, *Host] {
	return table[K, *Host]{first: shardmap.Sized[K, *Host](hosts)}
}

// edit is what happens to an object at a key.
type edit int

const (
	// adding puts an object into a table that nobody else has yet. Objects come in
	// the order in which they win.
	adding edit = iota
	// inserting puts an object in the place of the one of its name and age.
	inserting
	// removing takes an object off, where it is there.
	removing
)

func (t *table[K, V]) edit(e edit, key K, object V) {
	switch e {
	case adding:
		t.add(key, object)
	case inserting:
		t.insert(key, object)
	case removing:
		t.remove(key, object)
	}
}

func (t *table[K, V]) add(key K, object V) {
	if !t.first.Has(key) {
		t.first.Add(key, object)
		return
	}
	if list := t.owners(key); list[len(list)-1] != object {
		t.shared.Add(key, append(list, object))
	}
}

func (t *table[K, V]) insert(key K, object V) {
	list := t.owners(key)
	i, found := slices.BinarySearchFunc(list, object, V.compare)
	rest := list[i:]
	if found {
		rest = list[i+1:]
	}
	t.put(key, slices.Concat(list[:i], []V{object}, rest))
}

func (t *table[K, V]) remove(key K, object V) {
	list := t.owners(key)
	if i, found := slices.BinarySearchFunc(list, object, V.compare); found {
		t.put(key, slices.Concat(list[:i], list[i+1:]))
	}
}

// put has a key have these objects.
func (t *table[K, V]) put(key K, list []V) {
	if len(list) == 0 {
		t.first = t.first.Without(key)
	} else if t.first.Get(key) != list[0] {
		t.first = t.first.With(key, list[0])
	}
	if len(list) > 1 {
		t.shared = t.shared.With(key, list)
	} else {
		t.shared = t.shared.Without(key)
	}
}

// owners returns all objects of a key; they must not be changed.
func (t *table[K, V]) owners(key K) []V {
	if list := t.shared.Get(key); list != nil {
		return list
	}
	if t.first.Has(key) {
		return []V{t.first.Get(key)}
	}
	return nil
}
