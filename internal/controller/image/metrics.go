package image

import (
	"github.com/prometheus/client_golang/prometheus"

	v1 "glowplug/api/v1"
)

// Values of the metrics' labels.
const (
	byUpload   = "upload"
	byDownload = "download"

	resultDone    = "done"
	resultCut     = "cut"
	resultRefused = "refused"
)

type metrics struct {
	received  *prometheus.CounterVec
	transfers *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, count func(phase string) int) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_images_received_bytes_total",
			Help: "Bytes of ISO files that were uploaded or downloaded.",
		}, []string{"by"}),
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_images_transfers_total",
			Help: "Uploads and downloads: done, cut (to be resumed) or refused (no ISO, wrong digest, disk full).",
		}, []string{"by", "result"}),
	}
	reg.MustRegister(m.received, m.transfers)
	for _, phase := range []string{v1.PhasePending, v1.PhaseUploading, v1.PhaseReady, v1.PhaseError} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_images", Help: "ISCSICdroms by phase.",
			ConstLabels: prometheus.Labels{"phase": phase},
		}, func() float64 { return float64(count(phase)) }))
	}
	return m
}
