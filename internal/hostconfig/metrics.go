package hostconfig

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what is rendered.
type metrics struct {
	seconds *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, c *Cache) *metrics {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "glowplug_template_render_duration_seconds",
		Help:    "Time that rendering a template for a host and compiling the result took, by what came of it (ready or error).",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"result"})}
	if r == nil {
		return m
	}
	r.MustRegister(m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_template_cache_bytes", Help: "Memory that rendered configs take.",
		}, func() float64 { c.mu.Lock(); defer c.mu.Unlock(); return float64(c.kept.size) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_template_cache_entries", Help: "Rendered configs that are kept.",
		}, func() float64 { c.mu.Lock(); defer c.mu.Unlock(); return float64(c.kept.order.Len()) }))
	return m
}

func (m *metrics) rendered(r *Rendered, took time.Duration) {
	result := "ready"
	if r.Artifact == nil {
		result = "error"
	}
	m.seconds.WithLabelValues(result).Observe(took.Seconds())
}
