package listener

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/time/rate"

	"glowplug/internal/limit"
)

// Class is a class of requests whose rate is bounded by itself: requests of one class use up nothing of another.
type Class uint8

// The classes.
const (
	Boots       Class = iota // of machines
	Others                   // of users, and for metrics
	Health                   // for the health of the server
	connections              // that are new
	classes
)

const (
	// maxSources bounds the sources that are remembered; the one that has connected longest ago goes first.
	maxSources = 1 << 16
	// burstSeconds is how many seconds' requests a source may send at once.
	burstSeconds = 2
)

// Rates bounds the rate of the requests of each source, whatever the number of its connections. It is safe for
// concurrent use.
type Rates struct {
	mu      sync.Mutex
	sources limit.Table[string, *limiters]
}

// limiters are those of a source, by class.
type limiters [classes]*rate.Limiter

// NewRates bounds requests to a number in a second, which is at least 1.
func NewRates(perSecond int) *Rates {
	each := limit.PerSecond(perSecond, burstSeconds*perSecond)
	return &Rates{sources: limit.NewTable[string](maxSources, func() *limiters {
		l := &limiters{}
		for class := range l {
			l[class] = each.Bucket()
		}
		return l
	})}
}

func (r *Rates) of(source string) *limiters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sources.Of(source)
}

// connects counts a new connection of a source, and reports whether it is within the rate. A nil Rates allows all.
func (r *Rates) connects(source string) bool { return r == nil || r.of(source)[connections].Allow() }

type limitersKey struct{}

// ConnContext stores in a context of http.Server.ConnContext by what the requests of the connection are counted.
// source is "" where they are not bounded.
func (r *Rates) ConnContext(ctx context.Context, source string) context.Context {
	if source == "" {
		return ctx
	}
	return context.WithValue(ctx, limitersKey{}, r.of(source))
}

// Allow counts a request, and reports whether it is within the rate of its source. A nil Rates allows all.
func (r *Rates) Allow(req *http.Request, class Class) bool {
	if r == nil {
		return true
	}
	l, bounded := req.Context().Value(limitersKey{}).(*limiters)
	return !bounded || l[class].Allow()
}
