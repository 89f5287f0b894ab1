package progress

import (
	"container/heap"
	"time"
)

// queue holds what is to be written, one item a key, so that news of the same
// thing is one write. One that is bounded gives up the oldest first. Its owner
// holds a lock.
type queue[K comparable, V any] struct {
	// limit is how many items there may be; 0: any number.
	limit int
	// gap is the least time between two writes of one key.
	gap time.Duration
	// keep is how long a key is remembered after its last news was written.
	keep time.Duration

	byKey map[K]*item[K, V]
	heap  itemHeap[K, V]
	// dirty counts the items that have news.
	dirty int
}

// item is a key with its news, if it has any.
type item[K comparable, V any] struct {
	key      K
	news     V
	dirty    bool
	attempts int
	// due is when the item is next looked at: to be written or forgotten.
	due     time.Time
	written time.Time
	index   int // in the heap; -1: the item was removed
}

// isQueued reports whether the item is in its queue. A nil item is not.
func (it *item[K, V]) isQueued() bool { return it != nil && it.index >= 0 }

func newQueue[K comparable, V any](limit int, gap, keep time.Duration) *queue[K, V] {
	return &queue[K, V]{limit: limit, gap: gap, keep: keep, byKey: make(map[K]*item[K, V])}
}

// known tells whether there is, or lately was, news of key.
func (q *queue[K, V]) known(key K) bool {
	_, ok := q.byKey[key]
	return ok
}

// touch returns the item of a key and marks it dirty; the caller adds to its news.
// first is true if the item is now the first that is due, lost if the queue was full
// and gave up its oldest item for it.
func (q *queue[K, V]) touch(key K, now time.Time) (it *item[K, V], first, lost bool) {
	it = q.byKey[key]
	if it == nil {
		if q.limit > 0 && len(q.heap) >= q.limit {
			oldest := q.heap[0]
			lost = oldest.dirty
			q.remove(oldest)
		}
		it = &item[K, V]{key: key, due: now}
		q.byKey[key] = it
		heap.Push(&q.heap, it)
	}
	return it, q.renew(it, now), lost
}

// renew is touch for an item that is in the queue.
func (q *queue[K, V]) renew(it *item[K, V], now time.Time) (first bool) {
	if it.dirty {
		return false
	}
	it.dirty = true
	q.dirty++
	if it.due = now; !it.written.IsZero() && it.written.Add(q.gap).After(now) {
		it.due = it.written.Add(q.gap)
	}
	heap.Fix(&q.heap, it.index)
	return it.index == 0
}

// schedule has news of a key that is due at a time, or earlier where it was so
// before. known is the key's item, if the caller has kept it. first is true where it
// is now what is due first.
func (q *queue[K, V]) schedule(known *item[K, V], key K, due time.Time) (it *item[K, V], first bool) {
	if it = known; !it.isQueued() {
		it = q.byKey[key]
	}
	isNew := it == nil || !it.dirty
	if isNew {
		it, _, _ = q.touch(key, due)
	}
	if isNew || due.Before(it.due) && it.attempts == 0 {
		it.due = due
		heap.Fix(&q.heap, it.index)
	}
	return it, it.index == 0
}

// news gives the news of a key, empty where there is none.
func (q *queue[K, V]) news(key K) (news V) {
	if it := q.byKey[key]; it != nil && it.dirty {
		news = it.news
	}
	return news
}

// take takes the news of a key, due or not.
func (q *queue[K, V]) take(key K, now time.Time) (taken item[K, V], ok bool) {
	it := q.byKey[key]
	if it == nil || !it.dirty {
		return taken, false
	}
	return q.clean(it, now), true
}

// clean takes the news of an item.
func (q *queue[K, V]) clean(it *item[K, V], now time.Time) (taken item[K, V]) {
	taken = *it
	var none V
	it.news, it.dirty, it.attempts = none, false, 0
	q.dirty--
	it.written, it.due = now, now.Add(q.gap)
	heap.Fix(&q.heap, it.index)
	return taken
}

// next takes the news of the item that is due first, and forgets items that have
// had none for long. ok is false where nothing is due; wait says for how long,
// and is negative where there is nothing at all. all takes what is not due yet too.
func (q *queue[K, V]) next(now time.Time, all bool) (taken item[K, V], wait time.Duration, ok bool) {
	for len(q.heap) > 0 {
		it := q.heap[0]
		if wait = it.due.Sub(now); wait > 0 && !all {
			return taken, wait, false
		}
		if !it.dirty {
			if idle := now.Sub(it.written); idle < q.keep && !all {
				it.due = it.written.Add(q.keep)
				heap.Fix(&q.heap, 0)
			} else {
				q.remove(it)
			}
			continue
		}
		return q.clean(it, now), 0, true
	}
	return taken, -1, false
}

// putBack returns what was taken and could not be written. news that came
// meanwhile is added to it.
func (q *queue[K, V]) putBack(taken item[K, V], now time.Time, add func(older *V, newer V)) (lost bool) {
	old := q.byKey[taken.key]
	hadNews := old != nil && old.dirty
	it, _, lost := q.touch(taken.key, now)
	if hadNews {
		add(&taken.news, it.news)
	}
	it.news = taken.news
	it.attempts = taken.attempts + 1
	it.due = taken.due
	heap.Fix(&q.heap, it.index)
	return lost
}

func (q *queue[K, V]) remove(it *item[K, V]) {
	if it.dirty {
		q.dirty--
	}
	delete(q.byKey, it.key)
	heap.Remove(&q.heap, it.index)
	it.index = -1
}

// itemHeap orders items by when they are due.
type itemHeap[K comparable, V any] []*item[K, V]

func (h itemHeap[K, V]) Len() int           { return len(h) }
func (h itemHeap[K, V]) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h itemHeap[K, V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *itemHeap[K, V]) Push(x any) {
	it := x.(*item[K, V])
	it.index = len(*h)
	*h = append(*h, it)
}

// Pop is for container/heap.
func (h *itemHeap[K, V]) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
