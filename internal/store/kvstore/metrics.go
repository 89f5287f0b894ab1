package kvstore

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are one store's numbers. Those of all stores share their names and
// differ in the label "bucket".
type metrics struct {
	store *Store
	last  atomic.Uint64 // the newest revision that the server has named
	lost  atomic.Uint64 // revisions that were recorded and are missing
	write *prometheus.HistogramVec
	// replicas is how many servers of NATS hold the bucket, currentReplicas how many
	// of them have its newest state; 0 until they were counted.
	replicas, currentReplicas atomic.Int64
	// damagedKeys are the keys whose value is damaged or lost, sorted. Only the follower
	// of the bucket replaces them.
	damagedKeys atomic.Pointer[[]string]
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	m := &metrics{store: s}
	m.setDamaged(nil)
	labels := prometheus.Labels{"bucket": s.bucket.kind.Bucket}
	m.write = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        "glowplug_store_write_seconds",
		Help:        "Time from a write's begin until it was durable and in the index, by outcome.",
		ConstLabels: labels,
		Buckets:     []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"outcome"})
	for _, outcome := range []string{"ok", "conflict", "error"} {
		m.write.WithLabelValues(outcome)
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value()) })
	}
	reg.MustRegister(
		m.write,
		gauge("glowplug_store_objects", "Objects in the bucket.", s.contents.count),
		gauge("glowplug_store_bytes", "Bytes of the objects' stored values.", func() int64 {
			_, size := s.contents.mirror.stats()
			return size
		}),
		gauge("glowplug_store_index_lag", "Revisions that the bucket is known to be ahead of the index.", m.lag),
		gauge("glowplug_store_up", "1 while the bucket is followed and can be written.", func() int64 {
			if s.connection.up.Load() {
				return 1
			}
			return 0
		}),
		gauge("glowplug_store_lost_revisions",
			"Revisions that the bucket lacks compared with what this server has seen; it is not used then.",
			func() int64 { return int64(m.lost.Load()) }),
		gauge("glowplug_store_damaged_objects",
			"Objects that were stored, and whose value is lost or does not agree with its checksum.",
			func() int64 { return int64(len(m.lostKeys())) }),
		gauge("glowplug_store_stale_objects",
			"Objects whose stored values are not encrypted as new ones are, or of an older release; glowplug rewrite writes them again.",
			func() int64 { return int64(s.contents.mirror.staleEntries()) }),
		gauge("glowplug_store_replicas",
			"NATS servers that hold the bucket; 0 with the embedded store, and until they were counted.",
			m.replicas.Load),
		gauge("glowplug_store_current_replicas",
			"NATS servers that hold the newest state of the bucket; 0 with the embedded store, and until they were counted.",
			m.currentReplicas.Load),
	)
	return m
}

func (m *metrics) lag() int64 {
	return max(0, int64(m.last.Load())-int64(m.store.contents.mirror.revision()))
}

func (m *metrics) wrote(took time.Duration, err error) {
	outcome := "ok"
	switch {
	case errors.Is(err, errConflict):
		outcome = "conflict"
	case err != nil:
		outcome = "error"
	}
	m.write.WithLabelValues(outcome).Observe(took.Seconds())
}

func (m *metrics) lostKeys() []string { return *m.damagedKeys.Load() }

func (m *metrics) setDamaged(sorted []string) { m.damagedKeys.Store(&sorted) }

func (m *metrics) damaged(key string) {
	keys := m.lostKeys()
	if i, found := slices.BinarySearch(keys, key); !found {
		m.setDamaged(slices.Insert(slices.Clone(keys), i, key))
	}
}

func (m *metrics) healed(key string) {
	keys := m.lostKeys()
	if i, found := slices.BinarySearch(keys, key); found {
		m.setDamaged(slices.Delete(slices.Clone(keys), i, i+1))
	}
}
