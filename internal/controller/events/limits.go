package events

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"

	"glowplug/internal/domain/decide"
)

const (
	// maxSources bounds the number of limiters of clients; the least recently used is
	// dropped. After sourceLife the limiter of a client begins again.
	maxSources = 1 << 12
	sourceLife = time.Hour
	// omissionPeriod is the time between two reports of omissions.
	omissionPeriod = time.Minute
)

// budget limits the number of different events: burst at once, then perMinute a minute.
// Repetitions of an event do not count.
type budget struct{ perMinute, burst int }

func (b budget) limiter() *rate.Limiter { return rate.NewLimiter(rate.Limit(b.perMinute)/60, b.burst) }

var (
	// ofSource limits one client and one reason, so that a client cannot use up the budget
	// of the others.
	ofSource = budget{6, 20}
	// The others limit all clients and one reason: a client that changes its address or
	// hardware address must not fill the store. ofStrangers are the events that any client
	// can cause; beyond ofAlarms there is one event a host.
	ofStrangers = budget{10, 50}
	ofHosts     = budget{30, 100}
	ofAlarms    = budget{10, 100}
)

// budgetOf returns the budget of a reason for all clients.
func budgetOf(n *decide.Notice) budget {
	switch {
	case n.IsAlarm():
		return ofAlarms
	case n.Reason == decide.ReasonUnknownHost || n.Reason == decide.ReasonClaimIgnored:
		return ofStrangers
	}
	return ofHosts
}

// sourceKey is a client that causes events for a reason.
type sourceKey struct {
	reason string
	from   decide.Source
}

// omission counts the events of a reason that were left out.
type omission struct {
	reason string
	count  int
	last   string // the message of the last event
}

// limits bound the events that clients can cause. The recorder's mutex guards it.
type limits struct {
	reasons map[string]*rate.Limiter // reasons are a handful of constants
	sources *cache.LRUExpireCache    // *rate.Limiter by sourceKey
	omitted map[string]*omission
}

func newLimits() limits {
	return limits{
		reasons: map[string]*rate.Limiter{}, omitted: map[string]*omission{},
		sources: cache.NewLRUExpireCache(maxSources),
	}
}

// allow reports whether a new event may be recorded.
func (l *limits) allow(n *decide.Notice, now time.Time) bool {
	if n.From != (decide.Source{}) && !l.source(sourceKey{n.Reason, n.From}).AllowN(now, 1) {
		return false
	}
	all := l.reasons[n.Reason]
	if all == nil {
		all = budgetOf(n).limiter()
		l.reasons[n.Reason] = all
	}
	return all.AllowN(now, 1)
}

func (l *limits) source(key sourceKey) *rate.Limiter {
	if known, ok := l.sources.Get(key); ok {
		return known.(*rate.Limiter)
	}
	limiter := ofSource.limiter()
	l.sources.Add(key, limiter, sourceLife)
	return limiter
}

// omit counts an event that is left out, and reports whether it is the first one
// since the last reset.
func (l *limits) omit(n *decide.Notice) (first bool) {
	first = len(l.omitted) == 0
	o := l.omitted[n.Reason]
	if o == nil {
		o = &omission{reason: n.Reason}
		l.omitted[n.Reason] = o
	}
	o.count++
	o.last = n.Message
	return first
}

// reset returns the omissions, and begins to count again.
func (l *limits) reset() []*omission {
	all := slices.SortedFunc(maps.Values(l.omitted), func(a, b *omission) int { return cmp.Compare(a.reason, b.reason) })
	clear(l.omitted)
	return all
}
