// Package machine answers machines over HTTP: it finds out who asks, lets the
// decision be made, and writes what was decided. Requests that machines make
// while they boot are many at once, so that what is known before is not worked
// out again.
package machine

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/logs"
	"glowplug/internal/serve/sources"
	"glowplug/internal/store/snapshot"
)

// The paths that a Server answers.
const (
	PathIgnition  = "/api/v1/ignition"
	PathKickstart = "/api/v1/kickstart"
)

// Decider decides which config a machine is given.
type Decider interface {
	Config(req *decide.Request) decide.ConfigDecision
}

// Resolver finds out who sent a request.
type Resolver interface {
	Caller(r *http.Request) identity.Caller
}

// Journal writes down what happened. Its methods do not block, but for Complete.
type Journal interface {
	// Served is called once a machine has been given a config.
	Served(host *snapshot.Host, config *snapshot.Config)
	Notice(n decide.Notice)
	// ScriptServed is called once a machine has been given a script that boots
	// what is named, LocalBoot once it has been given one that boots its disk.
	ScriptServed(host *snapshot.Host, what string, again bool)
	LocalBoot(host *snapshot.Host, why string)
	// Failed is called once a machine has been shown why it cannot boot.
	Failed(host *snapshot.Host)
	// Complete is called when a machine has said that it is provisioned. It returns
	// nil once that is durable, and an error where that is not known.
	Complete(ctx context.Context, host *snapshot.Host) error
}

// Options are what a Server stands on.
type Options struct {
	Decider  Decider
	Resolver Resolver
	// Journal may be nil.
	Journal Journal
	// Boot is what the boot path stands on; nil: only configs are given.
	Boot *Boot
	// Streams is what stream metadata is served from; nil: none is.
	Streams *Streams
	// Ready tells whether the store has been read; nil: it has. Until then
	// machines are told to come again.
	Ready func() bool
	// Lost are the kinds of objects that are missing as a whole.
	Lost Lost
	// Sources limits guesses; nil: this server gets a guard of its own.
	Sources *sources.Guard
	// Believe tells whether the sender of a request is believed whatever it
	// claims: one of the admin listener or an authenticated one. It is asked where
	// there are claims, or images that there are not; nil: nobody is.
	Believe func(r *http.Request) bool
	// Enforce makes an answer end before its last byte where the neighbour entry of
	// the client changes meanwhile (--neighbors=enforce); else that is an event.
	Enforce bool
	// Log takes a line a request; nil: none.
	Log *logs.Handler
	// Limiter bounds these lines; nil: nothing does.
	Limiter *logs.Limiter
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
}

// Server answers GET and HEAD on PathIgnition and PathKickstart and, with Boot,
// on the paths of the boot path. It is safe for concurrent use.
type Server struct {
	opts    Options
	metrics *metrics
	headers headerCache
}

// New makes a Server.
func New(opts Options) *Server {
	if opts.Ready == nil {
		opts.Ready = func() bool { return true }
	}
	if opts.Believe == nil {
		opts.Believe = func(*http.Request) bool { return false }
	}
	if opts.Sources == nil {
		var limits sources.Options
		if opts.Journal != nil {
			limits.Notice = opts.Journal.Notice
		}
		opts.Sources = sources.New(limits)
	}
	return &Server{opts: opts, metrics: newMetrics(opts.Registerer)}
}

// exchange is one request and what became of it.
type exchange struct {
	start    time.Time
	endpoint endpoint
	request  decide.Request
	decision decide.ConfigDecision
	// failure is why there was no config; nil where there was one.
	failure *fault.Error
	status  int
	// bytes of the body were written, and broken says why not all of them.
	bytes  int
	broken error
	// cut is set where the connection has to end, because the neighbour entry changed.
	cut bool
	// boots is what the machine was told to boot, or reads; "" elsewhere.
	boots string
	// alarm is the reason of a notice that is an alarm; "": there was none.
	alarm string
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// unready is told to machines that ask before the store has been read.
var unready = fault.New(fault.Unavailable, "the server is not ready yet: its store has not been read; ask again in a moment")

// ServeHTTP answers a machine.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchanges.Get().(*exchange)
	*x = exchange{start: time.Now(), decision: decide.ConfigDecision{}}
	defer func() {
		if failure := recover(); failure != nil {
			s.crashed(w, r, x, failure)
		}
		s.finish(r, x)
		cut := x.cut
		exchanges.Put(x)
		if cut {
			panic(http.ErrAbortHandler) // an answer without its last byte is none
		}
	}()
	switch r.URL.Path {
	case PathIgnition:
		x.endpoint, x.request.Type = ignition, ignition.String()
	case PathKickstart:
		x.endpoint, x.request.Type = kickstart, kickstart.String()
	default:
		var streams bool
		if x.endpoint, streams = s.streamPath(r.URL.Path); !streams && (s.opts.Boot == nil || !s.bootPath(r, x)) {
			fail(w, r, x, fault.New(fault.NoMatch, "there is nothing at this path"))
			return
		}
	}
	if x.endpoint == complete {
		if r.Method != http.MethodPost {
			refuseMethod(w, x, postAllowed)
			return
		}
	} else if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuseMethod(w, x, allowed)
		return
	}
	if x.endpoint == script { // it is the same for all, and waits itself
		s.serveScript(w, r, x)
		return
	}
	if !s.opts.Ready() {
		fail(w, r, x, unready)
		return
	}
	switch x.endpoint {
	case bootScript:
		s.serveIPXE(w, r, x)
	case iso:
		s.serveISO(w, r, x)
	case complete:
		s.serveComplete(w, r, x)
	case stream:
		s.serveStream(w, r, x)
	case artifact:
		s.serveArtifact(w, r, x)
	default:
		if failure := s.ask(r, x); failure != nil {
			fail(w, r, x, failure)
			return
		}
		s.answer(w, r, x)
	}
}

