// Package console serves the web console at /console/: pages for people, made on the server from what the API answers
// to the signed-in user. It has no rights of its own.
package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/client"
	"glowplug/internal/domain/wording"
	"glowplug/internal/limit"
	"glowplug/internal/serve/console/live"
	"glowplug/internal/serve/session"
)

// Prefix is the path of all pages.
const Prefix = "/console/"

//go:embed static templates
var files embed.FS

// Options are the parts of a Server.
type Options struct {
	// Client asks the API with the context that As returns for a request of a user.
	Client *client.Client
	As     func(r *http.Request, who user.Info) context.Context
	// User authenticates a request by its credential or its listener, and returns its user; nil: it is not authenticated.
	User func(r *http.Request) user.Info
	// Lasting has end called when the credential of a request becomes invalid, until forget is called.
	Lasting func(r *http.Request, end context.CancelFunc) (forget func())
	// MayList reports whether a user may list and watch a resource in a namespace.
	MayList func(ctx context.Context, who user.Info, resource, namespace string) bool
	// IsLocal reports whether a request came by a listener whose users need no credential.
	IsLocal func(r *http.Request) bool
	// OIDC signs users in with an OpenID Connect issuer; nil: none does.
	OIDC *session.Client
	// Address is the URL of the console over HTTPS for people on other machines; "": there is none.
	Address func(r *http.Request) string
	// Live has the states of hosts, and tells pages what has changed.
	Live *live.Hub
	// Ready answers as /readyz?verbose.
	Ready http.Handler
	// MayGet reports whether a user may read a path of this server, as /metrics. Who may read that one sees Facts.
	MayGet func(ctx context.Context, who user.Info, path string) bool
	Facts  func() []Fact
	// Key seals the cookies of sessions. It has 32 bytes, and all servers of a store have the same one.
	Key []byte
	// Logger takes what cannot be told to a user; nil discards it.
	Logger *slog.Logger
}

// Server serves the pages.
type Server struct {
	opts     Options
	sessions *session.Sessions
	pages    *http.ServeMux
	started  time.Time
	links    *session.Links
	lines    *rate.Limiter // of the log, about users who could not sign in
	told     *rate.Limiter // of those who could
	streams  *quota        // streams of changes
	forms    *quota        // large forms that are being read
	// serving ends with Shutdown.
	serving context.Context
	end     context.CancelFunc

	mu sync.Mutex
	// transfers has the progress of downloads and uploads, by image and direction.
	transfers limit.Table[string, *progress]
}

// New returns a Server.
func New(opts Options) (*Server, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	s := &Server{
		opts: opts, started: time.Now(),
		streams: newQuota(maxStreams, maxOfUser), forms: newQuota(maxForms, maxFormsOfUser),
		links:     session.NewLinks(),
		lines:     limit.PerSecond(1, 5).Bucket(),
		told:      limit.PerSecond(1, 5).Bucket(),
		transfers: limit.NewTable[string](maxTransfers, func() *progress { return &progress{} }),
	}
	var err error
	if s.sessions, err = session.New(opts.Key); err != nil {
		return nil, err
	}
	s.serving, s.end = context.WithCancel(context.Background())
	static, err := fs.Sub(files, "static")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	served, err := cached(static)
	if err != nil {
		return nil, err
	}
	mux.Handle("GET "+Prefix+"static/", http.StripPrefix(Prefix+"static/", served))
	issuer := issuerPages{s}
	for pattern, h := range map[string]http.HandlerFunc{
		"GET sign-in": s.signInPage, "POST sign-in": s.signIn, "POST sign-out": s.signOut, "GET whoami": s.whoami,
		"POST link": s.makeLink, "GET sign-in/oidc": issuer.served(issuer.begin), "GET callback": issuer.served(issuer.finish),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Prefix+path, h)
	}
	for pattern, h := range s.routes() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Prefix+path, s.signedIn(h))
	}
	s.pages = mux
	return s, nil
}

