package events

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"

	"glowplug/internal/domain/decide"
)

const (
	// maxSources bounds the limiters of clients that are kept; the least recently used
	// goes. After sourceLife a client has its whole budget again.
	maxSources = 1 << 12
	sourceLife = time.Hour
	// omissionPeriod is the time between two reports of events that were left out.
	omissionPeriod = time.Minute
)

// budget is how many different events are made: so many at once, then so many a
// minute. Events that are the same but for their time are one, and free.
type budget struct{ perMinute, burst int }

func (b budget) limiter() *rate.Limiter { return rate.NewLimiter(rate.Limit(b.perMinute)/60, b.burst) }

var (
	// ofSource is the budget of one reason and one client, so that one client cannot use
	// up the budget of the others.
	ofSource = budget{6, 20}
	// Each reason has a budget in all. Whoever takes one address or hardware address
	// after the other must not fill the store.
	ofStrangers = budget{10, 50}
	ofHosts     = budget{30, 100}
	// ofAlarms are the events that name the client; what is beyond is one event a host.
	ofAlarms = budget{10, 100}
)

// budgetOf is the budget of a reason in all.
func budgetOf(n *decide.Notice) budget {
	switch {
	case n.IsAlarm():
		return ofAlarms
	case n.Reason == decide.ReasonUnknownHost || n.Reason == decide.ReasonClaimIgnored:
		return ofStrangers // these can be caused by anybody, and concern no host
	}
	return ofHosts
}

// sourceKey is a client that causes events for a reason.
type sourceKey struct {
	reason string
	from   decide.Source
}

// omission is what was left out of a reason.
type omission struct {
	reason string
	count  int
	last   string // the message of the last event
}

// limits bound the events that clients can cause. Its owner holds a lock.
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

// allow reports whether an event that is not remembered may be recorded.
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

// reset returns what was left out, and begins to count anew.
func (l *limits) reset() []omission {
	var all []omission
	for _, o := range l.omitted {
		all = append(all, *o)
	}
	clear(l.omitted)
	slices.SortFunc(all, func(a, b omission) int { return cmp.Compare(a.reason, b.reason) })
	return all
}
