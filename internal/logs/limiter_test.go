package logs

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs/logstest"
)

// allowed asks n times for a line of a source, and counts those that are written.
func allowed(l *Limiter, s Origin, n int) (lines int) {
	for range n {
		if l.Allow(time.Now(), &s) {
			lines++
		}
	}
	return lines
}

func client(n int) Origin {
	return Stranger(Refused, netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), netaddr.MAC{})
}

// The flood of a source, and of very many, leaves a bounded number of lines and what
// was left out; the lines of others, of hosts and of who is served are all there.
func TestLimiterKeepsTheLinesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logged := logstest.Logger()
		registry := prometheus.NewRegistry()
		l := NewLimiter(logger, registry)
		if got := allowed(l, client(1), 10_000); got != 60 {
			t.Errorf("a flood of one source leaves %d lines", got)
		}
		if got := allowed(l, client(2), 20); got != 20 {
			t.Errorf("another source leaves %d lines of 20", got)
		}
		many := 0
		for n := range 20_000 {
			many += allowed(l, client(n+3), 5)
		}
		if got := many + 60 + 20; got != 600 {
			t.Errorf("a flood of many sources leaves %d lines in all", got)
		}
		if kept, listed := l.counts[Refused].buckets.Len(), len(l.counts[Refused].left); kept > 4096 || listed > 4096 {
			t.Errorf("%d sources are remembered, and the lines of %d", kept, listed)
		}
		for second := range 10 {
			for n := range 2000 {
				host := Origin{Kind: Known, Namespace: "g10", Name: fmt.Sprint("node-", second*2000+n)}
				stranger := client(n)
				stranger.Kind = Served
				if allowed(l, host, 3) != 3 || allowed(l, stranger, 1) != 1 {
					t.Fatal("the line of a boot is left out")
				}
			}
			time.Sleep(time.Second)
		}
		if logged() != "" {
			t.Errorf("before the period is over: %s", logged())
		}
		time.Sleep(Period)
		got := strings.Split(strings.TrimSpace(logged()), "\n")
		first := `level=WARN msg="log lines of a source were left out" kind=refused source=10.0.0.1 lines=9940`
		if len(got) != maxReported+1 || !strings.Contains(got[0], first) {
			t.Errorf("%d lines: %s", len(got), logged())
		}
		left := 10_000 + 20 + 20_000*5 - 600
		last := got[len(got)-1]
		if !strings.Contains(last, fmt.Sprintf(`msg="log lines were left out" lines=%d `, left)) ||
			!strings.HasSuffix(last, fmt.Sprintf(" known=0 served=0 refused=%d written=0 library=0", left)) {
			t.Errorf("%s, want %d lines", last, left)
		}
		if got := testutil.ToFloat64(l.dropped[Refused]); got != float64(left) {
			t.Errorf("%v were counted as dropped", got)
		}
		// It counts from zero again, and logs nothing if no line was left out.
		if got := allowed(l, client(1), 10); got != 10 {
			t.Errorf("%d lines of 10 after a while", got)
		}
		before := len(logged())
		time.Sleep(2 * Period)
		l.Close()
		if got := logged()[before:]; got != "" {
			t.Errorf("left out of nothing: %s", got)
		}
		if got := len(l.counts[Refused].left); got > 0 {
			t.Errorf("the lines of %d sources are remembered", got)
		}
	})
}

// The last lines that were left out are told at the end.
func TestLimiterTellsTheRestAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logged := logstest.Logger()
		l := NewLimiter(logger, nil)
		allowed(l, client(1), 100)
		time.Sleep(time.Second)
		if got := allowed(l, client(1), 100); got != 1 {
			t.Errorf("%d lines a second later", got)
		}
		l.Close()
		if got := logged(); strings.Count(got, "lines=139") != 2 {
			t.Error(got)
		}
		allowed(l, client(1), 100)
		l.Close()
	})
}

// What a library logs is bounded, but for what only an operator who looks closely sees.
func TestLimitedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logstest.Buffer
		h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
		l := NewLimiter(slog.New(h), nil)
		log := slog.New(l.Handler(h, Origin{Kind: Library, Name: "kubernetes"})).With("from", "kubernetes").WithGroup("g")
		for range 1000 {
			log.Error("loud", "a", 1)
			log.Debug("quiet")
		}
		l.Close()
		if got := strings.Count(out.String(), "msg=loud from=kubernetes g.a=1"); got != bounds[Library].source.Burst {
			t.Errorf("%d lines", got)
		}
		if got := strings.Count(out.String(), "msg=quiet"); got != 1000 {
			t.Errorf("%d lines of debugging", got)
		}
		if !strings.Contains(out.String(), "kind=library source=kubernetes lines=900\n") {
			t.Error(out.String()[:1000])
		}
	})
}

func TestNilLimiterLetsAllThrough(t *testing.T) {
	var l *Limiter
	if got := allowed(l, client(1), 1000); got != 1000 {
		t.Errorf("%d lines", got)
	}
}

func TestSourceSaysWhoItIs(t *testing.T) {
	v4, v6, mac := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7"), netaddr.MAC{2, 0, 0, 0, 0, 1}
	for want, s := range map[string]Origin{
		"192.0.2.7":                     Stranger(Served, v4, netaddr.MAC{}),
		"2001:db8::/64":                 Stranger(Served, v6, netaddr.MAC{}),
		"02:00:00:00:00:01":             Stranger(Refused, v4, mac),
		"host g10/a, 02:00:00:00:00:01": {Namespace: "g10", Name: "a", Source: netaddr.Source{MAC: mac}},
		"user admin, 192.0.2.7":         {Name: "admin", Source: netaddr.Source{Addr: netaddr.Network(v4)}},
		"kubernetes":                    {Kind: Library, Name: "kubernetes"},
		"unknown":                       Stranger(Refused, netip.Addr{}, netaddr.MAC{}),
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := NewLimiter(slog.New(slog.DiscardHandler), nil)
	s := Origin{Kind: Known, Namespace: "g10", Name: "server1",
		Source: netaddr.SourceOf(netip.MustParseAddr("192.0.2.7"), netaddr.MAC{})}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		l.Allow(now, &s)
	}
}
