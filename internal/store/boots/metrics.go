package boots

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "glowplug/api/v1"
)

// Metrics count the writes of boots.
type Metrics struct {
	boots   prometheus.Counter
	seconds *prometheus.HistogramVec
	ended   *prometheus.CounterVec
	steps   *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		boots: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boots_stored_total", Help: "Times that the newest boot of a host was stored.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glowplug_boots_store_seconds", Help: "Time until a batch of boots was durable, by outcome.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"outcome"}),
	}
	m.ended = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "glowplug_boots_total", Help: "Boots of hosts that have ended, by outcome.",
	}, []string{"outcome"})
	m.steps = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "glowplug_boot_step_seconds", Help: "Time from one step of a boot to the next, by the step that was reached and the image.",
		Buckets: []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800},
	}, []string{"image", "step"})
	for _, outcome := range v1.BootOutcomes {
		m.ended.WithLabelValues(outcome)
	}
	m.seconds.WithLabelValues("ok")
	m.seconds.WithLabelValues("error")
	reg.MustRegister(m.boots, m.seconds, m.ended, m.steps)
	return m
}

// reached counts a step, the last one of a boot of a host.
func (m *Metrics) reached(b *v1.Boot) {
	if n := len(b.Steps); m != nil && n > 1 && b.Image != nil && b.Host != "" {
		took := b.Steps[n-1].Time.Sub(b.Steps[n-2].Time.Time)
		m.steps.WithLabelValues(b.Image.Name, b.Steps[n-1].Name).Observe(took.Seconds())
	}
}

// finished counts a boot of a host that has ended.
func (m *Metrics) finished(b *v1.Boot) {
	if m != nil && b.Host != "" {
		m.ended.WithLabelValues(b.Outcome).Inc()
	}
}

func (m *Metrics) wrote(boots int, err error, took time.Duration) {
	if m == nil {
		return
	}
	outcome := "error"
	if err == nil {
		outcome = "ok"
		m.boots.Add(float64(boots))
	}
	m.seconds.WithLabelValues(outcome).Observe(took.Seconds())
}
