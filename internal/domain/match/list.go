package match

import (
	"slices"

	"glowplug/internal/domain/shardmap"
)

// order compares two rules: the one that goes first is less.
type order func(a, b *Rule) int

// lists are the rules of each key, in the order in which they win.
type lists[K comparable] = shardmap.Map[K, []*Rule]

// edit changes lists: it inserts a rule or removes one.
type edit struct {
	list func(list []*Rule, r *Rule, compare order) []*Rule
	// building is true for lists that nobody else has yet.
	building bool
}

var (
	inserting = edit{list: insert}
	removing  = edit{list: remove}
	// building appends: the rules come in the order in which they win.
	building = edit{building: true, list: func(list []*Rule, r *Rule, compare order) []*Rule {
		if i, _ := slices.BinarySearchFunc(list, r, compare); i < len(list) {
			return insert(list, r, compare)
		}
		return append(list, r)
	}}
)

// insert returns a list with a rule, which may be in it already.
func insert(list []*Rule, r *Rule, compare order) []*Rule {
	i, found := slices.BinarySearchFunc(list, r, compare)
	if found {
		return list
	}
	return slices.Concat(list[:i], []*Rule{r}, list[i:])
}

// remove returns a list without a rule.
func remove(list []*Rule, r *Rule, compare order) []*Rule {
	i, found := slices.BinarySearchFunc(list, r, compare)
	if !found {
		return list
	}
	return slices.Concat(list[:i], list[i+1:])
}

// editList changes the list of one key. A list that became empty is taken out.
func editList[K comparable](m *lists[K], key K, r *Rule, e edit, compare order) {
	list := e.list(m.Get(key), r, compare)
	switch {
	case len(list) == 0:
		*m = m.Without(key)
	case e.building:
		m.Add(key, list)
	default:
		*m = m.With(key, list)
	}
}
