package app

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/serve/api"
	"glowplug/internal/serve/machine"
)

// Values of --metrics.
const (
	metricsOpen       = "open"
	metricsCredential = "credential"
)

// isHealth reports whether a path that begins with this element is one of health's.
func isHealth(first string) bool { return first == "livez" || first == "readyz" || first == "healthz" }

// firstOf is the first element of a path.
func firstOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
}

// metricsElsewhere answers /metrics where it has a listener of its own.
func metricsElsewhere(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "metrics are served at the address of --metrics-listen alone", http.StatusNotFound)
}

// handler is what stands behind a door: machines, by their paths; health and
// metrics; and the API with its own rules.
func (a *App) handler(d *door) http.Handler {
	if d.name == "metrics" {
		return a.monitoring()
	}
	health := a.health()
	metrics := http.Handler(http.HandlerFunc(metricsElsewhere))
	if a.settings.MetricsListen == "" {
		metrics = a.metricsHandler()
	}
	apiServer := a.api.Handler(d.rule)
	// No ServeMux for the whole: it cleans paths by redirecting, and a client that
	// deletes the object ".." would be sent on to delete the namespace.
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := firstOf(r.URL.Path)
		switch {
		case machine.Answers(r.URL.Path) || a.settings.aliases[r.URL.Path] != "":
			a.boots.ServeHTTP(w, r)
		case r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case isHealth(first):
			health.ServeHTTP(w, r)
		default:
			apiServer.ServeHTTP(w, r)
		}
	})
	if d.rule.Admin {
		return api.Guarded(routes, apiServer)
	}
	return routes
}

// health answers /livez, /readyz and /healthz with what lies below them.
func (a *App) health() http.Handler {
	health := http.NewServeMux()
	healthz.InstallLivezHandler(health, healthz.PingHealthz)
	healthz.InstallReadyzHandler(health, a.checks()...)
	healthz.InstallPathHandler(health, "/readyz/boot", a.bootChecks()...)
	healthz.InstallHandler(health, a.checks()...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health.ServeHTTP(w, r)
		if firstOf(r.URL.Path) == "readyz" && r.URL.Query().Has("verbose") {
			a.writeLost(w)
		}
	})
}

// metricsHandler serves /metrics to everybody, or to callers who may use the API.
func (a *App) metricsHandler() http.Handler {
	metrics := api.MetricsHandler(a.metrics, a.log)
	if a.settings.Metrics == metricsCredential {
		return a.api.Authenticated(metrics)
	}
	return metrics
}

// monitoring is what stands behind the listener of metrics: them and health.
func (a *App) monitoring() http.Handler {
	health, metrics := a.health(), a.metricsHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case isHealth(firstOf(r.URL.Path)):
			health.ServeHTTP(w, r)
		default:
			http.Error(w, "only /metrics, /livez, /readyz and /healthz are served here", http.StatusNotFound)
		}
	})
}
