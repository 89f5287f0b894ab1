// Package machine answers machines over HTTP. The handler of each route reads the
// claims of the request, calls the decision, and writes the answer.
package machine

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	v1 "glowplug/api/v1"
	"glowplug/internal/audit"
	"glowplug/internal/domain/arch"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/logs"
	"glowplug/internal/serve/listener"
	"glowplug/internal/serve/sources"
)

// The paths that a Server answers.
const (
	PathIgnition  = "/api/v1/ignition"
	PathKickstart = "/api/v1/kickstart"
)

// Decider decides on the config of a machine.
type Decider interface {
	Config(req *decide.Request) decide.ConfigDecision
	// InstallDevice returns the disk on which a host is to install the system of its image; "": on none.
	InstallDevice(host *model.Host) string
}

// Resolver identifies the sender of a request.
type Resolver interface {
	Caller(r *http.Request) identity.Caller
}

// Journal records the progress of machines. Only Complete blocks.
type Journal interface {
	// Fetch counts that the config of a host is about to be served to a machine, if the host has limits.
	// closed says why it is not served; notice may be nil.
	Fetch(req *decide.Request, host *model.Host, limits model.Limits) (notice *decide.Notice, closed string)
	// Served records that a machine has a config.
	// hash is that of the bytes with placeholders for the values of Secrets, and describe completes the boot, where this
	// changes it, also below.
	Served(host *model.Host, config model.Ref, hash string, describe func(*v1.Boot))
	// Refused records that a machine was refused its config, and why.
	Refused(host *model.Host, why string, describe func(*v1.Boot))
	Notice(n decide.Notice)
	// Unknown records a request of a machine that is no known host.
	Unknown(s decide.Sighting) (name string)
	// Known records a request of a known host from an address.
	Known(addr netip.Addr)
	// IssueToken returns the time of issue of the token in the script that a machine is about to
	// receive, again in the same boot or not.
	IssueToken(host *model.Host, again bool, at time.Time) time.Time
	// ScriptServed records the script that a machine received; what names the image that it boots.
	// LocalBoot records a script that boots the disk, and the reason.
	ScriptServed(host *model.Host, what string, again bool, describe func(*v1.Boot))
	LocalBoot(host *model.Host, why string, describe func(*v1.Boot))
	// Failed records a script that only shows why the machine cannot boot.
	Failed(host *model.Host, why string, describe func(*v1.Boot))
	// Reported records that a machine has reported its hardware.
	Reported(host *model.Host)
	// Complete records that a machine is provisioned. It returns nil once that is
	// durable, and an error where that is unknown.
	Complete(ctx context.Context, host *model.Host) error
}

// Options are the parts of a Server.
type Options struct {
	Decider  Decider
	Resolver Resolver
	// Journal may be nil.
	Journal Journal
	// Keep keeps what a host was given, without what is secret in it, by its hash. It does not block. Nil: nothing is
	// kept.
	Keep func(name string, content []byte)
	// Boot is for the boot path; nil: only configs are served.
	Boot *Boot
	// Streams has stream metadata; nil: none is served.
	Streams *Streams
	// Assets is a folder of files, for PathAssets; nil: there is none.
	Assets *os.Root
	// Ready reports whether the store has been read; nil: it has. Until then machines
	// are asked to retry.
	Ready func() bool
	// Sources limits guesses; nil: this server has a guard of its own.
	Sources *sources.Guard
	// Believe reports whether all claims of the sender of a request are believed: at the
	// admin listener, or after authentication; nil: none are. It is called for requests
	// with claims or a token, and for images that do not exist.
	Believe func(r *http.Request) bool
	// Enforce refuses a config where the neighbour entry of the client changes while it is
	// decided on (--neighbors=enforce); otherwise that is only an event.
	Enforce bool
	// HTTPS has configs served over HTTPS alone; nil: they are served over plain HTTP, too.
	HTTPS *HTTPS
	// Audit records the answers that hand out configs, scripts and images, and what machines
	// report; believed is true where the sender has a credential. It is nil without an audit.
	Audit func(r *http.Request, a audit.Answer, believed bool)
	// Log, for a line a request, its Limiter, and Registerer may be nil.
	Log        slog.Handler
	Limiter    *logs.Limiter
	Registerer prometheus.Registerer
}

// Server answers GET and HEAD on PathIgnition and PathKickstart and, with Boot and
// Streams, on their paths. It is safe for concurrent use.
type Server struct {
	opts    Options
	metrics *metrics
	routes  []*route
	nothing *route
	auditor *auditor // nil: there is no audit
}

// handler answers a request whose method the route has. It completes req with the claims.
type handler func(w *response, r *http.Request, req *request) result

// route is a handler with the rules for its requests. A path with a slash at its end is
// that of a subtree.
type route struct {
	path   string
	handle handler
	// methods are the allowed ones; nil: all.
	methods []string
	// always is true where the store may be unread.
	always bool
	// public is true for files that are the same for everybody; the audit leaves them out.
	public  bool
	metrics *routeMetrics
}

