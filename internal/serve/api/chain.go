package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	endpointfilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// chain returns the filters of a request, the outermost last: those of the library without
// tracing, cross-origin sharing and the tracking of latencies, and our own.
func (s *Server) chain() http.Handler {
	api, isLong := s.kube, s.kube.isLong
	audited := func(h http.Handler, filter auditFilter) http.Handler {
		return withAudit(s.opts.Audit, s.opts.Resolver, h, filter)
	}
	h := withOther(api, s.opts.Explain, at(explainPath))
	h = withOther(h, s.impacts.handler(endpointfilters.WithAuthorization(api, s.authorizer, jsonAndYAML),
		api.info), at(impactPath))
	h = withOther(h, rewriter(s.opts.Rewrite), at(rewritePath))
	h = withOther(h, s.compiles.handler(), at(compilePath))
	h = withReadOnly(h)
	h = withBoundedEntries(h)
	h = withProtobufBodies(h)
	h = withBodyLimit(h)
	h = withBudget(h, s.opts.Requests, s.opts.Watches, isLong)
	h = withOther(h, s.opts.Upload, isUpload) // past the limits of a request for an object
	h = withOther(h, backups(s.opts.Backup), at(backupPath))
	h = withOther(h, checker(s.opts.Fsck), at(fsckPath))
	h = traceUser(h, func(t *traceData, _ string) { t.admitted = true })
	h = endpointfilters.WithAuthorization(h, compileAuthorizer(resultAuthorizer(s.authorizer)), jsonAndYAML)
	h = traceUser(h, func(t *traceData, user string) {
		if user != t.user {
			t.as = user
		}
	})
	h = impersonation.WithImpersonation(h, s.authorizer, jsonAndYAML)
	h = s.uses.filter(h)
	h = withTurns(h, s.opts.Reads, s.opts.Writes, isLong) // of the user himself, if he impersonates another
	h = audited(h, func(h http.Handler, sink audit.Sink, policy audit.PolicyRuleEvaluator) http.Handler {
		return endpointfilters.WithAudit(h, sink, policy, isLong)
	})
	refused := audited(http.HandlerFunc(s.guard.refuse), endpointfilters.WithFailedAuthenticationAudit)
	h = traceUser(h, func(t *traceData, user string) { t.user = user })
	h = endpointfilters.WithAuthentication(h, s.guard, refused, nil, nil)
	h = endpointfilters.WithWarningRecorder(h)
	h = genericfilters.WithTimeoutForNonLongRunningRequests(h, isLong)
	h = audited(h, func(h http.Handler, sink audit.Sink, policy audit.PolicyRuleEvaluator) http.Handler {
		return endpointfilters.WithRequestDeadline(h, sink, policy, isLong, jsonAndYAML, requestTimeout)
	})
	h = genericfilters.WithWaitGroup(h, isLong, api.short)
	h = s.withEnd(h, isLong)
	h = s.traces.filter(h)
	h = endpointfilters.WithCacheControl(h)
	h = endpointfilters.WithRequestInfo(h, api.info)
	h = endpointfilters.WithRequestReceivedTimestamp(h)
	h = genericfilters.WithPanicRecovery(h, api.info)
	return endpointfilters.WithAuditInit(h)
}

// explainPath is served by Options.Explain to callers who may use the API.
const explainPath = "/api/v1/explain"

// impactPath answers with the impact of a set of changes on the hosts.
const impactPath = "/api/v1/impact"

// isoSubresource is the image file of an ISCSICdrom.
const isoSubresource = "iso"

// at matches the requests for a path.
func at(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.URL.Path == path }
}

func isUpload(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	return ok && info.APIGroup == v1.GroupName && info.Resource == kinds.ISCSICdroms &&
		info.Subresource == isoSubresource
}

// withOther passes the requests that match to other, unless that is nil, and all others to h.
func withOther(h, other http.Handler, match func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if other != nil && match(r) {
			other.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// only answers the requests of one method, and refuses the others.
func only(method, resource string, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			fail(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: resource}, r.Method))
			return
		}
		answer(w, r)
	})
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // the client may have gone away
}

