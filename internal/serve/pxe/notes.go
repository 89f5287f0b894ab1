package pxe

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
	"glowplug/internal/logs"
)

// Reasons of the events of a host.
const (
	ReasonOffered = "NetworkBootOffered"
	ReasonIgnored = "NetworkBootIgnored"
	ReasonAddress = "AddressNotGiven"
)

const (
	// sameBoot is the time within which repeated answers belong to one boot: firmware repeats its requests.
	sameBoot = 2 * time.Minute
	// eventGap is the least time between two events of a machine, whatever it asks.
	eventGap = 10 * time.Second
)

// Recorder records the events of boots.
type Recorder interface {
	RecordStep(host model.Ref, uid, reason, message string)
	Record(object v1.ObjectReference, eventType, reason, message string)
}

// notes write a line for what each machine is given, and an event for each boot of a known host.
type notes struct {
	events   Recorder
	limiter  *logs.Limiter
	log      *slog.Logger
	name     string // of the interface
	warnings *rate.Limiter

	mu       sync.Mutex
	machines limit.Table[netaddr.MAC, *noted]
}

// noted is the last answer to a machine.
type noted struct {
	text string
	at   time.Time
	// firmware is the time of the last answer to its firmware, and offered that of the last boot file.
	firmware, offered time.Time
	// event is the text of the last event, and told its time.
	event string
	told  time.Time
}

func newNotes(opts *Options) *notes {
	return &notes{
		events: opts.Events, limiter: opts.Limiter, log: opts.Logger, name: opts.Interface,
		warnings: limit.PerSecond(1, 5).Bucket(),
		machines: limit.NewTable[netaddr.MAC](maxMachines, func() *noted { return &noted{} }),
	}
}

// note notes an answer.
func (n *notes) note(c *Client, host *model.Host, a *Answer) {
	text := c.String() + ": given " + a.File
	if a.Silent != "" {
		text = c.String() + ": not answered: " + a.Silent
	}
	now := time.Now()
	n.mu.Lock()
	last := n.machines.Of(c.MAC)
	isNew := last.text != text || now.Sub(last.at) > sameBoot
	since := now.Sub(last.told)
	isEvent := (since > sameBoot || since > eventGap && last.event != text) &&
		(c.Stage != IPXE || now.Sub(last.firmware) > sameBoot)
	if isEvent {
		last.event, last.told = text, now
	}
	last.text, last.at = text, now
	if c.Stage != IPXE {
		last.firmware = now
	}
	if a.File != "" {
		last.offered = now
	}
	n.mu.Unlock()
	if !isNew && !isEvent {
		return
	}
	// Anybody can make up machines.
	name, origin := "", logs.Origin{Kind: logs.Refused, Source: netaddr.Source{MAC: c.MAC}}
	if host != nil {
		name, origin = host.Ref.String(), logs.Origin{Kind: logs.Known, Namespace: host.Namespace, Name: host.Name}
	}
	isLogged := n.limiter.Allow(now, &origin)
	log := n.log.With("mac", c.MAC, "host", name, "client", c.String(), "interface", n.name)
	switch {
	case !isLogged:
	case a.Silent != "":
		log.Warn("a machine that boots from the network is not answered", "reason", a.Silent)
	default:
		log.Info("a machine boots from the network", "given", a.File)
	}
	switch {
	case host == nil || n.events == nil || !isEvent:
	case a.Silent != "":
		n.warn(host, ReasonIgnored, text)
	default:
		n.events.RecordStep(host.Ref, host.UID, ReasonOffered, text)
	}
}

// warn records a warning about a host.
func (n *notes) warn(host *model.Host, reason, text string) {
	if n.events != nil {
		n.events.Record(v1.ObjectReference{
			Kind: "BareMetalHost", APIVersion: "v1", Namespace: host.Namespace, Name: host.Name, UID: host.UID,
		}, v1.EventWarning, reason, text)
	}
}

// isOffered reports whether a machine was just given a boot file.
func (n *notes) isOffered(mac netaddr.MAC) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, known := n.machines.Peek(mac)
	return known && time.Since(last.offered) < sameBoot
}

// Outcomes of a packet.
const (
	outcomeAnswered  = "answered"
	outcomeSilent    = "silent"
	outcomeLimited   = "limited"
	outcomeOther     = "other"
	outcomeMalformed = "malformed"
)

// Metrics count packets.
type Metrics struct{ packets *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "glowplug_pxe_packets_total",
		Help: "DHCP packets of machines, by outcome: answered, silent (no answer, for a reason that the log has), limited " +
			"(too many in a second), other (no network boot), malformed.",
	}, []string{"outcome"})}
	for _, outcome := range []string{outcomeAnswered, outcomeSilent, outcomeLimited, outcomeOther, outcomeMalformed} {
		m.packets.WithLabelValues(outcome)
	}
	reg.MustRegister(m.packets)
	return m
}

func (m *Metrics) count(outcome string) {
	if m != nil {
		m.packets.WithLabelValues(outcome).Inc()
	}
}
