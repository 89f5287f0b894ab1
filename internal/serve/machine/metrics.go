package machine

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/match"
)

// endpoint is what was asked.
type endpoint uint8

const (
	other endpoint = iota
	ignition
	kickstart
	script
	bootScript
	iso
	complete
	stream
	artifact
)

var endpointNames = [...]string{
	other: "other", ignition: "ignition", kickstart: "kickstart",
	script: "boot.ipxe", bootScript: "ipxe", iso: "iso", complete: "boot-complete",
	stream: "stream", artifact: "artifact",
}

func (e endpoint) String() string { return endpointNames[e] }

// codes are the statuses that are answered.
var codes = [...]int{
	http.StatusOK, http.StatusPartialContent, http.StatusNotModified, http.StatusRequestedRangeNotSatisfiable, http.StatusPreconditionFailed, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
	http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusServiceUnavailable, http.StatusInternalServerError,
}

// codeIndex is the place of a status in codes; any other is the last.
func codeIndex(status int) int {
	for i, code := range codes {
		if code == status {
			return i
		}
	}
	return len(codes) - 1
}

// metrics counts requests. The counters of each combination are looked up once.
type metrics struct {
	requests  *prometheus.CounterVec
	durations [len(endpointNames)]prometheus.Observer
	notices   *prometheus.CounterVec

	counters [len(endpointNames)][len(codes)][match.Default + 1]atomic.Pointer[prometheus.Counter]
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_requests_total",
			Help: "Requests of machines, by endpoint, HTTP status and the tier that chose the config.",
		}, []string{"endpoint", "code", "tier"}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_notices_total",
			Help: "Findings about machines that became events: UnknownHost, ClaimRefused, ClaimIgnored, " +
				"NeighborMismatch, NeighborChanged, DuplicateIdentity, ImageUnavailable.",
		}, []string{"reason"}),
	}
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "glowplug_boot_request_duration_seconds",
		Help:    "Time to answer a machine, by endpoint.",
		Buckets: []float64{.00005, .0001, .00025, .0005, .001, .005, .025, .1, .5, 2.5},
	}, []string{"endpoint"})
	for e := range m.durations {
		m.durations[e] = durations.WithLabelValues(endpoint(e).String())
	}
	reg.MustRegister(m.requests, durations, m.notices)
	return m
}

func (m *metrics) request(e endpoint, status int, tier match.Tier, took time.Duration) {
	code := codeIndex(status)
	known := &m.counters[e][code][tier]
	counter := known.Load()
	if counter == nil {
		c := m.requests.WithLabelValues(e.String(), strconv.Itoa(codes[code]), tier.String())
		counter = &c
		known.Store(counter)
	}
	(*counter).Inc()
	m.durations[e].Observe(took.Seconds())
}

// notice counts a notice. The reasons are a handful of constants.
func (m *metrics) notice(reason string) { m.notices.WithLabelValues(reason).Inc() }
