package logs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"glowplug/internal/logs/logstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBuffering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logstest.Buffer
		h := NewHandler(&out, Options{})
		log := slog.New(h).With("a", 1).WithGroup("g")
		log.Info("one", "b", 2)
		log.Debug("never")
		if out.String() != "" {
			t.Fatalf("written at once: %q", out.String())
		}
		time.Sleep(DefaultInterval)
		synctest.Wait()
		if got := out.String(); !strings.HasSuffix(got, " level=INFO msg=one a=1 g.b=2\n") {
			t.Fatalf("after the interval: %q", got)
		}
		log.Info("two")
		log.Error("three")
		if got := out.String(); !strings.Contains(got, "msg=two") || !strings.Contains(got, "msg=three") {
			t.Fatalf("an error is not written at once: %q", got)
		}
		log.Info("four")
		if err := h.Close(); err != nil || !strings.Contains(out.String(), "msg=four") {
			t.Fatalf("after Close: %q, %v", out.String(), err)
		}
		log.Info("five")
		if !strings.Contains(out.String(), "msg=five") {
			t.Fatalf("a line after Close is lost: %q", out.String())
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNothingIsDropped(t *testing.T) {
	var out logstest.Buffer
	h := NewHandler(&out, Options{Interval: time.Millisecond})
	log := slog.New(h)
	const writers, each = 8, 5000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				log.Info("request", "n", w*each+i)
			}
		})
	}
	wg.Wait()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		_, n, ok := strings.Cut(line, " n=")
		if !ok || seen[n] {
			t.Fatalf("a broken or repeated line: %q", line)
		}
		seen[n] = true
	}
	if len(seen) != writers*each {
		t.Errorf("%d lines of %d", len(seen), writers*each)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestCloseGivesTheError(t *testing.T) {
	h := NewHandler(brokenWriter{}, Options{})
	slog.New(h).Info("lost")
	if err := h.Close(); err == nil {
		t.Error("want the error of the output")
	}
}

// TestJSONDurationsAreSeconds: a number without a unit is read as what Prometheus has.
func TestJSONDurationsAreSeconds(t *testing.T) {
	for json, want := range map[bool]string{true: `"duration_seconds":0.0015`, false: "duration=1.5ms"} {
		var out bytes.Buffer
		h := NewHandler(&out, Options{JSON: json})
		slog.New(h).Info("request", "duration", 1500*time.Microsecond)
		if err := h.Close(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v %s, without %s", err, out.String(), want)
		}
	}
}