// routes has the pages of users who are signed in, by method and path.
func (s *Server) routes() map[string]pageHandler {
	return map[string]pageHandler{
		"GET {path...}":                    noPage,
		"GET {$}":                          s.fleet,
		"GET events/stream":                s.stream,
		"GET hosts/{ns}/{name}":            s.host,
		"GET unknown":                      s.unknown,
		"GET find":                         s.find,
		"GET configs":                      s.configs,
		"GET configs/new":                  s.newConfig,
		"POST configs/{ns}/{name}/compile": s.compileConfig,
		"GET configs/{ns}/{name}":          s.config,
		"POST configs/{ns}/{name}":         s.config,
		"GET configs/{ns}/{name}/save":     s.config,
		"POST configs/{ns}/{name}/save":    s.saveConfig,
		"GET configs/{ns}/{name}/delete":   s.deleteConfig,
		"POST configs/{ns}/{name}/delete":  s.deleteConfig,
		"GET configs/{ns}/{name}/rendered": s.configRendered,
		"GET boots":                        s.boots,
		"GET boots/{ns}/{name}":            s.boot,
		"GET boots/{ns}/{name}/rendered":   s.rendered,
		"GET events":                       s.events,
		"GET server":                       s.serverPage,
		"GET hosts/{ns}/{name}/{change}":   s.hostChange,
		"POST hosts/{ns}/{name}/{change}":  s.hostChange,
		"GET unknown/{name}/adopt":         s.adopt,
		"POST unknown/{name}/adopt":        s.adopt,
		"GET unknown/{name}/delete":        s.forget,
		"POST unknown/{name}/delete":       s.forget,
		"GET images":                       s.images,
		"GET images/new":                   s.imageNew,
		"POST images/new":                  s.imageNew,
		"GET images/{ns}/{name}":           s.image,
		"GET images/{ns}/{name}/delete":    s.imageDelete,
		"POST images/{ns}/{name}/delete":   s.imageDelete,
		"POST images/{ns}/{name}/upload":   s.isoForm,
		"PUT images/{ns}/{name}/iso":       s.iso,
		"HEAD images/{ns}/{name}/iso":      s.iso,
	}
}

// Shutdown ends the streams, for which a stop of the server would wait: pages open them again.
func (s *Server) Shutdown() { s.end() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setPolicy(w.Header())
	if !strings.HasPrefix(r.URL.Path, Prefix) {
		http.Redirect(w, r, Prefix, http.StatusSeeOther)
		return
	}
	if path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") { // the mux would lead it elsewhere
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPost && !hasLargeForm(r.URL.Path) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	defer func() {
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll() // files of its parts
		}
	}()
	s.pages.ServeHTTP(w, r)
}

// hasLargeForm reports whether a path is that of a form with a config or an image, whose handler bounds it.
func hasLargeForm(path string) bool {
	return strings.HasPrefix(path, Prefix+"configs/") || strings.HasPrefix(path, Prefix+"images/") &&
		strings.HasSuffix(path, "/upload")
}

// noPage answers for a page that does not exist.
func noPage(w http.ResponseWriter, r *http.Request, p *page) {
	p.fail(w, "There is no such page", &wording.Refusal{Reason: r.URL.Path, Remedy: "the pages are at the top"})
}

// pageHandler answers a request of a user.
type pageHandler func(w http.ResponseWriter, r *http.Request, p *page)

// signedIn passes the requests of users to h, and all others to the page at which they sign in.
func (s *Server) signedIn(h pageHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, asked, until := s.authenticate(r)
		if who == nil {
			s.toSignIn(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		h(w, r, &page{server: s, ctx: s.opts.As(r, who), request: r, who: who, asked: asked, until: until,
			At: s.opts.Live.At(), now: time.Now()})
	}
}

// stream serves the changes to the pages of a browser until its session ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, p *page) {
	finish := s.streams.begin(p.User())
	if finish == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open: close some of them", http.StatusTooManyRequests)
		return
	}
	defer finish()
	ctx, end := context.WithCancel(r.Context())
	defer end()
	if !p.until.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, p.until)
		defer stop()
	}
	defer p.whileSignedIn(end)()
	defer context.AfterFunc(s.serving, end)()
	from := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("from"))
	s.opts.Live.Serve(ctx, w, from, func(resource, namespace string) bool {
		return s.opts.MayList(ctx, p.who, resource, namespace)
	})
}

const (
	// maxStreams is how many streams are open at most, and maxOfUser how many of one user.
	maxStreams = 2000
	maxOfUser  = 250
)

const (
	// maxForms is how many large forms are read at a time, and maxFormsOfUser how many of one user.
	maxForms       = 8
	maxFormsOfUser = 2
)

// policy allows scripts, styles and requests of this origin alone, and no script to make markup but by the one policy
// of static/markup.js.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"worker-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
	"require-trusted-types-for 'script'; trusted-types console"

// setPolicy sets the headers of all answers.
func setPolicy(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin")
}

// cached serves files that browsers keep, and ask for newer ones: their names do not change with an upgrade.
func cached(static fs.FS) (http.Handler, error) {
	sum := sha256.New()
	err := fs.WalkDir(static, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(static, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	tag, h := fmt.Sprintf("%q", fmt.Sprintf("%x", sum.Sum(nil)[:16])), http.FileServerFS(static)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // it would list the folder
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		h.ServeHTTP(w, r)
	}), err
}

// Answers reports whether a request is for the console: for one of its pages, or from a browser at the root of a
// listener.
func Answers(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, Prefix) || r.URL.Path+"/" == Prefix || r.URL.Path == "/" && isBrowser(r)
}

// isBrowser reports whether a request asks for a page.
func isBrowser(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}
