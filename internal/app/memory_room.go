package app

import (
	"fmt"
	"math"
	"runtime/metrics"
	"sync"
	"time"

	"glowplug/internal/store/kvstore"
)

const (
	// storeShare is the part of the memory limit, in percent, that may be alive
	// before no more values are stored; deletes are. The rest is for requests under
	// way, for what machines are answered, and for garbage.
	storeShare = 45
	// valueFactor is what a value takes in memory for each of its bytes: in the
	// store's mirror, in the index, and in the cache of the embedded NATS server.
	valueFactor = 3
	// liveInterval is how long a look at the heap is good for.
	liveInterval = 50 * time.Millisecond
)

// memoryRoom says whether there is memory for another value. What is alive is known
// as of the last collection; what was stored since is added.
type memoryRoom struct {
	limit int64

	mu      sync.Mutex
	looked  time.Time
	samples [2]metrics.Sample
	cycles  uint64
	live    int64
	since   int64 // bytes that were let through since that collection
}

func newMemoryRoom(limit int64) *memoryRoom {
	m := &memoryRoom{limit: limit}
	m.samples[0].Name, m.samples[1].Name = "/gc/heap/live:bytes", "/gc/cycles/total:gc-cycles"
	return m
}

// room returns the error of a value of so many bytes that the memory is too small for.
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

// within returns a check that asks for memory first, then for what else is asked.
func (m *memoryRoom) within(other func(int) error) func(int) error {
	return func(bytes int) error {
		if err := m.room(bytes); err != nil || other == nil {
			return err
		}
		return other(bytes)
	}
}

// windowBytes is what each store may keep of the past for its watches: its usual
// amount, or less of a small limit.
func windowBytes(limit int64) int {
	return int(min(kvstore.MaxWindowBytes, max(4<<20, limit/32)))
}
