package logs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"glowplug/internal/domain/netaddr"
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

// Source is what lines are counted by. Fields that are not known are zero.
type Source struct {
	Kind Kind
	// Namespace and Name are a host's; Name alone is a user's, or that of a library.
	Namespace, Name string
	// Addr is the source of the client's address: see netaddr.Source.
	Addr netip.Addr
	MAC  netaddr.MAC
}

// String names the source in the log.
func (s Source) String() string {
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
		parts = append(parts, netaddr.SourceText(s.Addr))
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, ", ")
}

// clone returns a source that keeps no request in memory.
func (s Source) clone() Source {
	s.Namespace, s.Name = strings.Clone(s.Namespace), strings.Clone(s.Name)
	return s
}

// Stranger returns the source of a stranger: its hardware address where that is known,
// since one card can have many addresses, else its address.
func Stranger(kind Kind, addr netip.Addr, mac netaddr.MAC) Source {
	if mac != (netaddr.MAC{}) {
		return Source{Kind: kind, MAC: mac}
	}
	return Source{Kind: kind, Addr: netaddr.Source(addr)}
}

// bucket limits the lines of one source, and counts those that were left out.
type bucket struct {
	*rate.Limiter
	left uint64
}

// counts are the buckets of a kind.
type counts struct {
	bound bound

	mu      sync.Mutex
	all     *rate.Limiter
	sources map[Source]*bucket
	swept   time.Time
	// unlisted are the lines left out of sources without a bucket of their own.
	unlisted uint64
}

// allow reports whether a source may write a line, and counts the line.
func (c *counts) allow(now time.Time, s *Source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	spare := c.all.TokensAt(now) >= 1
	switch b := c.bucketOf(now, s); {
	case b != nil && !(spare && b.AllowN(now, 1)):
		b.left++
		return false
	case !spare:
		c.unlisted++
		return false
	}
	return c.all.AllowN(now, 1)
}

// bucketOf returns a source's bucket; nil where there are too many.
func (c *counts) bucketOf(now time.Time, s *Source) *bucket {
	if b := c.sources[*s]; b != nil {
		return b
	}
	if len(c.sources) >= c.bound.sources && now.Sub(c.swept) >= time.Second {
		c.sweepLocked(now)
	}
	if len(c.sources) >= c.bound.sources {
		return nil
	}
	b := &bucket{Limiter: c.bound.source.limiter()}
	c.sources[s.clone()] = b
	return b
}

// sweepLocked deletes the buckets that are full and have nothing to report: their sources
// get equal ones.
func (c *counts) sweepLocked(now time.Time) {
	c.swept = now
	maps.DeleteFunc(c.sources, func(_ Source, b *bucket) bool {
		return b.left == 0 && b.TokensAt(now) >= float64(c.bound.source.burst)
	})
}

// leftOut are lines that were left out of one source.
type leftOut struct {
	source Source
	lines  uint64
}

// report returns the sources whose lines were left out and the number of all lines that
// were, and sets the counts to zero.
func (c *counts) report(now time.Time) (sources []leftOut, lines uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines, c.unlisted = c.unlisted, 0
	for s, b := range c.sources {
		if b.left > 0 {
			sources = append(sources, leftOut{s, b.left})
			lines += b.left
			b.left = 0
		}
	}
	c.sweepLocked(now)
	return sources, lines
}
