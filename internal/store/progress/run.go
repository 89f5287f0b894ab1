package progress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// writeTimeout ends a write that takes too long; it is tried again.
	writeTimeout = 10 * time.Second
	// awayFirst and awayMax are the pauses while the store is away; the boot log is
	// tried again sooner, since machines wait for it.
	awayFirst  = 250 * time.Millisecond
	awayMax    = 10 * time.Second
	logAwayMax = time.Second
	// maxAttempts are made of a write that a store, though it is there, does not
	// take; the pause grows by retryGap each time.
	maxAttempts = 5
	retryGap    = time.Second
	// stateRetry is the pause between further attempts where the status of a host
	// cannot be written, which the boot log has.
	stateRetry = time.Minute
	// recheck bounds how long a writer sleeps.
	recheck = time.Minute
)

// writer writes one kind of news.
type writer struct {
	name string
	wake chan struct{}
	// step makes one write of what is due; wait is 0 then. Else wait is the time
	// until something is due, negative where there is nothing. An error means that
	// the store is away.
	step func(context.Context) (wait time.Duration, err error)
	// pace is how long to wait after a write that began at a time.
	pace    func(began time.Time) time.Duration
	maxAway time.Duration
}

// Run writes what is noted until ctx ends; its error is always nil. While the
// store is away, news waits. Shutdown writes what is left when Run has returned.
func (j *Tracker) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	if j.opts.Log != nil {
		running.Go(func() { j.trim(ctx) })
		running.Go(func() {
			j.run(ctx, writer{name: "states of hosts", wake: j.wakeLog, maxAway: logAwayMax,
				step: func(ctx context.Context) (time.Duration, error) { return j.recordStep(ctx, false) },
				pace: func(began time.Time) time.Duration { return recordGap - time.Since(began) }})
		})
	}
	running.Go(func() {
		j.run(ctx, writer{name: "host status", wake: j.wakeHosts, maxAway: awayMax, pace: j.pace(j.statuses, statusesPerSecond, statusesInRush),
			step: func(ctx context.Context) (time.Duration, error) { return j.hostStep(ctx, false) }})
	})
	j.run(ctx, writer{name: "events", wake: j.wakeEvents, maxAway: awayMax,
		pace: j.pace(j.happened, eventsPerSecond, eventsInRush),
		step: func(ctx context.Context) (time.Duration, error) { return j.eventStep(ctx, false) }})
	return nil
}

// pace gives the time to wait between two writes: there are so many a second, and
// fewer while a storm of boots goes on.
func (j *Tracker) pace(limiter *rate.Limiter, perSecond, inRush rate.Limit) func(time.Time) time.Duration {
	return func(time.Time) time.Duration {
		j.mu.Lock()
		storm := time.Now().Before(j.rushUntil)
		j.mu.Unlock()
		if storm {
			limiter.SetLimit(inRush)
		} else {
			limiter.SetLimit(perSecond)
		}
		return limiter.Reserve().Delay()
	}
}

// run lets a writer write until ctx ends.
func (j *Tracker) run(ctx context.Context, w writer) {
	pause := awayFirst
	for {
		began := time.Now()
		wait, err := w.step(ctx)
		wake := w.wake
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if pause == awayFirst {
				j.opts.Logger.Warn("the store takes no "+w.name+"; they wait", "error", err)
			}
			wait, pause, wake = min(pause, w.maxAway), min(2*pause, awayMax), nil
		case wait == 0:
			if pause > awayFirst {
				j.opts.Logger.Info("the store takes " + w.name + " again")
			}
			pause = awayFirst
			wait, wake = w.pace(began), nil
		case wait < 0 || wait > recheck:
			wait = recheck
		}
		if wait > 0 && !sleep(ctx, wait, wake) {
			return
		}
	}
}

// sleep waits for a time or, where wake is not nil, to be woken. It tells
// whether to go on.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}

// Shutdown writes what is left, at once and for as long as ctx lasts: first the
// boot log, then statuses, then events. The error says what is lost: a status whose
// state is in the boot log is not. News that comes later is ignored.
func (j *Tracker) Shutdown(ctx context.Context) error {
	var err error
	steps := []func(context.Context, bool) (time.Duration, error){j.recordStep, j.hostStep, j.eventStep}
	if j.opts.Log == nil {
		steps = steps[1:]
	}
	for _, step := range steps {
		err = errors.Join(err, flush(ctx, func(ctx context.Context) (time.Duration, error) { return step(ctx, true) }))
	}
	j.mu.Lock()
	j.closed = true
	for _, m := range j.unlogged {
		m.resolve(errClosed)
	}
	j.mu.Unlock()
	records, _, hosts, events := j.pending()
	j.metrics.lose(records, hosts, events)
	if err != nil && records+hosts+events > 0 {
		return fmt.Errorf("%d states of hosts, %d times when a host was last seen, and %d events could not be written: %w",
			records, hosts, events, err)
	}
	return nil
}

// flush steps until nothing is left, or the store is away.
func flush(ctx context.Context, step func(context.Context) (time.Duration, error)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if wait, err := step(ctx); wait != 0 || err != nil {
			return err
		}
	}
}

// isGone tells whether an error says that the object of a write is no more.
func isGone(err error) bool {
	return errors.Is(err, errGone) || storage.IsNotFound(err) || apierrors.IsNotFound(err)
}

// isAway tells whether an error says that the store cannot be reached, or not
// in time, or is full, and nothing about what was to be written.
func isAway(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || storage.IsUnreachable(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || isFull(err)
}

// isFull tells whether an error says that the store has no room.
func isFull(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInsufficientStorage
}
