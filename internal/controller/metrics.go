package controller

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// Metrics counts what all controllers of a server do. It is the metrics provider of
// their queues, too.
type Metrics struct {
	reconciles *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	depth      *prometheus.GaugeVec
	noMetrics
}

// NewMetrics registers the metrics of controllers.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_controller_reconciles_total",
			Help: "Reconciles by controller and result: success, requeue_after, error or panic.",
		}, []string{"controller", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_controller_reconcile_seconds",
			Help:    "Time that one reconcile takes, by controller.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"controller"}),
		depth: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "glowplug_controller_queue_depth",
			Help: "Keys that are queued for a controller.",
		}, []string{"controller"}),
	}
	registerer.MustRegister(m.reconciles, m.seconds, m.depth)
	return m
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

// stopped says that a controller has no queue any more.
func (m *Metrics) stopped(name string) {
	if m != nil {
		m.depth.WithLabelValues(name).Set(0)
	}
}

// NewDepthMetric returns the gauge of a queue's depth.
func (m *Metrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(name)
}

// noMetrics are the metrics of client-go's queues that the reconciles count already.
type noMetrics struct{}

type noMetric struct{}

func (noMetric) Inc()            {}
func (noMetric) Set(float64)     {}
func (noMetric) Observe(float64) {}

func (noMetrics) NewAddsMetric(string) workqueue.CounterMetric           { return noMetric{} }
func (noMetrics) NewLatencyMetric(string) workqueue.HistogramMetric      { return noMetric{} }
func (noMetrics) NewWorkDurationMetric(string) workqueue.HistogramMetric { return noMetric{} }
func (noMetrics) NewRetriesMetric(string) workqueue.CounterMetric        { return noMetric{} }
func (noMetrics) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return noMetric{}
}
func (noMetrics) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return noMetric{}
}
