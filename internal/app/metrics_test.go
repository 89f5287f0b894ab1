package app

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestAllFamiliesFromTheStart: a rule or a panel finds each family of the reference as soon
// as the server runs, since a rate over a counter that appears later misses its first
// increase.
func TestAllFamiliesFromTheStart(t *testing.T) {
	var o Options
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.AddFlags(fs)
	flags := []string{"--data-dir", t.TempDir(), "--iso-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--listen-tls", "",
		"--backup-dir", t.TempDir()}
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a, err := New(ctx, o, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	families, err := a.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, f := range families {
		have = append(have, f.GetName())
	}
	later := []string{
		"glowplug_store_ballast_bytes", // with an external NATS alone
		"glowplug_store_set_aside",     // of damaged buckets
		"glowplug_boot_step_seconds",   // of the images that have been booted
	}
	for _, name := range documentedMetrics(t) {
		if !slices.Contains(have, name) && !slices.Contains(later, name) {
			t.Errorf("%s is not there from the start", name)
		}
	}
	for _, name := range have {
		if strings.HasPrefix(name, "glowplug_") && !slices.Contains(documentedMetrics(t), name) {
			t.Errorf("%s is not in docs/reference/metrics.md", name)
		}
	}
}

// documentedMetrics returns the names in docs/reference/metrics.md.
func documentedMetrics(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(glowplug_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		names = append(names, row[1])
	}
	if len(names) < 40 {
		t.Fatalf("%d metrics in the reference", len(names))
	}
	return names
}
