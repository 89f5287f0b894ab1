package logs

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
)

// Period is how often a Limiter reports what was left out.
const Period = time.Minute

// bound limits the lines of a kind: those of each of so many sources, and all of them.
type bound struct {
	source, all limit.Rate
	sources     int
}

// bounds are those of each kind. A storm of boots of 2,000 machines a second leaves all
// of its lines, and so does the import of a data center.
var bounds = [kinds]bound{
	Known:   {limit.PerSecond(50, 1000), limit.PerSecond(10_000, 40_000), 1 << 16},
	Served:  {limit.PerSecond(10, 200), limit.PerSecond(4_000, 8_000), 1 << 14},
	Refused: {limit.PerSecond(1, 60), limit.PerSecond(20, 600), 1 << 12},
	Written: {limit.PerSecond(1000, 50_000), limit.PerSecond(2000, 100_000), 1 << 12},
	Library: {limit.PerSecond(5, 100), limit.PerSecond(5, 100), 16},
}

// Limiter bounds the log lines of requests, by their outcome and their source, and logs
// once a Period how many were left out. Each kind has its own limits: refused strangers
// hide no boot. A nil Limiter allows every line. It is safe for concurrent use.
type Limiter struct {
	logger  *slog.Logger
	dropped [kinds]prometheus.Counter
	counts  [kinds]counts

	mu     sync.Mutex
	timer  *time.Timer // nil: nothing was left out since the last report
	closed bool
}

// NewLimiter returns a Limiter that reports to logger. Registerer may be nil.
func NewLimiter(logger *slog.Logger, registerer prometheus.Registerer) *Limiter {
	l := &Limiter{logger: logger}
	dropped := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "glowplug_log_lines_dropped_total",
		Help: "Lines left out of the log, because their source or all of their kind (known, served, refused, " +
			"written, library) left too many.",
	}, []string{"kind"})
	for k := range kinds {
		l.dropped[k] = dropped.WithLabelValues(k.String())
		l.counts[k] = counts{
			all: bounds[k].all.Bucket(), buckets: limit.Buckets[Origin](bounds[k].sources, bounds[k].source),
			left: map[Origin]uint64{}, listed: bounds[k].sources,
		}
	}
	return l
}

// Allow reports whether the limits allow a log line for a request of this source. Lines
// that are not allowed are counted.
func (l *Limiter) Allow(now time.Time, s *Origin) bool {
	if l == nil || l.counts[s.Kind].allow(now, s) {
		return true
	}
	l.dropped[s.Kind].Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(Period, l.report)
	}
	return false
}

// Handler returns a handler that limits the lines of a source from level Warn on.
func (l *Limiter) Handler(h slog.Handler, s Origin) slog.Handler { return limited{h, l, &s} }

type limited struct {
	slog.Handler
	limiter *Limiter
	source  *Origin
}

func (h limited) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && !h.limiter.Allow(r.Time, h.source) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limited{h.Handler.WithAttrs(attrs), h.limiter, h.source}
}

func (h limited) WithGroup(name string) slog.Handler {
	return limited{h.Handler.WithGroup(name), h.limiter, h.source}
}

// Close reports what was left out since the last report.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed = true
	due := l.timer != nil && l.timer.Stop()
	l.mu.Unlock()
	if due {
		l.report()
	}
}

// maxReported is how many sources a report names, those with the most lines.
const maxReported = 10

// report logs what was left out.
func (l *Limiter) report() {
	l.mu.Lock()
	l.timer = nil
	l.mu.Unlock()
	var all []leftOut
	var total uint64
	var each []any
	for k := range kinds {
		some, lines := l.counts[k].report()
		all, total, each = append(all, some...), total+lines, append(each, k.String(), lines)
	}
	slices.SortFunc(all, func(a, b leftOut) int { return cmp.Compare(b.lines, a.lines) })
	for _, s := range all[:min(maxReported, len(all))] {
		l.logger.Warn("log lines of a source were left out",
			"kind", s.source.Kind.String(), "source", s.source.String(), "lines", s.lines)
	}
	if total > 0 {
		l.logger.Warn("log lines were left out", append([]any{"lines", total, "sources", len(all)}, each...)...)
	}
}

// Kind is the outcome of a request. The lines of each kind have their own limits.
type Kind uint8

const (
	// Known is a request of a known host or of a caller with a valid credential.
	Known Kind = iota
	// Served is one of a stranger that was given what it asked for.
	Served
	// Refused is one of a stranger that was not.
	Refused
	// Written is a write through the API that was applied.
	Written
	// Library is what a library logs about requests.
	Library
	kinds
)

// String is the kind's name in the log and in the metric.
func (k Kind) String() string {
	return [kinds]string{"known", "served", "refused", "written", "library"}[k]
}

// Origin is what lines are counted by: whom a request came from. Fields that are not known are zero.
type Origin struct {
	Kind Kind
	// Namespace and Name are a host's; Name alone is a user's, or that of a library.
	Namespace, Name string
	netaddr.Source
}

// String names the source in the log.
func (s Origin) String() string {
	var parts []string
	switch {
	case s.Namespace != "":
		parts = append(parts, "host "+s.Namespace+"/"+s.Name)
	case s.Kind == Library:
		parts = append(parts, s.Name)
	case s.Name != "":
		parts = append(parts, "user "+s.Name)
	}
	if s.MAC != (netaddr.MAC{}) {
		parts = append(parts, s.MAC.String())
	}
	if s.Addr.IsValid() {
		parts = append(parts, netaddr.NetworkText(s.Addr))
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, ", ")
}

// Stranger returns the source of a stranger.
func Stranger(kind Kind, addr netip.Addr, mac netaddr.MAC) Origin {
	return Origin{Kind: kind, Source: netaddr.SourceOf(addr, mac)}
}

// counts are the lines of a kind.
type counts struct {
	mu      sync.Mutex
	all     *rate.Limiter
	buckets limit.Table[Origin, *rate.Limiter]
	// left are the lines left out since the last report, of the first sources; unlisted are those of the others.
	left     map[Origin]uint64
	listed   int // how many sources left may have
	unlisted uint64
}

// allow reports whether a source may write a line, and counts the line.
func (c *counts) allow(now time.Time, s *Origin) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.buckets.Of(*s)
	if c.all.TokensAt(now) >= 1 && own.AllowN(now, 1) {
		return c.all.AllowN(now, 1)
	}
	if c.left[*s] > 0 || len(c.left) < c.listed {
		c.left[*s]++
	} else {
		c.unlisted++
	}
	return false
}

// leftOut are lines that were left out of one source.
type leftOut struct {
	source Origin
	lines  uint64
}

// report returns the sources whose lines were left out and the number of all lines that
// were, and sets the counts to zero.
func (c *counts) report() (sources []leftOut, lines uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines, c.unlisted = c.unlisted, 0
	for s, n := range c.left {
		sources = append(sources, leftOut{s, n})
		lines += n
	}
	clear(c.left)
	return sources, lines
}
