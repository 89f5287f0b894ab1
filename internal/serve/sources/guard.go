// Package sources counts the wrong guesses of each source of requests: claims that do not
// hold, and names of images. A source with many is refused for a while, so that hosts and
// images cannot be listed by guessing.
package sources

import (
	"cmp"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// linesPerSecond bounds the log lines of sources that have reached their limit.
const linesPerSecond = 10

// Options configure a Guard. Each may be nil.
type Options struct {
	// Notice records an event.
	Notice     func(decide.Notice)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Guard limits the guesses of the sources of requests, over HTTP and iSCSI together. It
// is safe for concurrent use.
type Guard struct {
	claims, images   *Tally
	opts             Options
	lines            *rate.Limiter
	limited, reached *prometheus.CounterVec
	asked            atomic.Uint64
}

// Asked returns how many requests and logins of machines there have been.
func (g *Guard) Asked() uint64 { return g.asked.Load() }

// New makes a Guard.
func New(opts Options) *Guard {
	if opts.Notice == nil {
		opts.Notice = func(decide.Notice) {}
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	now, factory := time.Now(), promauto.With(opts.Registerer)
	g := &Guard{
		claims: NewTally(now), images: NewTally(now), opts: opts,
		lines: rate.NewLimiter(linesPerSecond, linesPerSecond),
		limited: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_limited_requests_total",
			Help: "Requests and iSCSI logins refused without a look-up, since their source had guessed too many claims or " +
				"images.",
		}, []string{"of"}),
		reached: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_limited_sources_total",
			Help: "Times that a source has guessed too many claims that do not hold, or images that it cannot have.",
		}, []string{"of"}),
	}
	for _, of := range []string{ofClaims, ofImages} {
		g.limited.WithLabelValues(of)
		g.reached.WithLabelValues(of)
	}
	return g
}

// Values of the metrics' label.
const (
	ofClaims = "claims"
	ofImages = "images"
)

// Claims returns the limit on look-ups of claims for a caller.
func (g *Guard) Claims(at time.Time, caller *identity.Caller, c *identity.Claims) decide.Limit {
	g.asked.Add(1)
	if !c.Any() || g.claims.quiet(at) {
		return decide.Unlimited
	}
	for _, claim := range decide.Named(c) {
		if g.claims.Limited(at, Guesser{Addr: caller.Addr, Claim: claim}) {
			return decide.AllLimited
		}
	}
	return limitOf(g.claims, at, caller)
}

// Images returns the limit on look-ups of images for a caller.
func (g *Guard) Images(at time.Time, caller *identity.Caller) decide.Limit {
	return limitOf(g.images, at, caller)
}

func limitOf(t *Tally, at time.Time, caller *identity.Caller) decide.Limit {
	s := Guesser{Addr: caller.Addr, MAC: caller.MAC}
	if !t.Limited(at, s) {
		return decide.Unlimited
	}
	if s.Known = true; t.Limited(at, s) {
		return decide.AllLimited
	}
	return decide.StrangersLimited
}

// Guessed counts the claims of a request that do not hold.
func (g *Guard) Guessed(at time.Time, caller *identity.Caller, u *decide.Unheld) {
	s := Guesser{Addr: caller.Addr, MAC: caller.MAC}
	reached := u.Refused && g.claims.Count(at, s, "", true)
	// A host makes the same claims at each boot, and its object need not have all of them:
	// it guesses where it claims something else.
	s.Known, s.Claim = u.Known, u.Beside
	for _, claim := range u.Ignored {
		reached = g.claims.Count(at, s, claim, !u.Known) || reached
	}
	if reached {
		g.announce(ofClaims, decide.ReasonClaimsLimited, caller, "claims that do not hold",
			"its further claims are answered 503 without being looked up; a known host is answered if all its claims hold")
	}
}

// Missed counts a request for an image that the caller cannot have.
func (g *Guard) Missed(at time.Time, caller *identity.Caller) {
	if g.images.Count(at, Guesser{Addr: caller.Addr, MAC: caller.MAC}, "", true) {
		g.announce(ofImages, decide.ReasonImagesLimited, caller, "requests for images that it cannot have",
			"further ones are answered 503 without being looked up, but for the image that it boots")
	}
}

// Answered counts an answer without a look-up; it ignores others.
func (g *Guard) Answered(failure *fault.Error) {
	switch failure {
	case decide.ClaimsLimited:
		g.limited.WithLabelValues(ofClaims).Inc()
	case decide.ImagesLimited:
		g.limited.WithLabelValues(ofImages).Inc()
	}
}

// announce makes an event, a log line and a count of a source that has reached its limit.
func (g *Guard) announce(of, reason string, caller *identity.Caller, what, then string) {
	g.reached.WithLabelValues(of).Inc()
	who, key := "a client without an address", "none"
	if addr := caller.Addr; addr.IsValid() {
		who, key = addr.String(), netaddr.NetworkText(netaddr.Network(addr))
	}
	if caller.MAC != (netaddr.MAC{}) {
		who += " (" + caller.MAC.String() + ")"
	}
	message := who + " has made " + strconv.Itoa(Limit) + " " + what +
		" within a minute; until a minute has passed, " + then
	g.opts.Notice(decide.Notice{Reason: reason, Key: key, Message: message})
	if g.lines.Allow() {
		g.opts.Logger.Warn("a source has reached its limit of guesses", "of", of, "source", who, "limit", Limit)
	}
}
