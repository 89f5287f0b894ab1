package app

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/objects"
)

// named returns a health check of a function.
func named(name string, check func() error) healthz.HealthChecker {
	return healthz.NamedCheck(name, func(*http.Request) error { return check() })
}

// checks are the parts of /readyz: machines are answered, and the API reads and
// writes.
func (a *App) checks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{
		healthz.PingHealthz, named("nats", a.backend.check), named("store-identity", a.backend.keeper.Mismatch),
		named("store-writable", a.backend.writable),
	}
	for _, kind := range kinds.All() {
		checks = append(checks, named("store-"+kind.Resource, a.stores[kind.Resource].ReadinessCheck))
	}
	checks = append(checks, a.keys.HealthChecks()...)
	if a.sharing != nil {
		checks = append(checks, named("credentials", a.sharing.check))
	}
	return append(checks, named("boot-log", a.bootLog.ReadinessCheck), named("manifests", a.applied))
}

// bootChecks are the parts of /readyz/boot: machines are answered. They are, from
// memory, while the store is away, once it has been read.
func (a *App) bootChecks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{healthz.PingHealthz}
	for _, kind := range kinds.All() {
		if a.isNeeded(kind) {
			checks = append(checks, named("memory-"+kind.Resource, func() error { return unread(a.stores[kind.Resource]) }))
		}
	}
	return append(checks,
		named("memory-boot-log", func() error { return unread(a.bootLog) }), named("manifests", a.applied))
}

// applied returns an error until the manifests have been applied.
func (a *App) applied() error {
	if a.seeded.Load() {
		return nil
	}
	return errors.New("not yet applied")
}

// unread returns why a store has not been read yet; nil: it has.
func unread(store interface {
	Loaded() bool
	ReadinessCheck() error
}) error {
	if store.Loaded() {
		return nil
	}
	return store.ReadinessCheck()
}

// lost reports whether the bucket of a kind is damaged and was set aside.
func (a *App) lost(resource string) bool {
	return a.backend.lost(objects.Bucket(kinds.Of(resource))) != nil
}

// ready reports whether machines can be answered: the store has been read once, and the
// manifests applied. A store that goes away later leaves its content in memory.
func (a *App) ready() bool { return a.seeded.Load() && a.loaded() }

// isNeeded reports whether machines wait until a kind has been read. Without the hosts or the configs any answer may be
// wrong; of the other kinds that machines need, a lost one leaves the answers that do not need it, see decide.Losses.
func (a *App) isNeeded(kind *kinds.Kind) bool {
	return kind.Boot == kinds.AllAnswers || kind.Boot == kinds.SomeAnswers && !a.lost(kind.Resource)
}

func (a *App) loaded() bool {
	for _, kind := range kinds.All() {
		if !a.stores[kind.Resource].Loaded() && a.isNeeded(kind) { // each request asks: the quick check first
			return false
		}
	}
	return a.bootLog.Loaded()
}

// followed returns why a store is not ready that is not lost; nil: all are.
func (a *App) followed() error {
	for _, kind := range kinds.All() {
		if err := a.stores[kind.Resource].ReadinessCheck(); err != nil && !a.lost(kind.Resource) {
			return err
		}
	}
	return nil
}

// missing returns what machines wait for, be it lost or yet to be read.
func (a *App) missing() error {
	for _, kind := range kinds.All() {
		if kind.Boot == kinds.Unneeded {
			continue
		}
		if err := unread(a.stores[kind.Resource]); err != nil {
			return err
		}
	}
	if err := unread(a.bootLog); err != nil {
		return err
	}
	return a.followed()
}
