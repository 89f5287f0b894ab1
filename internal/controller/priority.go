package controller

import "slices"

// priorityQueue is a queue of client-go's that returns keys of low priority after all
// others, each in the order in which they came.
type priorityQueue[K comparable] struct {
	isLow         func(K) bool
	normal, later []K
}

// Touch is called for a key that is queued already. It keeps its place, unless its
// priority has become normal.
func (q *priorityQueue[K]) Touch(key K) {
	if len(q.later) == 0 || q.isLow(key) {
		return
	}
	if i := slices.Index(q.later, key); i >= 0 {
		q.later = slices.Delete(q.later, i, i+1)
		q.normal = append(q.normal, key)
	}
}

// Push adds a key.
func (q *priorityQueue[K]) Push(key K) {
	if q.isLow(key) {
		q.later = append(q.later, key)
		return
	}
	q.normal = append(q.normal, key)
}

// Len returns the number of keys.
func (q *priorityQueue[K]) Len() int { return len(q.normal) + len(q.later) }

// Pop removes the next key and returns it.
func (q *priorityQueue[K]) Pop() K {
	from := &q.normal
	if len(*from) == 0 {
		from = &q.later
	}
	key := (*from)[0]
	var zero K
	(*from)[0] = zero // so that the array does not keep it
	*from = (*from)[1:]
	return key
}
