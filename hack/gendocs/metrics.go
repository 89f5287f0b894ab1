package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"glowplug/internal/app"
)

// descriptor is the text form of prometheus.Desc, which has no accessors.
var descriptor = regexp.MustCompile(
	`^Desc\{fqName: ("[^"]+"), help: (".*"), unit: ".*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// constLabel is a label in it whose value is fixed.
var constLabel = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)

// maxValues is how many values of a label are listed.
const maxValues = 5

// metric is a row of the page.
type metric struct {
	name, help string
	labels     []string
	values     map[string][]string // of labels whose values are fixed
}

// metricReference returns a page with every metric of the program. A server with an
// external store registers all of them.
func metricReference() (string, error) {
	dir, err := os.MkdirTemp("", "gendocs")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var options app.Options
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	options.AddFlags(flags)
	if err := flags.Parse([]string{
		"--data-dir", dir, "--nats-url", "nats://127.0.0.1:1", "--listen", "127.0.0.1:0", "--listen-tls", "",
		"--backup-dir", filepath.Join(dir, "backups"),
	}); err != nil {
		return "", err
	}
	server, err := app.New(context.Background(), options, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	metrics, err := metricsOf(server.Metrics())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the program by `make generate`. `/metrics` has these, and the families of Go and\n" +
		"of the Kubernetes API library: `go_*`, `process_*`, `apiserver_*`, and some without a common prefix,\n" +
		"such as `authentication_attempts`. A name in `_total` is a counter, one in `_seconds` a histogram,\n" +
		"any other a gauge. [Monitoring](../guides/monitoring.md#use-the-rules-and-the-dashboard) says\n" +
		"which are worth an alert.\n\n" +
		"| metric | labels | meaning |\n|---|---|---|\n")
	for _, m := range metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, m.labelText(), strings.ReplaceAll(m.help, "|", `\|`))
	}
	return b.String(), nil
}

// metricsOf returns the program's metrics in a registry, by name.
func metricsOf(registry *prometheus.Registry) ([]*metric, error) {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	byName := map[string]*metric{}
	var failed error
	for desc := range descs { // to the end: Describe would wait for ever
		if err := addDesc(byName, desc.String()); err != nil {
			failed = err
		}
	}
	var metrics []*metric
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		metrics = append(metrics, byName[name])
	}
	return metrics, failed
}

// addDesc adds what a descriptor says to the metric of its name.
func addDesc(metrics map[string]*metric, text string) error {
	parts := descriptor.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("a metric of unknown form: %s", text)
	}
	name, err := strconv.Unquote(parts[1])
	if err != nil || !strings.HasPrefix(name, "glowplug_") {
		return err
	}
	help, err := strconv.Unquote(parts[2])
	if err != nil {
		return err
	}
	m := metrics[name]
	if m == nil {
		m = &metric{name: name, help: help, values: map[string][]string{}}
		metrics[name] = m
		if parts[4] != "" {
			m.labels = strings.Split(parts[4], ",")
		}
	}
	for _, label := range constLabel.FindAllStringSubmatch(parts[3], -1) {
		value, err := strconv.Unquote(label[2])
		if err != nil {
			return err
		}
		if !slices.Contains(m.labels, label[1]) {
			m.labels = append(m.labels, label[1])
		}
		m.values[label[1]] = append(m.values[label[1]], value)
	}
	slices.Sort(m.labels)
	return nil
}

// labelText lists the labels, with their values where there are few.
func (m *metric) labelText() string {
	texts := make([]string, len(m.labels))
	for i, label := range m.labels {
		texts[i] = label
		if values := m.values[label]; len(values) > 1 && len(values) <= maxValues {
			slices.Sort(values)
			texts[i] += " (" + strings.Join(values, ", ") + ")"
		}
	}
	return strings.Join(texts, ", ")
}
