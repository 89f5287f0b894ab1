package backend

import (
	"fmt"
	"math"
	"runtime/metrics"
	"sync"
	"time"

	"glowplug/internal/store/kvstore"
)

const (
	// storeShare is the part of the memory limit, in percent, that live objects may take
	// before writes are refused; deletes are not. The rest is for requests under way, for
	// the answers to machines, and for garbage.
	storeShare = 45
	// valueFactor is the memory of a value for each of its bytes: in the store's mirror,
	// in the index, and in the cache of the embedded NATS server.
	valueFactor = 3
	// liveInterval is how often the heap is measured.
	liveInterval = 50 * time.Millisecond
)

// memoryRoom checks whether there is memory for another value: for the live objects of the
// last collection and the values stored since.
type memoryRoom struct {
	limit int64

	mu      sync.Mutex
	looked  time.Time
	samples [2]metrics.Sample
	cycles  uint64
	live    int64
	since   int64 // bytes admitted since that collection
}

func newMemoryRoom(limit int64) *memoryRoom {
	m := &memoryRoom{limit: limit}
	m.samples[0].Name, m.samples[1].Name = "/gc/heap/live:bytes", "/gc/cycles/total:gc-cycles"
	return m
}

// room returns an error if the memory is too small for a value of so many bytes.
func (m *memoryRoom) room(bytes int) error {
	if m.limit == math.MaxInt64 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.looked) > liveInterval {
		m.looked = now
		metrics.Read(m.samples[:])
		m.live = int64(m.samples[0].Value.Uint64())
		if cycles := m.samples[1].Value.Uint64(); cycles != m.cycles {
			m.cycles, m.since = cycles, 0
		}
	}
	most, takes := m.limit/100*storeShare, int64(bytes)*valueFactor
	if m.live+m.since+takes > most {
		return fmt.Errorf("the server has no memory for this object: %d MiB of the %d MiB that it may take are in use, "+
			"and the rest is kept for machines; delete objects, or raise the memory limit", (m.live+m.since)>>20, m.limit>>20)
	}
	m.since += takes
	return nil
}

// within returns a check of memory, then of other.
func (m *memoryRoom) within(other func(int) error) func(int) error {
	return func(bytes int) error {
		if err := m.room(bytes); err != nil || other == nil {
			return err
		}
		return other(bytes)
	}
}

// windowBytes returns how much of its past each store keeps for watches: less where the
// memory limit is small.
func windowBytes(limit int64) int {
	return int(min(kvstore.MaxWindowBytes, max(4<<20, limit/32)))
}
