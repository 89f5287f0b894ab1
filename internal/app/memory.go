package app

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/budget"
)

const (
	// requestShare and watchShare are the parts of the memory limit that requests
	// of the API take at most, and watches for what they send and once more for
	// being open: a fifth and a twentieth. The rest is the store's, the index's, and
	// what machines are answered from.
	requestShare, watchShare = 5, 20
	// The bounds of these parts, in bytes. The upper ones are what a server without
	// a memory limit takes.
	minRequests, maxRequests = 32 << 20, 512 << 20
	minWatches, maxWatches   = 16 << 20, 128 << 20
	// turnWait is how long a request waits for others to end.
	turnWait = 5 * time.Second
)

// budgets bound what the API takes in memory.
type budgets struct{ requests, watches *budget.Budget }

// limitMemory lets the collector keep to nine tenths of what the control group
// allows, unless GOMEMLIMIT says something else, and gives what it keeps to.
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
	}
	for name, of := range map[string]*budget.Budget{"requests": b.requests, "watches": b.watches} {
		labels := prometheus.Labels{"of": name}
		gauge := func(name, help string, value func(budget.Stats) float64) {
			r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
				func() float64 { return value(of.Stats()) }))
		}
		counter := func(name, help string, value func(budget.Stats) float64) {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
				func() float64 { return value(of.Stats()) }))
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
