package app

import (
	"log/slog"
	"math"
	"runtime/debug"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestBudgetsFollowTheMemoryLimit: what the API may take is a part of what the
// server may.
func TestBudgetsFollowTheMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct{ limit, requests, watches int64 }{
		"none":     {math.MaxInt64, 512 << 20, 128 << 20},
		"64 MiB":   {64 << 20, 32 << 20, 16 << 20},
		"300 MiB":  {300 << 20, 60 << 20, 16 << 20},
		"1000 MiB": {1000 << 20, 200 << 20, 50 << 20},
		"16 GiB":   {16 << 30, 512 << 20, 128 << 20},
	} {
		b := newBudgets(c.limit, prometheus.NewRegistry())
		if r, w := b.requests.Stats().Size, b.watches.Stats().Size; r != c.requests || w != c.watches {
			t.Errorf("%s: requests %d MiB, watches %d MiB", name, r>>20, w>>20)
		}
	}
}

// TestGOMEMLIMITTakesPrecedence: what the operator has set is kept.
func TestGOMEMLIMITTakesPrecedence(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	t.Setenv("GOMEMLIMIT", "700MiB")
	debug.SetMemoryLimit(700 << 20) // as the runtime does at its start
	if got := limitMemory(slog.New(slog.DiscardHandler)); got != 700<<20 {
		t.Errorf("the limit is %d", got)
	}
}
