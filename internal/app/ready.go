package app

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/store/kinds"
)

// checks are the parts of /readyz: machines are answered, and the API reads and
// writes.
func (a *App) checks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{healthz.PingHealthz, healthz.NamedCheck("nats", func(*http.Request) error {
		return a.backend.check()
	}), healthz.NamedCheck("store-identity", func(*http.Request) error {
		return a.backend.keeper.Mismatch()
	})}
	for _, kind := range kinds.All() {
		store := a.stores[kind.Resource]
		checks = append(checks, healthz.NamedCheck("store-"+kind.Resource, func(*http.Request) error {
			return store.ReadinessCheck()
		}))
	}
	checks = append(checks, healthz.NamedCheck("boot-log",
		func(*http.Request) error { return a.bootLog.ReadinessCheck() }))
	return append(checks, a.manifestsCheck())
}

// bootChecks are the parts of /readyz/boot: machines are answered. They are, from
// memory, while the store is away, once it has been read.
func (a *App) bootChecks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{healthz.PingHealthz}
	for _, resource := range bootResources {
		if a.lost(resource) && mayBeLost(resource) {
			continue
		}
		store := a.stores[resource]
		checks = append(checks, healthz.NamedCheck("memory-"+resource, func(*http.Request) error {
			if !store.Loaded() {
				return store.ReadinessCheck()
			}
			return nil
		}))
	}
	checks = append(checks, healthz.NamedCheck("memory-boot-log", func(*http.Request) error {
		if !a.bootLog.Loaded() {
			return a.bootLog.ReadinessCheck()
		}
		return nil
	}))
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
	kinds.BareMetalHosts, kinds.IgnitionConfigs, kinds.ISCSICdroms, kinds.Namespaces,
	kinds.StreamReleases,
}

// mayBeLost reports whether machines are answered although the bucket of a kind is
// lost: without the hosts or the configs any answer may be wrong; of the others
// those are answered that do not need them, see machine.Lost.
func mayBeLost(resource string) bool {
	return resource != kinds.BareMetalHosts && resource != kinds.IgnitionConfigs
}

// lost reports whether the bucket of a kind is damaged and was set aside.
func (a *App) lost(resource string) bool {
	for _, kind := range kinds.All() {
		if kind.Resource == resource {
			return a.backend.lost(kind.Bucket) != nil
		}
	}
	return false
}

// ready reports whether machines can be answered: what they are answered from has
// been read once, and the manifests applied. A store that goes away later leaves
// it in memory.
func (a *App) ready() bool { return a.seeded.Load() && a.loaded() }

func (a *App) loaded() bool {
	for _, resource := range bootResources {
		if !a.stores[resource].Loaded() && !(a.lost(resource) && mayBeLost(resource)) {
			return false
		}
	}
	return a.bootLog.Loaded()
}

// followed says which store is not ready that could be; nil: none.
func (a *App) followed() error {
	for _, kind := range kinds.All() {
		if err := a.stores[kind.Resource].ReadinessCheck(); err != nil && !a.lost(kind.Resource) {
			return err
		}
	}
	return nil
}

// missing says what machines wait for, be it lost or yet to be read.
func (a *App) missing() error {
	for _, resource := range bootResources {
		if store := a.stores[resource]; !store.Loaded() {
			return store.ReadinessCheck()
		}
	}
	if !a.bootLog.Loaded() {
		return a.bootLog.ReadinessCheck()
	}
	return a.followed()
}
