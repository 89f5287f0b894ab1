package app

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"glowplug/internal/store/kinds"
)

// Run serves until ctx ends or something fails, then takes everything down:
// boots in flight finish, what is to be written is written, the store closes.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()

	var background sync.WaitGroup
	usable := make(chan struct{})
	background.Go(func() { defer close(usable); a.backend.awaitUsable(work) })
	observers := a.observers()
	for resource, store := range a.stores {
		background.Go(func() { <-usable; store.Run(work, a.backend.js, observers[resource]...) })
		if !a.backend.exclusive {
			background.Go(func() { store.KeepReplicas(work, a.backend.js) })
		}
	}
	background.Go(func() { a.announceLost(work) })
	background.Go(func() { <-usable; a.backend.keeper.Run(work, a.backend.js) })
	if a.backend.ballast != nil {
		background.Go(func() { <-usable; a.backend.ballast.Run(work, a.backend.js) })
	}
	background.Go(func() { <-usable; a.bootLog.Run(work, a.backend.js) })
	if a.clientCAFile != nil {
		background.Go(func() { a.clientCAFile.Run(work, a.api.RecheckCallers) })
	}
	background.Go(func() { tendHeap(work, a.ready, a.rendered.Busy) })
	imagesCtx, stopImages := context.WithCancel(work)
	defer stopImages()
	imagesDone := make(chan struct{})
	go func() { defer close(imagesDone); a.imageController.Run(imagesCtx) }()
	controllersCtx, stopControllers := context.WithCancel(work)
	defer stopControllers()
	var controllers sync.WaitGroup
	controllers.Go(func() { a.configs.Run(controllersCtx) })
	controllers.Go(func() { a.templates.Run(controllersCtx) })
	controllers.Go(func() { a.compatibility.Run(controllersCtx) })
	writeCtx, stopWriters := context.WithCancel(work)
	defer stopWriters()
	var writers sync.WaitGroup
	writers.Go(func() { a.progress.Run(writeCtx, a.bootLog, a.statuses) })
	writers.Go(func() { a.statuses.Run(writeCtx, a.stores[kinds.BareMetalHosts]) })
	writers.Go(func() { a.events.Run(writeCtx, a.stores[kinds.Events], a.progress.Storm) })

	serving, serveCtx := errgroup.WithContext(ctx)
	for _, d := range a.doors {
		handler := a.handler(d)
		serving.Go(func() error { return d.serve(handler) })
	}
	if a.targets != nil {
		serving.Go(a.targets.Serve)
	}
	serving.Go(func() error {
		greeter{a}.greet(serveCtx)
		a.publisher.Run(serveCtx) // now that the releases among the manifests are there
		return nil
	})
	<-serveCtx.Done()
	a.log.Info("stopping: requests in flight finish first")

	var shut sync.WaitGroup
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	shut.Go(func() { _ = a.api.Shutdown(drain) }) // ends watches, which would last for ever
	for _, d := range a.doors {
		shut.Go(func() { d.shut(drain) })
	}
	if a.targets != nil {
		shut.Go(func() { a.targets.Shutdown(drain) })
	}
	shut.Wait()
	err := serving.Wait()

	stopImages()
	<-imagesDone
	stopControllers()
	controllers.Wait()
	stopWriters()
	writers.Wait()
	flush, cancelFlush := context.WithTimeout(context.Background(), closeTimeout)
	defer cancelFlush()
	// In this order: a state in the boot log goes into a status, whose change is an event.
	for _, write := range []func(context.Context) error{a.progress.Shutdown, a.statuses.Shutdown, a.events.Shutdown} {
		if lost := write(flush); lost != nil {
			a.log.Warn("stopping: not everything could be written", "error", lost)
		}
	}
	stopWork()
	background.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
