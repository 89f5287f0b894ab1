package backend

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/replicas"
)

// openStores makes the stores of the objects. Parts connects them.
func (b *Backend) openStores() error {
	log, metrics, memory := b.deps.Logger, b.deps.Registerer, newMemoryRoom(b.deps.MemoryLimit)
	b.Stores = map[string]*kvstore.Store{}
	for _, kind := range kinds.All() {
		b.Stores[kind.Resource] = kvstore.New(objects.Stored(kind), kvstore.Options{
			Logger: log, Registerer: metrics, Ledger: b.buckets, Writable: b.writable,
			Room: memory.within(b.room(objects.Bucket(kind))), Release: b.release(), Exclusive: b.exclusive,
			KeyDir: b.ledger.KeyDir(), WindowBytes: windowBytes(b.deps.MemoryLimit),
			Guard: b.keeper.Guard, Replicas: b.replicas, Cipher: b.keys.Of(kind.GroupResource()),
		})
	}
	b.History = boots.NewHistory(boots.HistoryOptions{
		Logger: log, Registerer: metrics, Guard: b.keeper.Guard, Replicas: replicas.Wanted(b.replicas), Writable: b.writable,
		Room: b.room(boots.HistoryStream), Cipher: b.keys.Of(kinds.Of(kinds.Boots).GroupResource()), Keep: b.deps.KeepBoots,
	})
	b.aside = b.losses(b.IsLost)
	metrics.MustRegister(damageCollector(b.damages))
	return nil
}

// release is what the stores call to give up ballast; nil where there is none.
func (b *Backend) release() func(context.Context, jetstream.JetStream, int) bool {
	if b.ballast == nil {
		return nil
	}
	return b.ballast.Release
}

// Parts returns what follows the store, each until its context ends. observers are those of each store, by resource.
func (b *Backend) Parts(observers map[string][]kvstore.Observer) []func(context.Context) {
	parts := append(b.storeParts(observers),
		b.WhenUsable(func(ctx context.Context) { b.keeper.Run(ctx, b.js) }),
		b.WhenUsable(b.takeFormer),
		b.WhenUsable(func(ctx context.Context) { b.History.Run(ctx, b.js) }),
	)
	for _, store := range b.Stores {
		if !b.exclusive {
			parts = append(parts, func(ctx context.Context) { store.KeepReplicas(ctx, b.js) })
		}
	}
	if b.ballast != nil {
		parts = append(parts, b.WhenUsable(func(ctx context.Context) { b.ballast.Run(ctx, b.js) }))
	}
	return parts
}

// storeParts are those of Parts that read the objects.
func (b *Backend) storeParts(observers map[string][]kvstore.Observer) []func(context.Context) {
	parts := []func(context.Context){
		func(ctx context.Context) { defer close(b.usable); b.awaitUsable(ctx); b.checkKeys(ctx) },
	}
	for resource, store := range b.Stores {
		parts = append(parts, b.WhenUsable(func(ctx context.Context) { store.Run(ctx, b.js, observers[resource]...) }))
	}
	return parts
}

// takeFormer takes over what a former release has kept elsewhere.
func (b *Backend) takeFormer(ctx context.Context) {
	var empty func(context.Context) error
	_ = wait.PollUntilContextCancel(ctx, formerInterval, true, func(ctx context.Context) (done bool, err error) {
		if !b.Stores[kinds.BareMetalHosts].Loaded() || !b.Stores[kinds.Boots].Loaded() {
			return false, nil
		}
		if empty, err = b.deps.TakeFormer(ctx, b.js); err != nil {
			b.deps.Logger.Warn("what a former release has kept cannot be taken over yet: machines wait", "error", err)
			return false, nil
		}
		b.former.Store(true)
		return true, nil
	})
	if empty != nil {
		if err := empty(ctx); err != nil && ctx.Err() == nil {
			b.deps.Logger.Warn("what a former release has kept is taken over again at the next start", "error", err)
		}
	}
}

// WhenUsable returns a part that begins once NATS can hold the store.
func (b *Backend) WhenUsable(part func(context.Context)) func(context.Context) {
	return func(ctx context.Context) { <-b.usable; part(ctx) }
}

// Failed returns the error of a store that cannot go on, or nil once ctx ends.
func (b *Backend) Failed(ctx context.Context) error {
	select {
	case err := <-b.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Rewrite writes values again that are not encrypted as new ones are.
func (b *Backend) Rewrite(ctx context.Context) (written, left int, err error) {
	for _, store := range b.Stores {
		w, l, err := store.Rewrite(ctx)
		written, left = written+w, left+l
		if err != nil {
			return written, left, err
		}
	}
	return written, left, nil
}

// check returns why an external NATS server cannot be read or written; nil: it can.
func (b *Backend) check() error {
	switch {
	case b.conn == nil:
		return nil
	case !b.conn.IsConnected():
		return errors.New("the NATS server is away")
	}
	return natsd.CheckServer(b.conn)
}

const (
	usableInterval = 50 * time.Millisecond
	formerInterval = 20 * time.Millisecond
	// reconnectInterval is how often a NATS server whose messages are too small is
	// connected to again: it may have another configuration by now.
	reconnectInterval = 2 * time.Second
)

// awaitUsable returns once there is a NATS server that can hold the store, or ctx has
// ended. A server sends its limits when it is connected to, so one whose limits are too
// small is connected to again.
func (b *Backend) awaitUsable(ctx context.Context) {
	connected := time.Now()
	_ = wait.PollUntilContextCancel(ctx, usableInterval, true, func(context.Context) (bool, error) {
		if b.check() == nil {
			return true, nil
		}
		if time.Since(connected) > reconnectInterval && b.conn.IsConnected() {
			connected = time.Now()
			_ = b.conn.ForceReconnect()
		}
		return false, nil
	})
}
