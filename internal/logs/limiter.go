package logs

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// Period is how often a Limiter reports what was left out.
const Period = time.Minute

// limit is how many lines may be written: burst at once, and each a second after that.
type limit struct {
	each  rate.Limit
	burst int
}

func (l limit) limiter() *rate.Limiter { return rate.NewLimiter(l.each, l.burst) }

// bound limits the lines of a kind: those of each of so many sources, and all of them.
type bound struct {
	source, all limit
	sources     int
}

// bounds are those of each kind. A storm of boots of 2,000 machines a second leaves all
// of its lines, and so does the import of a data center.
var bounds = [kinds]bound{
	Known:   {source: limit{50, 1000}, all: limit{10_000, 40_000}, sources: 1 << 16},
	Served:  {source: limit{10, 200}, all: limit{4_000, 8_000}, sources: 1 << 14},
	Refused: {source: limit{1, 60}, all: limit{20, 600}, sources: 1 << 12},
	Written: {source: limit{1000, 50_000}, all: limit{2000, 100_000}, sources: 1 << 12},
	Library: {source: limit{5, 100}, all: limit{5, 100}, sources: 16},
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
		l.counts[k] = counts{bound: bounds[k], sources: map[Source]*bucket{}, all: bounds[k].all.limiter()}
	}
	return l
}

// Allow reports whether the limits allow a log line for a request of this source. Lines
// that are not allowed are counted.
func (l *Limiter) Allow(now time.Time, s *Source) bool {
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
func (l *Limiter) Handler(h slog.Handler, s Source) slog.Handler { return limited{h, l, &s} }

type limited struct {
	slog.Handler
	limiter *Limiter
	source  *Source
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
	now := time.Now()
	var all []leftOut
	var total uint64
	var each []any
	for k := range kinds {
		some, lines := l.counts[k].report(now)
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
