package controller

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what all controllers of a server do.
type Metrics struct {
	registerer prometheus.Registerer
	reconciles *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
}

// NewMetrics registers the metrics of controllers.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		registerer: registerer,
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_controller_reconciles_total",
			Help: "Reconciles by controller and result: success, requeue_after, error or panic.",
		}, []string{"controller", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_controller_reconcile_seconds",
			Help:    "Time that one reconcile takes, by controller.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"controller"}),
	}
	registerer.MustRegister(m.reconciles, m.seconds)
	return m
}

// registerDepth registers the gauge of the depth of a controller's queue.
func (m *Metrics) registerDepth(name string, depth func() int) {
	if m != nil {
		m.registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "glowplug_controller_queue_depth",
			Help:        "Keys that are queued for a controller.",
			ConstLabels: prometheus.Labels{"controller": name},
		}, func() float64 { return float64(depth()) }))
	}
}

func (m *Metrics) reconciled(name string, took, requeueAfter time.Duration, err error) {
	if m == nil {
		return
	}
	result := "success"
	var panicked *panicError
	switch {
	case errors.As(err, &panicked):
		result = "panic"
	case err != nil:
		result = "error"
	case requeueAfter > 0:
		result = "requeue_after"
	}
	m.reconciles.WithLabelValues(name, result).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
}
