// Package limit bounds what many sources do, each by itself: how often, by token buckets, and how much at once. A
// source is what the caller counts by, such as a netaddr.Source. The tables and counts are not safe for concurrent
// use: their owner's lock guards them, mostly together with other counts of the same request.
package limit

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Table keeps a value for each of a bounded number of keys. The key that was used longest ago is forgotten first.
type Table[K comparable, V any] struct {
	*simplelru.LRU[K, V]
	value func() V
}

// NewTable makes a table of at most so many keys, which is at least 1; value makes the value of a new key.
func NewTable[K comparable, V any](keys int, value func() V) Table[K, V] {
	lru, _ := simplelru.NewLRU[K, V](keys, nil) // fails for a size of 0 alone
	return Table[K, V]{lru, value}
}

// Of returns the value of a key, and makes it if the key is new. The key counts as used now.
func (t Table[K, V]) Of(key K) V {
	v, known := t.Get(key)
	if !known {
		v = t.value()
		t.Add(key, v)
	}
	return v
}

// Rate allows Burst things at once, and then one each time that Every has passed.
type Rate struct {
	Every time.Duration
	Burst int
}

// PerSecond allows n things a second, after burst at once.
func PerSecond(n, burst int) Rate { return Rate{time.Second / time.Duration(n), burst} }

// Bucket returns a full token bucket.
func (r Rate) Bucket() *rate.Limiter { return rate.NewLimiter(rate.Every(r.Every), r.Burst) }

// Buckets makes a table with a token bucket for each key.
func Buckets[K comparable](keys int, r Rate) Table[K, *rate.Limiter] {
	return NewTable[K](keys, r.Bucket)
}

// Counts has the keys of which something is open, and how much.
type Counts[K comparable] map[K]int

// Add changes the count of a key by n.
func (c Counts[K]) Add(key K, n int) {
	if c[key] += n; c[key] == 0 {
		delete(c, key)
	}
}
