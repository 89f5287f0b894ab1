package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"glowplug/internal/budget"
	"glowplug/internal/store/kvstore"
)

const (
	// requestShare and watchShare bound the memory of API requests, and that of watches
	// for their events and once more for being open: a fifth and a twentieth of the limit.
	// The rest is for the store, the index, and the answers to machines.
	requestShare, watchShare = 5, 20
	// The bounds of these parts, in bytes. The upper ones hold without a memory limit.
	minRequests, maxRequests = 32 << 20, 512 << 20
	minWatches, maxWatches   = 16 << 20, 128 << 20
	// turnWait is how long a request waits for others to end.
	turnWait = 5 * time.Second
	// A read computes all the time, so that few of them use all processors; more at the same time would hold up
	// the answers to machines. A write waits for the store.
	readsPerProcessor, minReads = 4, 16
	maxWrites                   = 200
)

// budgets bound the memory of the API, and how many requests are executed at the same time.
type budgets struct{ requests, watches, reads, writes *budget.Budget }

// limitMemory sets the memory limit to nine tenths of the control group's, unless
// GOMEMLIMIT is set, and returns the limit.
func limitMemory(log *slog.Logger) int64 {
	if os.Getenv("GOMEMLIMIT") == "" {
		if group, err := memlimit.FromCgroup(); err == nil && group < math.MaxInt64 {
			debug.SetMemoryLimit(int64(group / 10 * 9))
			log.Debug("the control group limits the memory", "bytes", group)
		}
	}
	return debug.SetMemoryLimit(-1)
}

// newBudgets divides a memory limit.
func newBudgets(limit int64, r prometheus.Registerer) budgets {
	b := budgets{
		requests: budget.New(min(maxRequests, max(minRequests, limit/requestShare)), turnWait),
		watches:  budget.New(min(maxWatches, max(minWatches, limit/watchShare)), turnWait),
		reads:    budget.New(int64(max(minReads, readsPerProcessor*runtime.GOMAXPROCS(0))), turnWait),
		writes:   budget.New(maxWrites, turnWait),
	}
	factory := promauto.With(r)
	registerTurns(factory, b)
	for name, of := range map[string]*budget.Budget{"requests": b.requests, "watches": b.watches} {
		labels := prometheus.Labels{"of": name}
		gauge := func(name, help string, value func(budget.Stats) float64) {
			factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
				func() float64 { return value(of.Stats()) })
		}
		counter := func(name, help string, value func(budget.Stats) float64) {
			factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
				func() float64 { return value(of.Stats()) })
		}
		gauge("glowplug_api_memory_limit_bytes", "Memory that requests of the API may take together.",
			func(s budget.Stats) float64 { return float64(s.Size) })
		gauge("glowplug_api_memory_bytes", "Memory that requests of the API are held to take.",
			func(s budget.Stats) float64 { return float64(s.Used) })
		counter("glowplug_api_refused_total", "Requests of the API that were answered 429 for want of memory.",
			func(s budget.Stats) float64 { return float64(s.Refused) })
		counter("glowplug_api_ended_total", "Watches that were ended to make room for others.",
			func(s budget.Stats) float64 { return float64(s.Ended) })
	}
	return b
}

// registerTurns registers the metrics of the requests that are executed.
func registerTurns(factory promauto.Factory, b budgets) {
	for name, of := range map[string]*budget.Budget{"reads": b.reads, "writes": b.writes} {
		labels := prometheus.Labels{"of": name}
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_api_executing_requests_limit", ConstLabels: labels,
			Help: "Requests of the API that may be executed at the same time.",
		}, func() float64 { return float64(of.Stats().Size) })
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_api_executing_requests", ConstLabels: labels,
			Help: "Requests of the API that are being executed.",
		}, func() float64 { return float64(of.Stats().Used) })
		factory.NewCounterFunc(prometheus.CounterOpts{
			Name: "glowplug_api_executing_refused_total", ConstLabels: labels,
			Help: "Requests of the API that were answered 429 since too many were under way.",
		}, func() float64 { return float64(of.Stats().Refused) })
	}
}

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

const (
	// heapRoom is how much garbage there may be, in bytes, before it is collected; busyRoom
	// while templates are rendered: compiling one for a host leaves 10 MB, and a collection
	// marks the whole store.
	heapRoom, busyRoom = 96 << 20, 384 << 20
	// heapBound and busyBound bound the heap with its garbage, in bytes, where the live
	// objects leave room for that.
	heapBound, busyBound = 512 << 20, 640 << 20
	// A small heap grows to a few times of its live objects, which saves a twentieth of the
	// CPU of a request; a huge one is not collected all the time.
	maxPercent, minPercent = 400, 20
	heapInterval           = 250 * time.Millisecond
)

// tendHeap keeps the process small where the store is large: by default Go lets the heap
// grow to twice its live objects, which for 100,000 hosts are hundreds of megabytes. It
// also returns the memory for reading the store, once loaded. busy reports whether
// templates are rendered. GOGC and GOMEMLIMIT take precedence.
func tendHeap(ctx context.Context, loaded, busy func() bool) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(heapInterval)
	defer ticker.Stop()
	set, returned := maxPercent, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(live)
		if percent := collectorPercent(live[0].Value.Uint64(), busy()); percent != set {
			set = percent
			debug.SetGCPercent(set)
		}
		if !returned && loaded() {
			returned = true
			debug.FreeOSMemory()
		}
	}
}

// collectorPercent returns the garbage that a heap may have, in percent of its live objects.
func collectorPercent(live uint64, busy bool) int {
	live = max(live, 1<<20)
	room := min(heapRoom, live*maxPercent/100, heapBound-min(heapBound, live))
	if busy {
		room = min(busyRoom, busyBound-min(busyBound, live))
	}
	return int(max(minPercent, room*100/live))
}
