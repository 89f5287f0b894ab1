package snapshot

import "slices"

// table finds hosts by one kind of key. Nearly every key has one host.
type table[K comparable] struct {
	// first is the host that wins the key.
	first map[K]*Host
	// shared holds, in the order in which they win, all hosts of a key that has
	// several.
	shared map[K][]*Host
}

func newTable[K comparable](size int) table[K] {
	return table[K]{first: make(map[K]*Host, size), shared: make(map[K][]*Host)}
}

// insert adds a host to a key; a host that is there already stays once.
func (t *table[K]) insert(key K, h *Host) {
	list, several := t.shared[key]
	if !several {
		one := t.first[key]
		if one == nil {
			t.first[key] = h
			return
		}
		list = []*Host{one}
	}
	i, found := slices.BinarySearchFunc(list, h, (*Host).compare)
	if found {
		return
	}
	list = slices.Insert(list, i, h)
	t.shared[key], t.first[key] = list, list[0]
}

// remove takes a host off a key, where it is there.
func (t *table[K]) remove(key K, h *Host) {
	list, several := t.shared[key]
	if !several {
		if t.first[key] == h {
			delete(t.first, key)
		}
		return
	}
	i, found := slices.BinarySearchFunc(list, h, (*Host).compare)
	if !found {
		return
	}
	list = slices.Delete(list, i, i+1)
	t.first[key] = list[0]
	if len(list) == 1 {
		delete(t.shared, key)
	} else {
		t.shared[key] = list
	}
}

// owners appends all hosts of a key.
func (t *table[K]) owners(to []*Host, key K) []*Host {
	if list, several := t.shared[key]; several {
		return append(to, list...)
	}
	if h := t.first[key]; h != nil {
		return append(to, h)
	}
	return to
}