// request is a request of a machine.
type request struct {
	decide.Request
	// stranger is the unknown machine that has sent the request; nil: a host has, or no machine.
	stranger *model.Host
}

// machine returns whose boot a request is a part of: a host, or an unknown machine; nil: nobody's.
func (r *request) machine(host *model.Host) *model.Host {
	if host != nil {
		return host
	}
	return r.stranger
}

// result is the outcome of a request. Only its Identity is set where the request was not
// for a config. Err is why it failed.
type result struct {
	decide.ConfigDecision
	// boots is the image or file that the machine boots or reads; "" elsewhere.
	boots string
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
		opts.Sources = sources.New(sources.Options{})
	}
	s := &Server{opts: opts, metrics: newMetrics(opts.Registerer)}
	if opts.Audit != nil {
		s.auditor = &auditor{opts.Audit, newReads()}
	}
	s.nothing = s.newRoute("", "other", s.serveNothing)
	s.nothing.always, s.nothing.public, s.nothing.methods = true, true, nil
	s.addRoute(PathIgnition, decide.Ignition, s.serveConfig(decide.Ignition))
	s.addRoute(PathKickstart, decide.Kickstart, s.serveConfig(decide.Kickstart))
	assets := s.addRoute(PathAssets, "asset", s.serveAsset)
	assets.always, assets.public = true, true
	if opts.Boot != nil {
		boot := bootPath{s}
		s.addRoute(PathScript, "boot.ipxe", boot.serveScript).always = true // iPXE retries in the script
		s.addRoute(PathIPXE, "ipxe", boot.serveIPXE)
		s.addRoute(PathGRUB, "grub", boot.serveIPXE)
		s.addRoute(PathComplete, "boot-complete", boot.serveComplete).methods = []string{http.MethodPost}
		if opts.Boot.Inspections != nil {
			s.addRoute(PathHardware, "hardware", boot.serveHardware).methods = []string{http.MethodPost}
		}
		s.addRoute(PathISO, "iso", boot.serveISO)
		loaders := s.addRoute(PathLoaders, "boot-loader", boot.serveLoader)
		loaders.always, loaders.public = true, true
	}
	if opts.Streams != nil {
		streams := streamPath{s}
		for path := range opts.Streams.Aliases {
			s.addRoute(path, "stream", streams.serveStream).public = true
		}
		s.addRoute(PathArtifacts, "artifact", streams.serveArtifact).public = true
		s.addRoute(PathStreams, "stream", streams.serveStream).public = true
	}
	return s
}

func (s *Server) newRoute(path, name string, handle handler) *route {
	methods := []string{http.MethodGet, http.MethodHead}
	return &route{path: path, handle: handle, methods: methods, metrics: s.metrics.route(name)}
}

func (s *Server) addRoute(path, name string, handle handler) *route {
	route := s.newRoute(path, name, handle)
	s.routes = append(s.routes, route)
	return route
}

// routeOf returns the first route of a path. http.ServeMux would redirect a path that is
// not clean, such as one with two slashes, and a client that boots follows no redirect.
func (s *Server) routeOf(path string) *route {
	for _, route := range s.routes {
		if path == route.path || strings.HasSuffix(route.path, "/") && strings.HasPrefix(path+"/", route.path) {
			return route
		}
	}
	return s.nothing
}

// unready is the answer until the store has been read.
var unready = fault.New(fault.Unavailable,
	"the server is not ready yet: its store has not been read; ask again in a moment; if this lasts, its log says why")

// ServeHTTP answers a machine, counts the request and logs it.
func (s *Server) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	r = cleaned(r)
	route := s.routeOf(r.URL.Path)
	w := &response{ResponseWriter: hw, head: r.Method == http.MethodHead}
	req := &request{Request: decide.Request{Type: decide.IPXE, At: time.Now(), Caller: s.opts.Resolver.Caller(r)}}
	var res result
	defer func() {
		if failure := recover(); failure != nil {
			res = s.crashed(w, failure)
		}
		took := time.Since(req.At)
		s.opts.Sources.Answered(res.Err)
		route.metrics.request(w.status, res.Tier, took)
		s.log(route.metrics.name, w, r, req, &res, took)
		if s.auditor != nil && !route.public {
			s.auditor.answered(w, r, req, &res)
		}
	}()
	switch {
	case route.methods != nil && !slices.Contains(route.methods, r.Method):
		w.refuseMethod(route.methods)
	case listener.OfOtherSite(r):
		res = w.fail(res, otherSite)
	case !route.always && !s.opts.Ready():
		res = w.fail(res, unready)
	default:
		res = route.handle(w, r, req)
	}
}

