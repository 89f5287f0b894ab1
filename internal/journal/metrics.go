package journal

import "github.com/prometheus/client_golang/prometheus"

// Values of the metrics' labels.
const (
	kindHost  = "host"
	kindEvent = "event"

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

func newMetrics(reg prometheus.Registerer, j *Journal) *metrics {
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
	pending := func(kind string, of func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_journal_pending", Help: "Host status and events that wait to be written.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(of()) })
	}
	reg.MustRegister(m.writes, m.dropped,
		pending(kindHost, func() int { hosts, _ := j.pending(); return hosts }),
		pending(kindEvent, func() int { _, events := j.pending(); return events }))
	return m
}

func (m *metrics) wrote(kind, result string) { m.writes.WithLabelValues(kind, result).Inc() }

func (m *metrics) drop(kind, cause string) { m.dropped.WithLabelValues(kind, cause).Inc() }

// lose counts what was pending when the server stopped.
func (m *metrics) lose(hosts, events int) {
	if hosts > 0 {
		m.dropped.WithLabelValues(kindHost, causeShutdown).Add(float64(hosts))
	}
	if events > 0 {
		m.dropped.WithLabelValues(kindEvent, causeShutdown).Add(float64(events))
	}
}
