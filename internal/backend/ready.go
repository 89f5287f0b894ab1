package backend

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
)

// named returns a health check of a function.
func named(name string, check func() error) healthz.HealthChecker {
	return healthz.NamedCheck(name, func(*http.Request) error { return check() })
}

// Checks are the parts of /readyz about the store: the API reads and writes.
func (b *Backend) Checks() []healthz.HealthChecker {
	checks := []healthz.HealthChecker{
		named("nats", b.check), named("store-identity", b.keeper.Mismatch), named("store-writable", b.writable),
	}
	for _, kind := range kinds.All() {
		checks = append(checks, named("store-"+kind.Resource, b.Stores[kind.Resource].ReadinessCheck))
	}
	return append(checks, b.keys.HealthChecks()...)
}

// BootChecks are the parts of /readyz/boot about the store: machines are answered. They are, from
// memory, while the store is away, once it has been read.
func (b *Backend) BootChecks() (checks []healthz.HealthChecker) {
	for _, kind := range kinds.All() {
		if b.isNeeded(kind) {
			checks = append(checks, named("memory-"+kind.Resource, func() error { return unread(b.Stores[kind.Resource]) }))
		}
	}
	return append(checks, named("memory-former", b.untaken))
}

// unread returns why a store has not been read yet; nil: it has.
func unread(store *kvstore.Store) error {
	if store.Loaded() {
		return nil
	}
	return store.ReadinessCheck()
}

// IsLost reports whether the bucket of a kind is damaged and was set aside.
func (b *Backend) IsLost(resource string) bool {
	return b.lost(objects.Bucket(kinds.Of(resource))) != nil
}

// isNeeded reports whether machines wait until a kind has been read. Without the hosts or the configs any answer may be
// wrong; of the other kinds that machines need, a lost one leaves the answers that do not need it, see decide.Losses.
func (b *Backend) isNeeded(kind *kinds.Kind) bool {
	return kind.Boot == kinds.AllAnswers || kind.Boot == kinds.SomeAnswers && !b.IsLost(kind.Resource)
}

// Loaded reports whether all that machines wait for was read once. A store that goes away later leaves its content in
// memory.
func (b *Backend) Loaded() bool {
	for _, kind := range kinds.All() {
		if !b.Stores[kind.Resource].Loaded() && b.isNeeded(kind) { // each request asks: the quick check first
			return false
		}
	}
	return b.former.Load()
}

// untaken returns why machines wait although the objects are read; nil: they do not.
func (b *Backend) untaken() error {
	if b.former.Load() {
		return nil
	}
	return errors.New("what a former release has kept was not taken over yet")
}

// Followed returns why the first store that is not ready is not, lost buckets left out; nil: all are ready.
func (b *Backend) Followed() error {
	for _, kind := range kinds.All() {
		if err := b.Stores[kind.Resource].ReadinessCheck(); err != nil && !b.IsLost(kind.Resource) {
			return err
		}
	}
	return nil
}

// Missing returns why the first store is unread or not ready, lost or not: first of the stores that machines need.
func (b *Backend) Missing() error {
	for _, kind := range kinds.All() {
		if kind.Boot == kinds.Unneeded {
			continue
		}
		if err := unread(b.Stores[kind.Resource]); err != nil {
			return err
		}
	}
	if err := b.untaken(); err != nil {
		return err
	}
	return b.Followed()
}
