package app

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/apiserver"
)

// checks are the parts of /readyz: machines are answered, and the API reads and
// writes.
func (a *App) checks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{healthz.PingHealthz, healthz.NamedCheck("store-identity", func(*http.Request) error {
		return a.backend.keeper.Mismatch()
	})}
	for _, kind := range apiserver.Kinds() {
		store := a.stores[kind.Resource]
		checks = append(checks, healthz.NamedCheck("store-"+kind.Resource, func(*http.Request) error {
			return store.ReadinessCheck()
		}))
	}
	return append(checks, a.manifestsCheck())
}

// bootChecks are the parts of /readyz/boot: machines are answered. They are, from
// memory, while the store is away, once it has been read.
func (a *App) bootChecks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{healthz.PingHealthz}
	for _, resource := range bootResources {
		store := a.stores[resource]
		checks = append(checks, healthz.NamedCheck("memory-"+resource, func(*http.Request) error {
			if !store.Loaded() {
				return store.ReadinessCheck()
			}
			return nil
		}))
	}
	return append(checks, a.manifestsCheck())
}

func (a *App) manifestsCheck() healthz.HealthChecker {
	return healthz.NamedCheck("manifests", func(*http.Request) error {
		if !a.seeded.Load() {
			return errors.New("not yet applied")
		}
		return nil
	})
}

// bootResources are the kinds that the answers to machines are made of.
var bootResources = []string{
	apiserver.BareMetalHosts, apiserver.IgnitionConfigs, apiserver.ISCSICdroms, apiserver.Namespaces, apiserver.StreamReleases,
}

// ready tells whether machines can be answered: what they are answered from has
// been read once, and the manifests applied. A store that goes away later leaves
// it in memory.
func (a *App) ready() bool { return a.seeded.Load() && a.loaded() }

func (a *App) loaded() bool {
	for _, resource := range bootResources {
		if !a.stores[resource].Loaded() {
			return false
		}
	}
	return true
}
