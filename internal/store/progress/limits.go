package progress

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"glowplug/internal/domain/decide"
)

const (
	// maxSources bounds the limiters that are kept; the least recently used goes.
	maxSources = 1 << 12
	// omissionPeriod is how often it is told which events were left out. A writer, which
	// looks for them, never sleeps for longer (see recheck).
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

type source struct {
	key     sourceKey
	limiter *rate.Limiter
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
	sources map[sourceKey]*list.Element
	recent  *list.List // of *source, the most recently used first

	omitted map[string]*omission
	since   time.Time // of the first omission that was not told yet
}

func newLimits() limits {
	return limits{
		reasons: map[string]*rate.Limiter{}, omitted: map[string]*omission{},
		sources: map[sourceKey]*list.Element{}, recent: list.New(),
	}
}

// allow reports whether an event that is not remembered may be made.
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
	if known := l.sources[key]; known != nil {
		l.recent.MoveToFront(known)
		return known.Value.(*source).limiter
	}
	if len(l.sources) >= maxSources {
		oldest := l.recent.Back()
		delete(l.sources, l.recent.Remove(oldest).(*source).key)
	}
	s := &source{key, ofSource.limiter()}
	l.sources[key] = l.recent.PushFront(s)
	return s.limiter
}

// omit counts an event that is left out.
func (l *limits) omit(n *decide.Notice, now time.Time) {
	if len(l.omitted) == 0 {
		l.since = now
	}
	o := l.omitted[n.Reason]
	if o == nil {
		o = &omission{reason: n.Reason}
		l.omitted[n.Reason] = o
	}
	o.count++
	o.last = n.Message
}

// take takes what was left out once a period is over; wait is the time until then,
// negative where there is nothing. all takes it at once.
func (l *limits) take(now time.Time, all bool) (taken []omission, wait time.Duration) {
	if len(l.omitted) == 0 {
		return nil, -1
	}
	if wait = l.since.Add(omissionPeriod).Sub(now); wait > 0 && !all {
		return nil, wait
	}
	for _, o := range l.omitted {
		taken = append(taken, *o)
	}
	clear(l.omitted)
	slices.SortFunc(taken, func(a, b omission) int { return cmp.Compare(a.reason, b.reason) })
	return taken, -1
}