// serveNothing answers at all other paths.
func (s *Server) serveNothing(w *response, _ *http.Request, _ *request) result {
	var paths []string
	for _, route := range s.routes {
		paths = append(paths, route.path)
	}
	return w.fail(result{}, fault.New(fault.NoMatch, "there is nothing at this path; machines are answered at "+
		strings.Join(paths, ", ")))
}

// otherSite is the answer to a request by which a page of another site, in a browser, would read what is a
// machine's.
var otherSite = fault.New(fault.Refused,
	"a page of another site in a browser has sent this request, and gets nothing that is for machines")

// readClaims reads the claims of a request, and whether its sender is believed.
func (s *Server) readClaims(r *http.Request, req *request) *fault.Error {
	claims, malformed := identity.ParseClaims(r.URL.RawQuery)
	if malformed != nil {
		return malformed
	}
	if claims.MAC == zeroMAC {
		if req.Cards = cardsOf(r.Header, claims.OtherMAC); len(req.Cards) > 0 {
			claims.MAC, claims.OtherMAC = req.Cards[0].MAC, req.Cards[0].OtherMAC
		}
	}
	req.Claims = claims
	if claims.Any() {
		req.Caller.Believed = s.opts.Believe(r)
	}
	req.ClaimLimit = s.opts.Sources.Claims(req.At, &req.Caller, &claims)
	return nil
}

// record passes on the notices of a decision, and counts its claims that do not hold.
func (s *Server) record(r *http.Request, req *request, i *decide.Identity) {
	machine := "" // the name that the journal knows the machine by, also from an earlier request
	// A caller with a credential is no machine, whether or not the request claims an identity.
	switch {
	case s.opts.Journal == nil || req.Caller.Believed:
	case i.Host != nil:
		s.opts.Journal.Known(req.Caller.Addr)
	case i.Unknown && !s.opts.Believe(r):
		machine = s.opts.Journal.Unknown(sighting(r, req, i))
		req.stranger = model.Stranger(machine)
	}
	for _, n := range i.Notices {
		if n.Machine != "" && machine != "" {
			n.Machine = machine
		}
		s.notify(n)
	}
	if i.Unheld.Any() {
		s.opts.Sources.Guessed(req.At, &req.Caller, &i.Unheld)
	}
}

// sighting returns what a machine says of itself. /boot.ipxe has it send this to PathIPXE.
func sighting(r *http.Request, req *request, i *decide.Identity) decide.Sighting {
	said, claims := said(r), &req.Claims
	architecture := said.Get("arch")
	if said.Get("platform") == "pcbios" && arch.Parse(architecture) == "i386" {
		architecture = "x86" // iPXE for BIOS says i386 on every x86 machine
	}
	return decide.Sighting{
		Request: req.Type, Addr: i.Addr, Neighbor: i.Neighbor, MAC: claims.MAC, OtherMACs: otherMACs(req),
		UUID: claims.UUID, Hostname: claims.Hostname, Serial: said.Get("serial"),
		Manufacturer: said.Get("manufacturer"), Product: said.Get("product"), Arch: architecture,
	}
}

func (s *Server) notify(n decide.Notice) {
	if s.opts.Journal != nil {
		s.opts.Journal.Notice(n)
	}
}

// crashed answers after a panic, and ends the connection where an answer has begun: half
// of one is worse than none.
func (s *Server) crashed(w *response, failure any) result {
	if s.opts.Log != nil {
		slog.New(s.opts.Log).Error("a request made the server panic", "stack", string(debug.Stack()))
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	return w.fail(result{}, fault.Of(fmt.Errorf("panic: %v", failure)))
}

// metrics count requests.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	stale     prometheus.Counter
}

// routeMetrics count the requests of a route.
type routeMetrics struct {
	name     string
	requests *prometheus.CounterVec
	duration prometheus.Observer
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_boot_requests_total",
			Help: "Requests for configs, scripts, assets and reports, by endpoint, HTTP status and the tier that chose " +
				"the config.",
		}, []string{"endpoint", "code", "tier"}),
		stale: factory.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_boot_stale_answers_total",
			Help: "Answers with the last good version of a config, since the newest source, its layers or the host " +
				"give none.",
		}),
		durations: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "glowplug_boot_request_duration_seconds",
			Help:    "Time to answer a request, by endpoint.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .005, .025, .1, .5, 2.5},
		}, []string{"endpoint"}),
	}
	return m
}

// route returns the metrics of a route.
func (m *metrics) route(name string) *routeMetrics {
	requests := m.requests.MustCurryWith(prometheus.Labels{"endpoint": name})
	requests.WithLabelValues("200", match.None.String())
	return &routeMetrics{name: name, requests: requests, duration: m.durations.WithLabelValues(name)}
}

func (m *routeMetrics) request(status int, tier match.Tier, took time.Duration) {
	m.requests.WithLabelValues(strconv.Itoa(status), tier.String()).Inc()
	m.duration.Observe(took.Seconds())
}
