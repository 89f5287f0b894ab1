package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs"
	"glowplug/internal/store/kinds"
)

// maxTraced bounds what a client wrote, in bytes of a log line.
const maxTraced = 256

// traces writes a log line for each write and one for each credential that is refused.
// No line has a body, a query or a credential in it.
type traces struct {
	resolver Resolver
	limiter  *logs.Limiter
	logger   *slog.Logger
}

// trace is what the filters behind find out about a request. After a timeout they may
// still be at it.
type trace struct {
	mu sync.Mutex
	// user has been authenticated, and acts as another where that is not empty.
	user, as string
	// admitted is true after the request was authorized.
	admitted bool
	// name is that of an object that is created.
	name string
}

type traceKey struct{}

// note lets a filter write into the trace of a request.
func note(ctx context.Context, write func(t *trace)) {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		write(t)
	}
}

// noteUser notes who has been authenticated.
func noteUser(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := request.UserFrom(r.Context()); ok {
			note(r.Context(), func(t *trace) { t.user = u.GetName() })
		}
		h.ServeHTTP(w, r)
	})
}

// noteAdmitted notes that the request was authorized, and the impersonated user.
func noteAdmitted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := request.UserFrom(r.Context())
		note(r.Context(), func(t *trace) {
			if t.admitted = true; ok && u.GetName() != t.user {
				t.as = u.GetName()
			}
		})
		h.ServeHTTP(w, r)
	})
}

// noteName notes the name of an object that is created, which the path does not tell.
func noteName(ctx context.Context, name string) { note(ctx, func(t *trace) { t.name = name }) }

// with writes the lines of the requests that h answers.
func (t *traces) with(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &trace{}
		credential := credentialOf(r) // which is taken out of the request once it is accepted
		answer := &observed{ResponseWriter: w}
		defer func() { t.write(r, seen, answer.code(), credential, began) }()
		ctx := context.WithValue(r.Context(), traceKey{}, seen)
		h.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), r.WithContext(ctx))
	})
}

// observed notes the status of an answer.
type observed struct {
	http.ResponseWriter
	status int
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *observed) WriteHeader(status int) {
	if o.status == 0 && status >= http.StatusOK {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(p)
}

// code is the status; without an answer the handler has panicked.
func (o *observed) code() int {
	if o.status == 0 {
		return http.StatusInternalServerError
	}
	return o.status
}

// credentialOf says what kind of credential a request brings.
func credentialOf(r *http.Request) string {
	var kinds []string
	if header := r.Header.Get("Authorization"); header != "" {
		switch scheme, _, _ := strings.Cut(strings.TrimSpace(header), " "); strings.ToLower(scheme) {
		case "bearer":
			kinds = append(kinds, "bearer token")
		case "basic":
			kinds = append(kinds, "user and password")
		default: // the scheme may be a token that somebody pasted
			kinds = append(kinds, "another Authorization header")
		}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		kinds = append(kinds, "client certificate")
	}
	if len(kinds) == 0 {
		return "none"
	}
	return strings.Join(kinds, " and ")
}

// reads are the methods that change nothing.
var reads = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// write logs a request that changes something, or whose credential was refused.
func (t *traces) write(r *http.Request, seen *trace, status int, credential string, began time.Time) {
	seen.mu.Lock()
	user, as, name, admitted := seen.user, seen.as, seen.name, seen.admitted
	seen.mu.Unlock()
	refused := !admitted && (status == http.StatusUnauthorized || status == http.StatusForbidden)
	info, ok := request.RequestInfoFrom(r.Context())
	if !refused && (slices.Contains(reads, r.Method) || ok && info.APIGroup == authorizationv1.GroupName) {
		return // a review changes nothing
	}
	var line attributes
	line.add("user", user)
	line.add("as", as)
	var caller identity.Caller
	if user != internalUser {
		caller = t.resolver.Caller(r)
		line.add("client", addressText(caller.Addr))
	}
	now := time.Now()
	source := logs.Stranger(logs.Refused, caller.Addr, caller.MAC)
	if user != "" {
		source = logs.Source{Kind: logs.Known, Name: user, Addr: netaddr.Source(caller.Addr), MAC: caller.MAC}
		if admitted && status < http.StatusBadRequest && !dryRun(r) {
			source.Kind = logs.Written
		}
	}
	if !t.limiter.Allow(now, &source) {
		return
	}
	if refused {
		line.add("credential", credential)
		line.add("method", r.Method)
		line.add("path", r.URL.Path)
		line = append(line, slog.Int("status", status))
		t.logger.LogAttrs(r.Context(), slog.LevelWarn, "a credential was refused", line...)
		return
	}
	line.addObject(r, info, name)
	line = append(line, slog.Int("status", status), slog.Duration("duration", now.Sub(began)))
	t.logger.LogAttrs(r.Context(), slog.LevelInfo, "api write", line...)
}

// attributes are those of a log line.
type attributes []slog.Attr

// add adds a text, cut off where it is long; an empty one is left out.
func (a *attributes) add(key, value string) {
	if value != "" {
		*a = append(*a, slog.String(key, clip(value, maxTraced)))
	}
}

// addObject adds the verb of a request and the object that it changes, or its path.
func (a *attributes) addObject(r *http.Request, info *request.RequestInfo, created string) {
	if info != nil && info.IsResourceRequest {
		a.add("verb", info.Verb)
		a.add("resource", resourceText(info))
		a.add("object", objectText(info, created))
	} else {
		a.add("verb", strings.ToLower(r.Method))
		a.add("path", r.URL.Path)
	}
	if dryRun(r) {
		*a = append(*a, slog.Bool("dry_run", true))
	}
}

// dryRun reports whether a request asks for what would be, and changes nothing.
func dryRun(r *http.Request) bool {
	if !strings.Contains(r.URL.RawQuery, "dryRun") {
		return false
	}
	query, _ := url.ParseQuery(r.URL.RawQuery)
	return len(query["dryRun"]) > 0
}

func addressText(addr netip.Addr) string {
	if !addr.IsValid() {
		return "unknown"
	}
	return addr.String()
}

func resourceText(info *request.RequestInfo) string {
	text := info.Resource
	if info.Subresource != "" {
		text += "/" + info.Subresource
	}
	if info.APIGroup != "" {
		text += "." + info.APIGroup
	}
	return text
}

// objectText names what is written: namespace/name, or namespace/* for all of a kind.
func objectText(info *request.RequestInfo, created string) string {
	name := info.Name
	switch {
	case name == "" && info.Verb == "create":
		name = created
	case name == "":
		name = "*"
	}
	if info.Namespace == "" || info.Resource == kinds.Namespaces {
		return name
	}
	return info.Namespace + "/" + name
}

// clip cuts a text off.
func clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
