package machine

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"glowplug/internal/domain/match"
)

// metrics count requests.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	notices   *prometheus.CounterVec
}

// routeMetrics count the requests of a route.
type routeMetrics struct {
	name     string
	requests *prometheus.CounterVec
	duration prometheus.Observer
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_requests_total",
			Help: "Requests of machines, by endpoint, HTTP status and the tier that chose the config.",
		}, []string{"endpoint", "code", "tier"}),
		notices: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_notices_total",
			Help: "Findings about machines that became events: UnknownHost, ClaimRefused, ClaimIgnored, " +
				"NeighborMismatch, NeighborChanged, DuplicateIdentity, ImageUnavailable.",
		}, []string{"reason"}),
		durations: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_boot_request_duration_seconds",
			Help:    "Time to answer a machine, by endpoint.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .005, .025, .1, .5, 2.5},
		}, []string{"endpoint"}),
	}
}

// route returns the metrics of a route.
func (m *metrics) route(name string) *routeMetrics {
	requests := m.requests.MustCurryWith(prometheus.Labels{"endpoint": name})
	return &routeMetrics{name: name, requests: requests, duration: m.durations.WithLabelValues(name)}
}

func (m *routeMetrics) request(status int, tier match.Tier, took time.Duration) {
	m.requests.WithLabelValues(strconv.Itoa(status), tier.String()).Inc()
	m.duration.Observe(took.Seconds())
}
