package app

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/serve/api"
)

// checks are the parts of /readyz: machines are answered, and the API reads and writes.
func (a *App) checks() []healthz.HealthChecker {
	checks := append([]healthz.HealthChecker{healthz.PingHealthz}, a.backend.Checks()...)
	if a.sharing != nil {
		checks = append(checks, healthz.NamedCheck("credentials", func(*http.Request) error { return a.sharing.check() }))
	}
	return append(checks, healthz.NamedCheck("roles", a.api.HasRoles), healthz.NamedCheck("manifests", a.applied))
}

// applied returns an error until the manifests have been applied.
func (a *App) applied(*http.Request) error {
	if a.seeded.Load() {
		return nil
	}
	return errors.New("not yet applied")
}

// ready reports whether machines can be answered: the store has been read once, and the manifests applied.
func (a *App) ready() bool { return a.seeded.Load() && a.backend.Loaded() }

// health answers /livez, /readyz and /healthz, and the paths below them.
func (a *App) health() http.Handler {
	health := http.NewServeMux()
	healthz.InstallLivezHandler(health, healthz.PingHealthz)
	healthz.InstallReadyzHandler(health, a.checks()...)
	boot := append([]healthz.HealthChecker{healthz.PingHealthz}, a.backend.BootChecks()...)
	boot = append(boot, healthz.NamedCheck("manifests", a.applied))
	healthz.InstallPathHandler(health, "/readyz/boot", boot...)
	healthz.InstallHandler(health, a.checks()...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health.ServeHTTP(w, r)
		if healthPath(r.URL.Path) == "readyz" && r.URL.Query().Has("verbose") {
			a.backend.WriteLost(w)
		}
	})
}

// metricsHandler serves /metrics to every caller, or to users with the verb get on the path.
func (a *App) metricsHandler() http.Handler {
	metrics := api.MetricsHandler(a.metrics, a.logOf("prometheus"))
	if a.settings.Access.Metrics == metricsCredential {
		return a.api.Authorized(metrics)
	}
	return metrics
}
