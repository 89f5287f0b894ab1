package apiserver

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// MetricsHandler serves the metrics of the program's own gatherer and those of the
// Kubernetes library, Go runtime and process among them: own must not have the
// collectors of those two as well.
func MetricsHandler(own prometheus.Gatherer, logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{own, legacyregistry.DefaultGatherer}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	})
}

// BridgeLogs sends what the Kubernetes library logs to logger. What it thinks
// worth telling is about itself, so it is told at debug; its warnings and errors
// keep their level.
func BridgeLogs(logger *slog.Logger) {
	klog.SetSlogLogger(slog.New(quieter{logger.With("from", "kubernetes").Handler()}))
}

// quieter lowers info to debug.
type quieter struct{ slog.Handler }

func (q quieter) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lowered(level))
}

func (q quieter) Handle(ctx context.Context, record slog.Record) error {
	record.Level = lowered(record.Level)
	return q.Handler.Handle(ctx, record)
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
