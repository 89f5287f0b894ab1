package controller

import "slices"

// turns is a queue of client-go's in which the groups of keys take turns.
type turns[K comparable] struct {
	group func(K) string
	isLow func(K) bool
	// queues are those of the groups with keys, and order the groups in the order of their turns.
	queues map[string]*priorityQueue[K]
	order  []string
	len    int
}

// Touch is called for a key that is queued already.
func (t *turns[K]) Touch(key K) { t.queues[t.group(key)].Touch(key) }

// Push adds a key.
func (t *turns[K]) Push(key K) {
	group := t.group(key)
	if t.queues[group] == nil {
		t.queues[group] = &priorityQueue[K]{isLow: t.isLow}
		t.order = append(t.order, group)
	}
	t.queues[group].Push(key)
	t.len++
}

// Len returns the number of keys.
func (t *turns[K]) Len() int { return t.len }

// Pop removes the next key of the group whose turn it is, and returns it.
func (t *turns[K]) Pop() K {
	group := t.order[0]
	t.order = t.order[1:]
	queue := t.queues[group]
	key := queue.Pop()
	if queue.Len() > 0 {
		t.order = append(t.order, group)
	} else {
		delete(t.queues, group)
	}
	t.len--
	return key
}

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
