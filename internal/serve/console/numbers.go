package console

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// sample is one series of a metric.
type sample struct {
	labels map[string]string
	value  float64
}

// numbers are the series of the metrics by their names.
type numbers map[string][]sample

// numbersOf collects the metrics. A family that cannot be collected is in the error, and the others are there.
func numbersOf(from prometheus.Gatherer) (numbers, error) {
	n := numbers{}
	families, err := from.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			s := sample{labels: map[string]string{}}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			switch {
			case m.GetGauge() != nil:
				s.value = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				s.value = m.GetCounter().GetValue()
			default:
				continue // a histogram
			}
			n[f.GetName()] = append(n[f.GetName()], s)
		}
	}
	return n, err
}

// by sums a metric by the values of a label; "" is one sum.
func (n numbers) by(metric, label string) map[string]float64 {
	sums := map[string]float64{}
	for _, s := range n[metric] {
		sums[s.labels[label]] += s.value
	}
	return sums
}

// numberLine is a line of the page: a metric, summed or by a label.
type numberLine struct {
	name, metric string
	// label has a number for each of its values.
	label string
	// limit is a metric that is written behind the number.
	limit string
	// isBytes is true where the number is of bytes.
	isBytes bool
	// isOptional is true where nothing but 0 means that the line does not concern this server.
	isOptional bool
}

// numberLines are the lines of one subject.
type numberLines struct {
	title string
	lines []numberLine
}

// numberGroups are the numbers of the page.
var numberGroups = []numberLines{
	{"Objects", []numberLine{
		{name: "hosts", metric: "glowplug_baremetalhosts", label: "state"},
		{name: "configs", metric: "glowplug_ignitionconfigs", label: "phase"},
		{name: "images", metric: "glowplug_images", label: "phase"},
		{name: "unknown machines", metric: "glowplug_unknown_machines"},
		{name: "addresses that machines have by DHCP", metric: "glowplug_dhcp_leases", isOptional: true},
		{name: "hosts whose boot takes no step", metric: "glowplug_boots_stuck"},
	}},
	{"Store", []numberLine{
		{name: "size of the objects", metric: "glowplug_store_bytes", isBytes: true},
		{name: "objects", metric: "glowplug_store_objects"},
		{name: "NATS servers that hold the newest state of each bucket", metric: "glowplug_store_current_replicas",
			label: "bucket", limit: "glowplug_store_replicas", isOptional: true},
		{name: "objects to be encrypted again", metric: "glowplug_store_stale_objects"},
	}},
	{"Work that waits", []numberLine{
		{name: "writes of boots, states, hosts and events", metric: "glowplug_journal_pending", label: "kind"},
		{name: "objects in the queues", metric: "glowplug_controller_queue_depth", label: "controller"},
		{name: "configs to be rendered", metric: "glowplug_template_renderings_pending", label: "machines"},
		{name: "requests of the API under way", metric: "glowplug_api_executing_requests", label: "of",
			limit: "glowplug_api_executing_requests_limit"},
		{name: "memory of the API in use", metric: "glowplug_api_memory_bytes", label: "of",
			limit: "glowplug_api_memory_limit_bytes", isBytes: true},
	}},
}

// rows are the lines whose metrics are there.
func (g *numberLines) rows(n numbers) (rows []numberRow) {
	for _, line := range g.lines {
		text := line.text(n)
		if len(n[line.metric]) > 0 && !(line.isOptional && text == "0") {
			rows = append(rows, numberRow{line.name, text, line.metric})
		}
	}
	return rows
}

// text writes the numbers of a line: those that are 0 are left out, unless all are.
func (l *numberLine) text(n numbers) string {
	sums := n.by(l.metric, l.label)
	limits := n.by(l.limit, l.label)
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(sums)) {
		if sums[value] == 0 {
			continue
		}
		text := l.number(sums[value])
		if limit, ok := limits[value]; ok {
			text += " of " + l.number(limit)
		}
		if value != "" {
			text = value + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return l.number(0)
	}
	return strings.Join(parts, "; ")
}

func (l *numberLine) number(value float64) string {
	if l.isBytes {
		return bytesText(int64(value))
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
