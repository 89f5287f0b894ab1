package progress

import "github.com/prometheus/client_golang/prometheus"

// Values of the metrics' labels.
const (
	kindRecord = "record"
	kindState  = "state"
	kindHost   = "host"
	kindEvent  = "event"

	resultOK    = "ok"
	resultRetry = "retry"
	resultGone  = "gone"

	causeFull     = "full"
	causeLimited  = "limited"
	causeFailed   = "failed"
	causeShutdown = "shutdown"
)

type metrics struct {
	writes, dropped *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, j *Tracker) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_journal_writes_total",
			Help: "Writes of host status and events: ok, retry (the store did not take it yet) or gone (the object is no more).",
		}, []string{"kind", "result"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_journal_dropped_total",
			Help: "News of hosts and events that was given up: the queue was full, too many different ones came, the store refused it, or the server stopped.",
		}, []string{"kind", "cause"}),
	}
	reg.MustRegister(m.writes, m.dropped)
	for i, kind := range []string{kindRecord, kindState, kindHost, kindEvent} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_journal_pending",
			Help: "What waits to be written: record, a state that goes into the boot log; state, one that is there and goes into a status; " +
				"host, other news of a status; event.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 {
			records, states, hosts, events := j.pending()
			return float64([]int{records, states, hosts, events}[i])
		}))
	}
	return m
}

func (m *metrics) wrote(kind, result string) { m.writes.WithLabelValues(kind, result).Inc() }

func (m *metrics) drop(kind, cause string) { m.dropped.WithLabelValues(kind, cause).Inc() }

// lose counts what was pending when the server stopped.
func (m *metrics) lose(records, hosts, events int) {
	for kind, n := range map[string]int{kindRecord: records, kindHost: hosts, kindEvent: events} {
		if n > 0 {
			m.dropped.WithLabelValues(kind, causeShutdown).Add(float64(n))
		}
	}
}
