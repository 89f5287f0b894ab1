package bootlog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	records prometheus.Counter
	lost    prometheus.Counter
	seconds *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		records: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_log_records_total", Help: "States of hosts that were written into the boot log.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_log_lost_messages_total",
			Help: "Messages of the boot log that could not be read and that no status includes.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "glowplug_boot_log_write_seconds", Help: "Time until a message of the boot log was durable, by outcome.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"outcome"}),
	}
	reg.MustRegister(m.records, m.lost, m.seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glowplug_boot_log_up",
		Help: "1 while states of hosts can be written into the boot log; else a boot-complete is answered 503.",
	}, func() float64 {
		if l.ReadinessCheck() == nil {
			return 1
		}
		return 0
	}))
	return m
}

func (m *metrics) wrote(records int, err error, took time.Duration) {
	outcome := "error"
	if err == nil {
		outcome = "ok"
		m.records.Add(float64(records))
	}
	m.seconds.WithLabelValues(outcome).Observe(took.Seconds())
}
