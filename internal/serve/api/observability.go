package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// MetricsHandler serves the metrics of own and those of the Kubernetes library. The library
// has the collectors of the Go runtime and of the process, so own must not have them.
func MetricsHandler(own prometheus.Gatherer, logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{own, legacyregistry.DefaultGatherer}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	})
}

// Authenticated passes the requests of callers who may use the API to h, and answers all
// others 401.
func (s *Server) Authenticated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isAuthenticated(r) {
			s.guard.refuse(w, r)
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
	out := slog.NewRecord(record.Time, lowered(record.Level), clip(record.Message, maxLibraryText), record.PC)
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
