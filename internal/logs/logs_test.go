package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
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
	const writers, each = 8, 5000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				h.Line(time.Now(), slog.LevelInfo, "request").Uint("n", uint64(w*each+i)).End()
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

// both writes the same line by hand and through slog.
func both(t *testing.T, json bool, s string, n uint64, d time.Duration, a netip.Addr) (byHand, bySlog string) {
	t.Helper()
	now := time.Date(2026, 2, 27, 13, 4, 5, int(n%1e9), time.FixedZone("", 3600))
	var got, want bytes.Buffer
	h := NewHandler(&got, Options{JSON: json})
	h.Line(now, slog.LevelWarn, s).Str("s", s).Pair("p", s, s).Uint("n", n).Bool("b", n%2 == 0).Duration("d", d).Addr("a", a).End()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var reference slog.Handler = slog.NewTextHandler(&want, nil)
	if json {
		reference = slog.NewJSONHandler(&want, nil)
	}
	r := slog.NewRecord(now, slog.LevelWarn, s, 0)
	r.AddAttrs(slog.String("s", s), slog.String("p", s+"/"+s), slog.Uint64("n", n), slog.Bool("b", n%2 == 0), slog.Duration("d", d), slog.String("a", a.String()))
	_ = reference.Handle(context.Background(), r)
	return got.String(), want.String()
}

func FuzzLine(f *testing.F) {
	for i, s := range []string{
		"", "plain", "two words", "a=b", `quote"`, `back\slash`, "new\nline\r\t", "nul\x00\x1f\x7f", "üñí", "\xff\xfe", "\u2028\u2029", "\ufffd", "\u00a0", "<a&b>", "/",
	} {
		f.Add(s, uint64(i)*123456789, int64(1)<<(i*4))
	}
	f.Add("durations", uint64(0), int64(999_999))
	f.Add("durations", uint64(1e9-1), int64(120_340))
	f.Add("durations", uint64(1), int64(-5000))
	f.Fuzz(func(t *testing.T, s string, n uint64, d int64) {
		for _, json := range []bool{false, true} {
			byHand, bySlog := both(t, json, s, n, time.Duration(d), netip.MustParseAddr("fd00::1"))
			if byHand != bySlog {
				t.Fatalf("by hand: %q\nby slog: %q", byHand, bySlog)
			}
		}
	})
}

func BenchmarkLine(b *testing.B) {
	now, addr := time.Now(), netip.MustParseAddr("192.168.10.10")
	for _, json := range []bool{false, true} {
		h := NewHandler(io.Discard, Options{JSON: json})
		b.Run(fmt.Sprintf("hand/json=%v", json), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Line(now, slog.LevelInfo, "request").Addr("client", addr).Pair("host", "g10", "server1").Str("tier", "labels").
					Pair("config", "g10", "coreos-builder").Uint("revision", 12).Str("hash", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855").
					Uint("status", 200).Uint("bytes", 5120).Duration("duration", 123456).Str("agent", "Ignition/2.26.0").End()
			}
		})
		log := slog.New(h)
		b.Run(fmt.Sprintf("slog/json=%v", json), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("client", addr.String()), slog.String("host", "g10/server1"), slog.String("tier", "labels"),
					slog.String("config", "g10/coreos-builder"), slog.Uint64("revision", 12), slog.String("hash", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
					slog.Int("status", 200), slog.Int("bytes", 5120), slog.Duration("duration", 123456), slog.String("agent", "Ignition/2.26.0"))
			}
		})
		h.Close()
	}
}
