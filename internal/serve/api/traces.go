package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs"
)

// maxTraced bounds what a client wrote, in bytes of a log line.
const maxTraced = 256

// traces writes a log line for each write and one for each credential that is refused.
// No line contains a body, a query or a credential.
type traces struct {
	resolver Resolver
	limiter  *logs.Limiter
	logger   *slog.Logger
	wrote    func(user, verb, resource string, object model.Ref)
}

// trace is what the inner filters learn about a request. They may still run after a timeout.
type trace struct {
	mu sync.Mutex
	traceData
}

type traceData struct {
	// user is the authenticated user, and as the impersonated one.
	user, as string
	// admitted is true after the request was authorized.
	admitted bool
	// dryRun is true for a write that stores nothing.
	dryRun bool
	// name is the name of an object that is created.
	name string
}

type traceKey struct{}

// addTrace changes the trace of a request.
func addTrace(ctx context.Context, change func(t *traceData)) {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		change(&t.traceData)
	}
}

// traceUser is a filter that calls change with the name of the user of the request.
func traceUser(h http.Handler, change func(t *traceData, user string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := request.UserFrom(r.Context()); ok {
			addTrace(r.Context(), func(t *traceData) { change(t, u.GetName()) })
		}
		h.ServeHTTP(w, r)
	})
}

// filter writes the log lines of the requests that h answers.
func (t *traces) filter(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &trace{}
		credential := credentialOf(r) // the authentication removes it from the request
		answer := &metrics.ResponseWriterDelegator{ResponseWriter: w}
		defer func() {
			seen.mu.Lock()
			known := seen.traceData
			seen.mu.Unlock()
			// A handler without an answer has panicked.
			t.write(r, &known, cmp.Or(answer.Status(), http.StatusInternalServerError), credential, began)
		}()
		ctx := context.WithValue(r.Context(), traceKey{}, seen)
		h.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), r.WithContext(ctx))
	})
}

// credentialOf returns the kinds of the credentials in a request.
func credentialOf(r *http.Request) string {
	var found []string
	header := r.Header.Get("Authorization")
	switch scheme, _, _ := strings.Cut(strings.TrimSpace(header), " "); {
	case header == "":
	case strings.EqualFold(scheme, "bearer"):
		found = append(found, "bearer token")
	case strings.EqualFold(scheme, "basic"):
		found = append(found, "user and password")
	default: // the scheme itself may be a token
		found = append(found, "another Authorization header")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		found = append(found, "client certificate")
	}
	return cmp.Or(strings.Join(found, " and "), "none")
}

// write logs a request that changes something, or whose credential was refused.
func (t *traces) write(r *http.Request, seen *traceData, status int, credential string, began time.Time) {
	refused := !seen.admitted && (status == http.StatusUnauthorized || status == http.StatusForbidden)
	info, ok := request.RequestInfoFrom(r.Context())
	changesNothing := isReading(r.Method) || ok && isReview(info) || r.URL.Path == impactPath || r.URL.Path == compilePath
	if !refused && changesNothing {
		return
	}
	var line attributes
	line.add("user", seen.user)
	line.add("as", seen.as)
	var caller identity.Caller
	if !isInternal(r.Context()) {
		caller = t.resolver.Caller(r)
		line.add("client", addressText(caller.Addr))
	}
	dryRun := seen.dryRun || r.URL.Query().Has("dryRun")
	if seen.admitted && status < http.StatusBadRequest && !dryRun && ok && !isInternal(r.Context()) &&
		info.IsResourceRequest && info.APIGroup == v1.GroupName && info.Subresource == "" {
		t.wrote(seen.user, info.Verb, info.Resource, model.Ref{Namespace: info.Namespace, Name: cmp.Or(info.Name, seen.name)})
	}
	now := time.Now()
	source := logs.Stranger(logs.Refused, caller.Addr, caller.MAC)
	if seen.user != "" {
		source = logs.Origin{Kind: logs.Known, Name: seen.user}
		source.Source = netaddr.Source{Addr: netaddr.Network(caller.Addr), MAC: caller.MAC}
		if seen.admitted && status < http.StatusBadRequest && !dryRun {
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
		message := "a credential was refused"
		if seen.user != "" && status == http.StatusForbidden {
			message = "a request was refused: no role of the user allows it"
		}
		t.logger.LogAttrs(r.Context(), slog.LevelWarn, message, line...)
		return
	}
	if ok && info.IsResourceRequest {
		resource := schema.GroupResource{Group: info.APIGroup, Resource: path.Join(info.Resource, info.Subresource)}
		line.add("verb", info.Verb)
		line.add("resource", resource.String())
		line.add("object", objectText(info, seen.name))
	} else {
		line.add("verb", strings.ToLower(r.Method))
		line.add("path", r.URL.Path)
	}
	if dryRun {
		line = append(line, slog.Bool("dry_run", true))
	}
	line = append(line, slog.Int("status", status), slog.Duration("duration", now.Sub(began)))
	t.logger.LogAttrs(r.Context(), slog.LevelInfo, "api write", line...)
}

// attributes are those of a log line.
type attributes []slog.Attr

// add adds a text of bounded length. An empty text is left out.
func (a *attributes) add(key, value string) {
	if value != "" {
		*a = append(*a, slog.String(key, clip(value, maxTraced)))
	}
}

func addressText(addr netip.Addr) string {
	if !addr.IsValid() {
		return "unknown"
	}
	return addr.String()
}

// objectText returns the written object: namespace/name, or namespace/* for all of a kind.
func objectText(info *request.RequestInfo, created string) string {
	name := cmp.Or(info.Name, "*")
	if info.Name == "" && info.Verb == "create" {
		name = created
	}
	if info.Namespace == "" || info.Resource == kinds.Namespaces {
		return name
	}
	return info.Namespace + "/" + name
}

// clip cuts a text that is longer than limit bytes.
func clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