// withBodyLimit refuses a body whose length is over the limit before it is read. The library
// cuts off a body without a length at the same limit.
func withBodyLimit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > MaxBodyBytes {
			w.Header().Set("Connection", "close")
			fail(w, r, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has %d bytes, the limit is %d",
				r.ContentLength, MaxBodyBytes)))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// errNoUser is the error of a request that was not authenticated.
var errNoUser = apierrors.NewInternalError(errors.New("the request has no user"))

// fail answers with an error as a Status object.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	responsewriters.ErrorNegotiated(err, jsonAndYAML, v1.SchemeGroupVersion, w, r)
}

// TooMany answers a client whose source sends too many requests.
func TooMany(w http.ResponseWriter, r *http.Request) {
	fail(w, r, apierrors.NewTooManyRequests("too many requests a second come from your address: come again", 1))
}

// OtherSite answers a request that a page of another site has sent from a browser.
func OtherSite(w http.ResponseWriter, r *http.Request) {
	fail(w, r, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(
		"a page of another site in a browser has sent this request, and may neither read nor change anything here")))
}

// MetricsHandler serves the metrics of own and those of the Kubernetes library. The library
// has the collectors of the Go runtime and of the process, so own must not have them.
func MetricsHandler(own prometheus.Gatherer, logger *slog.Logger) http.Handler {
	metrics := promhttp.HandlerFor(prometheus.Gatherers{own, legacyregistry.DefaultGatherer}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(&scrape{ResponseWriter: w}, r)
	})
}

// scrape is the answer to a client that may leave before its end. The library would log an
// error for each family of metrics that is left, so that a stranger could fill the log.
type scrape struct {
	http.ResponseWriter
	gone bool
}

// Write discards everything after the first error.
func (s *scrape) Write(p []byte) (int, error) {
	if !s.gone {
		_, err := s.ResponseWriter.Write(p)
		s.gone = err != nil
	}
	return len(p), nil
}

// Authorized passes the requests of users with the verb get on the path to h. Others are answered 401
// or 403, with a log line as the API has it.
func (s *Server) Authorized(h http.Handler) http.Handler {
	refused := s.traces.filter(http.HandlerFunc(s.guard.refuse))
	forbidden := s.traces.filter(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addTrace(r.Context(), func(t *traceData) { t.user = s.User(r).GetName() })
		fail(w, r, apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf(
			"user %q cannot get path %q", s.User(r).GetName(), r.URL.Path)))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := s.User(r)
		if who == nil {
			refused.ServeHTTP(w, r)
			return
		}
		if !s.MayGet(r.Context(), who, r.URL.Path) {
			forbidden.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// BridgeLogs sends the log lines of the Kubernetes library to logger. Those of level info are
// about the library itself, and become debug.
func BridgeLogs(logger *slog.Logger) {
	klog.SetSlogLogger(slog.New(quieter{logger.With("from", "kubernetes").Handler()}))
}

// quieter lowers info to debug.
type quieter struct{ slog.Handler }

func (q quieter) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lowered(level))
}

func (q quieter) Handle(ctx context.Context, record slog.Record) error {
	level := lowered(record.Level)
	if strings.HasPrefix(record.Message, "oidc authenticator:") ||
		record.Message == "failed to decrypt data" || record.Message == "failed to encrypt data" {
		// The library says every ten seconds that an issuer does not answer, and of each value that it cannot be
		// encrypted or decrypted; packages oidc and kvstore say it once.
		level = slog.LevelDebug
	}
	if !q.Handler.Enabled(ctx, level) {
		return nil
	}
	out := slog.NewRecord(record.Time, level, clip(record.Message, maxLibraryText), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(harmless(a))
		return true
	})
	return q.Handler.Handle(ctx, out)
}

// maxLibraryText bounds a text in a line of the library, which a client may have sent.
const maxLibraryText = 512

// harmless returns an attribute of bounded length, without the query of a request, which may
// contain a token.
func harmless(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch v := a.Value.Any().(type) {
	case url.Values:
		return slog.String(a.Key, "left out")
	case string:
		return slog.String(a.Key, clip(v, maxLibraryText))
	case error:
		return slog.String(a.Key, clip(v.Error(), maxLibraryText))
	}
	return a
}

func (q quieter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(attrs)}
}
func (q quieter) WithGroup(name string) slog.Handler { return quieter{q.Handler.WithGroup(name)} }

func lowered(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
