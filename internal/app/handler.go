package app

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"sync/atomic"

	"glowplug/internal/keyfile"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/machine"
)

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

// clientCAs gives the CAs that sign client certificates: the own one, which may be
// renewed, and those of a PEM file where one is named, which is read again when it changes.
func (a *App) clientCAs(file string) (func() *x509.CertPool, error) {
	var others atomic.Pointer[[]byte]
	others.Store(new([]byte))
	if file != "" {
		follower, err := keyfile.Follow(keyfile.Trusted, file, a.log, func(content []byte) error {
			if !x509.NewCertPool().AppendCertsFromPEM(content) {
				return fmt.Errorf("%s holds no PEM certificate", file)
			}
			others.Store(&content)
			return nil
		})
		if err != nil {
			return nil, &OptionError{Flag: "client-ca-file", Reason: err.Error()}
		}
		a.clientCAFile = follower
	}
	return func() *x509.CertPool {
		pool := a.creds.ClientCAs()
		pool.AppendCertsFromPEM(*others.Load())
		return pool
	}, nil
}
