package app

import (
	"context"
	"errors"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"glowplug/internal/domain/kinds"
)

// Run serves until ctx ends or a part fails. Then it stops the parts in the reverse
// order of their start: boots in flight finish, pending writes are made, the store closes.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	work := context.WithoutCancel(ctx) // each part is stopped in its turn
	defer start(work, a.background()...)()
	defer start(work, func(ctx context.Context) { a.members.Run(ctx, a.backend.Stores[kinds.Members]) })()
	defer a.flush()
	defer start(work,
		func(ctx context.Context) { a.tracker.Run(ctx, a.backend.Stores[kinds.Boots], a.backend.History) },
		func(ctx context.Context) { a.statuses.Run(ctx, a.backend.Stores[kinds.BareMetalHosts]) },
		func(ctx context.Context) { a.events.Run(ctx, a.backend.Stores[kinds.Events], a.tracker.Storm) },
		func(ctx context.Context) {
			a.unknown.Run(ctx, a.backend.Stores[kinds.UnknownMachines], a.tracker.Storm)
		},
	)()
	defer start(work, a.configs.Run, a.templates.Run, a.checker.Run, a.alarm.Run)()
	defer start(work, a.imageController.Run)()
	return a.serve(ctx)
}

// start runs parts in the background. The function that it returns stops them and waits
// for their end.
func start(ctx context.Context, parts ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() { part(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// background returns the parts that follow the store, and those that run beside it.
func (a *App) background() []func(context.Context) {
	parts := append(a.backend.Parts(a.observers()),
		func(ctx context.Context) { a.backend.AnnounceLost(ctx, a.events) },
		a.creds.FollowProvided,
		a.live.Run,
		func(ctx context.Context) { a.creds.FollowAdmin(ctx, a.api.RecheckCallers) },
		func(ctx context.Context) { tendHeap(ctx, a.ready) },
	)
	if a.sharing != nil {
		parts = append(parts, a.backend.WhenUsable(a.sharing.run))
	}
	if a.backups != nil {
		parts = append(parts, a.backend.WhenUsable(func(ctx context.Context) { a.leading.Run(ctx, "backups", a.backups.Run) }))
	}
	if a.clientCAFile != nil {
		parts = append(parts, func(ctx context.Context) { a.clientCAFile.Run(ctx, a.api.RecheckCallers) })
	}
	return parts
}

// serve answers requests until ctx ends or a listener fails, and lets those in flight
// finish.
func (a *App) serve(ctx context.Context) error {
	serving, ctx := errgroup.WithContext(ctx)
	for _, d := range a.listeners {
		handler := a.handler(d)
		serving.Go(func() error { return d.serve(handler) })
	}
	if a.targets != nil {
		serving.Go(a.targets.Serve)
	}
	for _, network := range a.networks {
		serving.Go(func() error { return network.Serve(ctx) })
	}
	serving.Go(func() error { return a.backend.Failed(ctx) })
	serving.Go(func() error {
		greeter{a}.greet(ctx)
		a.publisher.Run(ctx) // now that the releases among the manifests are there
		return nil
	})
	<-ctx.Done()
	a.notify(daemon.SdNotifyStopping)
	a.log.Info("stopping: requests in flight finish first")

	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	var shut sync.WaitGroup
	shut.Go(func() { _ = a.api.Shutdown(drain) }) // ends watches, which would last for ever
	if a.console != nil {
		a.console.Shutdown()
	}
	for _, d := range a.listeners {
		shut.Go(func() { d.shut(drain) })
	}
	if a.targets != nil {
		shut.Go(func() { a.targets.Shutdown(drain) })
	}
	shut.Wait()
	if err := serving.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// notify tells systemd the state of the server, if systemd has started it (Type=notify).
func (a *App) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		a.log.Warn("systemd could not be told the state of the server", "state", state, "error", err)
	}
}

// flush makes the pending writes. The newest boot goes into a status, whose
// change is an event: hence the order.
func (a *App) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, write := range []func(context.Context) error{
		a.tracker.Shutdown, a.statuses.Shutdown, a.events.Shutdown, a.unknown.Shutdown,
	} {
		if err := write(ctx); err != nil {
			a.log.Warn("stopping: not everything could be written", "error", err)
		}
	}
}
