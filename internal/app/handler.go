package app

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/apiserver"
	"glowplug/internal/bootserver"
)

// handler is what stands behind a door: machines, by their paths; health and
// metrics; and the API with its own rules.
func (a *App) handler(rule apiserver.Door) http.Handler {
	health := http.NewServeMux()
	healthz.InstallLivezHandler(health, healthz.PingHealthz)
	healthz.InstallReadyzHandler(health, a.checks()...)
	healthz.InstallPathHandler(health, "/readyz/boot", a.bootChecks()...)
	healthz.InstallHandler(health, a.checks()...)
	metrics := apiserver.MetricsHandler(a.metrics, a.log)
	api := a.api.Handler(rule)
	// No ServeMux for the whole: it cleans paths by redirecting, and a client that
	// deletes the object ".." would be sent on to delete the namespace.
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case bootserver.Answers(r.URL.Path) || a.settings.aliases[r.URL.Path] != "":
			a.boots.ServeHTTP(w, r)
		case r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case first == "livez" || first == "readyz" || first == "healthz":
			health.ServeHTTP(w, r)
			if first == "readyz" && r.URL.Query().Has("verbose") {
				a.writeLost(w)
			}
		default:
			api.ServeHTTP(w, r)
		}
	})
	if rule.Admin {
		return apiserver.Guarded(routes)
	}
	return routes
}

// clientCAs gives the CAs that sign client certificates: the own one, which may be
// renewed, and those of a PEM file where one is named.
func (a *App) clientCAs(file string) (func() *x509.CertPool, error) {
	var others []byte
	if file != "" {
		var err error
		if others, err = os.ReadFile(file); err != nil {
			return nil, &OptionError{Flag: "client-ca-file", Reason: err.Error()}
		}
		if !x509.NewCertPool().AppendCertsFromPEM(others) {
			return nil, &OptionError{Flag: "client-ca-file", Reason: fmt.Sprintf("%s holds no PEM certificate", file)}
		}
	}
	return func() *x509.CertPool {
		pool := a.creds.ClientCAs()
		pool.AppendCertsFromPEM(others)
		return pool
	}, nil
}

// redacted is a list of URLs without their passwords.
func redacted(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if u, err := url.Parse(p); err == nil {
			parts[i] = u.Redacted()
		}
	}
	return strings.Join(parts, ",")
}
