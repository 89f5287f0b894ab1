package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"glowplug/internal/budget"
	"glowplug/internal/controller"
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
	// heapRoom is how much garbage there may be, in bytes, before it is collected; busyRoom
	// while that is costly: compiling a template for a host leaves 10 MB and a new config 2 MB,
	// and each collection marks the whole store.
	heapRoom, busyRoom = 96 << 20, 384 << 20
	// heapBound and busyBound bound the heap with its garbage, in bytes, where the live
	// objects leave room for that.
	heapBound, busyBound = 512 << 20, 640 << 20
	// A small heap grows to a few times of its live objects, which saves a twentieth of the
	// CPU of a request; a huge one is not collected all the time.
	maxPercent, minPercent = 400, 20
	heapInterval           = 250 * time.Millisecond
	// The collector is costly for busyTime after it has taken more than costlyShare of the
	// processor time of the process.
	costlyShare = 0.25
	busyTime    = 10 * time.Second
)

// tendHeap keeps the process small where the store is large: by default Go lets the heap
// grow to twice its live objects, which for 100,000 hosts are hundreds of megabytes. It
// also returns the memory for reading the store, once loaded. GOGC and GOMEMLIMIT take
// precedence.
func tendHeap(ctx context.Context, loaded func() bool) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"},
	}
	set, returned := maxPercent, false
	var before, now collection
	var busyUntil time.Time
	for controller.Sleep(ctx, heapInterval) {
		metrics.Read(samples)
		before, now = now, collection{samples[1].Value.Float64() + samples[2].Value.Float64(), samples[3].Value.Float64()}
		if now.isCostlySince(before) {
			busyUntil = time.Now().Add(busyTime)
		}
		percent := collectorPercent(samples[0].Value.Uint64(), time.Now().Before(busyUntil))
		if percent != set {
			set = percent
			debug.SetGCPercent(set)
		}
		if !returned && loaded() {
			returned = true
			debug.FreeOSMemory()
		}
	}
}

// collection is the processor time of the collector and of all else until the end of its last
// run, in seconds.
type collection struct{ collector, others float64 }

func (c collection) isCostlySince(before collection) bool {
	took := c.collector - before.collector
	return took > costlyShare*(took+c.others-before.others)
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
