package rendering

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count renderings.
type metrics struct {
	seconds *prometheus.HistogramVec
	// refused counts strangers that the bounds excluded, and abandoned renderings whose
	// machine had gone before they had a slot.
	refused, abandoned             prometheus.Counter
	hostsPending, strangersPending prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, c *Cache) *metrics {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "glowplug_template_render_duration_seconds",
		Help: "Time that rendering a template for a host and compiling the result took, by what came of it " +
			"(ready or error).",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"result"})}
	m.seconds.WithLabelValues("ready")
	m.seconds.WithLabelValues("error")
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "glowplug_template_renderings_dropped_total",
		Help: "Renderings that were asked for and not made: refused, because too many machines waited that are " +
			"no known hosts, or abandoned, because the machine that asked had gone.",
	}, []string{"reason"})
	m.refused, m.abandoned = dropped.WithLabelValues("refused"), dropped.WithLabelValues("abandoned")
	pending := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "glowplug_template_renderings_pending",
		Help: "Renderings that wait for their turn, by the machines that they are for (hosts or strangers).",
	}, []string{"machines"})
	m.hostsPending, m.strangersPending = pending.WithLabelValues("hosts"), pending.WithLabelValues("strangers")
	if r == nil {
		return m
	}
	r.MustRegister(m.seconds, dropped, pending,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_template_cache_bytes", Help: "Memory that rendered configs take.",
		}, func() float64 { c.mu.Lock(); defer c.mu.Unlock(); return float64(c.hosts.size + c.strangers.size) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_template_cache_entries", Help: "Rendered configs that are kept.",
		}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(c.hosts.entries.Len() + c.strangers.entries.Len())
		}))
	return m
}

// pending returns the gauge of the renderings that wait for a slot, for strangers or hosts.
func (m *metrics) pending(stranger bool) prometheus.Gauge {
	if stranger {
		return m.strangersPending
	}
	return m.hostsPending
}

func (m *metrics) rendered(r *Result, took time.Duration) {
	result := "ready"
	if r.Artifact == nil {
		result = "error"
	}
	m.seconds.WithLabelValues(result).Observe(took.Seconds())
}
