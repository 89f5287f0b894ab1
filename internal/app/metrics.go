package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/events"
	"glowplug/internal/controller/host"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/version"
)

var (
	indexObjects = prometheus.NewDesc("glowplug_index_objects", "Objects in the index that machines are matched with.",
		[]string{"kind"}, nil)
	indexBad = prometheus.NewDesc("glowplug_index_unreadable_objects",
		"Stored objects that could not be read and are kept out of the index.", []string{"kind"}, nil)
	indexShared = prometheus.NewDesc("glowplug_index_conflicting_hosts",
		"Hosts that share a hardware or IP address with another.", nil, nil)
	hostStates = prometheus.NewDesc("glowplug_baremetalhosts", "BareMetalHosts by status.state.",
		[]string{"state"}, nil)
	configPhases = prometheus.NewDesc("glowplug_ignitionconfigs", "IgnitionConfigs by status.phase.",
		[]string{"phase"}, nil)
)

// inventoryCollector reads the inventory's counts when it is scraped.
type inventoryCollector struct{ inv *snapshot.Inventory }

func registerMetrics(r prometheus.Registerer, inv *snapshot.Inventory) {
	r.MustRegister(inventoryCollector{inv})
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "glowplug_build_info",
		Help:        "The version of the program; always 1.",
		ConstLabels: prometheus.Labels{"version": version.Version, "commit": version.Commit()},
	}, func() float64 { return 1 })
}

// registerPending registers the counts of pending writes.
func registerPending(
	r prometheus.Registerer, tracker *boots.Tracker, statuses *host.StatusWriter, recorder *events.Recorder,
) {
	for kind, pending := range map[string]func() int{
		"record": func() int { records, _ := tracker.Pending(); return records },
		"state":  func() int { _, unwritten := tracker.Pending(); return unwritten },
		"host":   statuses.Pending,
		"event":  recorder.Pending,
	} {
		promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_journal_pending",
			Help: "Pending writes: record, the newest boot of a host; state, one from a boot for a status; " +
				"host, conditions of a host; event.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(pending()) })
	}
}

// newRefusedConnections counts the connections that are closed since their source has too
// many.
func newRefusedConnections(r prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "glowplug_http_connections_refused_total",
		Help: "Connections closed at once, since their source had as many open as --max-connections-per-source, or " +
			"opened more in a second than --max-requests-per-source.",
	}, []string{"listener"})
}

// newLimitedRequests counts the requests that are refused since their source sends too many.
func newLimitedRequests(r prometheus.Registerer) *prometheus.CounterVec {
	limited := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "glowplug_http_requests_limited_total",
		Help: "Requests refused, since their source had sent more in a second than --max-requests-per-source: boots " +
			"(of machines, 503), others (the API and metrics, 429) and health (429).",
	}, []string{"of"})
	for _, name := range classNames {
		limited.WithLabelValues(name)
	}
	return limited
}

// Describe implements prometheus.Collector.
func (c inventoryCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c inventoryCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.inv.Stats()
	for kind, b := range map[string]snapshot.BucketStats{"BareMetalHost": s.Hosts, "IgnitionConfig": s.Configs,
		"ISCSICdrom": s.Images} {
		ch <- prometheus.MustNewConstMetric(indexObjects, prometheus.GaugeValue, float64(b.Objects), kind)
		ch <- prometheus.MustNewConstMetric(indexBad, prometheus.GaugeValue, float64(b.Bad), kind)
	}
	ch <- prometheus.MustNewConstMetric(indexShared, prometheus.GaugeValue, float64(s.Conflicting))
	view := c.inv.View()
	states, phases := model.HostsByState(view), model.ConfigsByPhase(view)
	for _, state := range []string{
		v1.StateAvailable, v1.StateBooting, v1.StateProvisioning, v1.StateProvisioned, v1.StateError,
	} {
		ch <- prometheus.MustNewConstMetric(hostStates, prometheus.GaugeValue, float64(states[state]), state)
	}
	for _, phase := range []string{v1.PhasePending, v1.PhaseReady, v1.PhaseError} {
		ch <- prometheus.MustNewConstMetric(configPhases, prometheus.GaugeValue, float64(phases[phase]), phase)
	}
}
