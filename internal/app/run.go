package app

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
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
	for _, store := range a.stores {
		background.Go(func() { <-usable; _ = store.Run(work, a.backend.js) })
		if !a.backend.exclusive {
			background.Go(func() { store.KeepReplicas(work, a.backend.js) })
		}
	}
	background.Go(func() { a.announceLost(work) })
	background.Go(func() { <-usable; a.backend.keeper.Run(work, a.backend.js) })
	if a.backend.ballast != nil {
		background.Go(func() { <-usable; a.backend.ballast.Run(work, a.backend.js) })
	}
	background.Go(func() { <-usable; _ = a.bootLog.Run(work, a.backend.js) })
	if a.clientCAFile != nil {
		background.Go(func() { a.clientCAFile.Run(work, a.api.RecheckCallers) })
	}
	background.Go(func() { tendHeap(work, a.ready, a.rendered.Busy) })
	background.Go(func() { _ = a.skew.Run(work) })
	imagesCtx, stopImages := context.WithCancel(work)
	defer stopImages()
	imagesDone := make(chan struct{})
	go func() { defer close(imagesDone); a.imageController.Run(imagesCtx) }()
	followCtx, stopFollower := context.WithCancel(work)
	defer stopFollower()
	followerDone := make(chan struct{})
	go func() { defer close(followerDone); _ = a.follower.Run(followCtx) }()
	journalCtx, stopJournal := context.WithCancel(work)
	defer stopJournal()
	journalDone := make(chan struct{})
	go func() { defer close(journalDone); _ = a.journal.Run(journalCtx) }()

	serving, serveCtx := errgroup.WithContext(ctx)
	for _, d := range a.doors {
		handler := a.handler(d)
		serving.Go(func() error { return d.serve(handler) })
	}
	if a.targets != nil {
		serving.Go(a.targets.Serve)
	}
	serving.Go(func() error {
		a.greet(serveCtx)
		a.bulletin.Run(serveCtx) // now that the releases among the manifests are there
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
	stopFollower()
	<-followerDone
	stopJournal()
	<-journalDone
	flush, cancelFlush := context.WithTimeout(context.Background(), closeTimeout)
	defer cancelFlush()
	if lost := a.journal.Shutdown(flush); lost != nil {
		a.log.Warn("stopping the journal", "error", lost)
	}
	stopWork()
	background.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
