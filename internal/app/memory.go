package app

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"glowplug/internal/budget"
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
)

// budgets bound the memory of the API.
type budgets struct{ requests, watches *budget.Budget }

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
	}
	factory := promauto.With(r)
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
