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

// healthPath returns the health check of a path, with paths below it; "" for other paths.
func healthPath(path string) string {
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); first {
	case "livez", "readyz", "healthz":
		return first
	}
	return ""
}

// handler returns the handler of a listener: machines, by their paths; health and
// metrics; and the API with its own rules.
func (a *App) handler(d *door) http.Handler {
	alone := a.settings.MetricsListen != "" // metrics have a listener of their own
	health, metrics, apiServer := a.health(), a.metricsHandler(), a.api.Handler(d.rule)
	// No ServeMux: it redirects paths that are not clean, and a client that deletes the
	// object ".." would be redirected to delete the namespace.
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case healthPath(r.URL.Path) != "":
			health.ServeHTTP(w, r)
		case r.URL.Path == "/metrics" && (d.name == "metrics" || !alone):
			metrics.ServeHTTP(w, r)
		case d.name == "metrics":
			http.Error(w, "only /metrics, /livez, /readyz and /healthz are served here", http.StatusNotFound)
		case r.URL.Path == "/metrics":
			http.Error(w, "metrics are served at the address of --metrics-listen alone", http.StatusNotFound)
		case machine.Answers(r.URL.Path) || a.settings.aliases[r.URL.Path] != "":
			a.boots.ServeHTTP(w, r)
		default:
			apiServer.ServeHTTP(w, r)
		}
	})
	if d.rule.Admin {
		return api.Guarded(routes, apiServer)
	}
	return routes
}

// health answers /livez, /readyz and /healthz, and the paths below them.
func (a *App) health() http.Handler {
	health := http.NewServeMux()
	healthz.InstallLivezHandler(health, healthz.PingHealthz)
	healthz.InstallReadyzHandler(health, a.checks()...)
	healthz.InstallPathHandler(health, "/readyz/boot", a.bootChecks()...)
	healthz.InstallHandler(health, a.checks()...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health.ServeHTTP(w, r)
		if healthPath(r.URL.Path) == "readyz" && r.URL.Query().Has("verbose") {
			a.writeLost(w)
		}
	})
}

// metricsHandler serves /metrics to every caller, or to those who may use the API.
func (a *App) metricsHandler() http.Handler {
	metrics := api.MetricsHandler(a.metrics, a.log)
	if a.settings.Metrics == metricsCredential {
		return a.api.Authenticated(metrics)
	}
	return metrics
}