// bootPath tells whether a request is of the boot path, and notes of which part.
func (s *Server) bootPath(r *http.Request, x *exchange) bool {
	x.request.Type = decide.IPXE
	switch path := r.URL.Path; {
	case path == PathScript:
		x.endpoint = script
	case path == PathIPXE:
		x.endpoint = bootScript
	case path == PathComplete:
		x.endpoint = complete
	case strings.HasPrefix(path, PathISO):
		x.endpoint = iso
	default:
		return false
	}
	return true
}

// hear finds out who sent a request and what it claims.
func (s *Server) hear(r *http.Request, x *exchange) *fault.Error {
	claims, malformed := identity.ParseClaims(r.URL.RawQuery)
	x.request.Caller = s.opts.Resolver.Caller(r)
	if malformed != nil {
		return malformed
	}
	x.request.Claims = claims
	if claims.Any() {
		x.request.Caller.Believed = s.opts.Believe(r)
		x.request.ClaimLimit = s.opts.Sources.Claims(x.start, &x.request.Caller, &claims)
	}
	return nil
}

// ask reads the request and lets the decision be made.
func (s *Server) ask(r *http.Request, x *exchange) *fault.Error {
	if failure := s.hear(r, x); failure != nil {
		return failure
	}
	x.request.Accept = accept(r.Header["Accept"])
	if agent := r.Header["User-Agent"]; len(agent) > 0 {
		x.request.UserAgent = agent[0]
	}
	x.request.Gone = r.Context().Done()
	x.decision = s.opts.Decider.Config(&x.request)
	s.noticed(x, x.decision.Notices...)
	s.guessed(x, &x.decision.Unheld)
	if s.doubtful(&x.decision) {
		x.decision.Err = lost
	}
	return x.decision.Err
}

// guessed counts what a request claimed that does not hold.
func (s *Server) guessed(x *exchange, u *decide.Unheld) {
	if u.Any() {
		s.opts.Sources.Guessed(x.start, &x.request.Caller, u)
	}
}

// doubtful reports whether a decision may be wrong because a whole bucket is missing:
// no config was found, or only a default one.
func (s *Server) doubtful(d *decide.ConfigDecision) bool {
	nothing := d.Err != nil && d.Err.Kind == fault.NoMatch
	anybody := d.Err == nil && d.Tier == match.Default
	return (nothing || anybody) && s.opts.Lost.fromConfig(d.Host)
}

// noticed passes on what deserves an event.
func (s *Server) noticed(x *exchange, notices ...decide.Notice) {
	for _, n := range notices {
		s.metrics.notice(n.Reason)
		if n.IsAlarm() {
			x.alarm = n.Reason
		}
		if s.opts.Journal != nil {
			s.opts.Journal.Notice(n)
		}
	}
}

// finish writes down what became of a request.
func (s *Server) finish(r *http.Request, x *exchange) {
	took := time.Since(x.start)
	if x.failure != nil {
		s.opts.Sources.Answered(x.failure)
	}
	s.metrics.request(x.endpoint, x.status, x.decision.Tier, took)
	given := x.status == http.StatusOK && r.Method == http.MethodGet && x.broken == nil || x.status == http.StatusNotModified
	// A believed caller asks about a machine and is not the machine: an operator
	// who looks at a config with curl has booted nothing.
	machine := x.decision.Host != nil && !x.request.Caller.Believed
	if given && machine && x.decision.Config != nil && s.opts.Journal != nil && !x.request.Claims.Raw {
		s.opts.Journal.Served(x.decision.Host, x.decision.Config)
	}
	s.log(r, x, took)
}

// crashed answers for a fault of our own, and ends the connection where an
// answer has begun: half of one is worse than none.
func (s *Server) crashed(w http.ResponseWriter, r *http.Request, x *exchange, failure any) {
	begun := x.status != 0
	if s.opts.Log != nil {
		slog.New(s.opts.Log).Error("a request made the server panic", "stack", string(debug.Stack()))
	}
	if begun {
		panic(http.ErrAbortHandler)
	}
	x.decision = decide.ConfigDecision{}
	fail(w, r, x, fault.Of(fmt.Errorf("panic: %v", failure)))
}
