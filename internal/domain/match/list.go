package match

import "slices"

// order compares two rules: the one that goes first is less.
type order func(a, b *Rule) int

// op changes a list that is sorted by compare: insert or remove.
type op func(list []*Rule, r *Rule, compare order) []*Rule

func insert(list []*Rule, r *Rule, compare order) []*Rule {
	i, found := slices.BinarySearchFunc(list, r, compare)
	if found {
		return list
	}
	return slices.Insert(list, i, r)
}

func remove(list []*Rule, r *Rule, compare order) []*Rule {
	i, found := slices.BinarySearchFunc(list, r, compare)
	if !found {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// edit changes the list of one key and gives the map, made where it is nil. A
// list that became empty is taken out.
func edit[K comparable](lists map[K][]*Rule, key K, r *Rule, op op, compare order) map[K][]*Rule {
	list := op(lists[key], r, compare)
	if len(list) == 0 {
		delete(lists, key)
		return lists
	}
	if lists == nil {
		lists = make(map[K][]*Rule)
	}
	lists[key] = list
	return lists
}
