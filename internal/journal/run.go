package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/inventory"
)

const (
	// writeTimeout ends a write that takes too long; it is tried again.
	writeTimeout = 10 * time.Second
	// awayFirst and awayMax are the pauses while the store is away.
	awayFirst = 250 * time.Millisecond
	awayMax   = 10 * time.Second
	// maxAttempts are made of a write that a store, though it is there, does not
	// take; the pause grows by retryGap each time.
	maxAttempts = 5
	retryGap    = time.Second
	// recheck bounds how long the writer sleeps.
	recheck = time.Minute
)

// Run writes what is noted until ctx ends; its error is always nil. While the
// store is away, news waits. Shutdown writes what is left when Run has returned.
func (j *Journal) Run(ctx context.Context) error {
	pause := awayFirst
	for {
		wait, err := j.step(ctx, false)
		wake := j.wake
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if pause == awayFirst {
				j.opts.Logger.Warn("the store takes no host status and no events; they wait", "error", err)
			}
			wait, pause, wake = pause, min(2*pause, awayMax), nil
		case wait == 0:
			if pause > awayFirst {
				j.opts.Logger.Info("the store takes host status and events again")
			}
			pause = awayFirst
			wait, wake = j.writes.Reserve().Delay(), nil
		case wait < 0 || wait > recheck:
			wait = recheck
		}
		if wait > 0 && !sleep(ctx, wait, wake) {
			return nil
		}
	}
}

// Shutdown writes what is left, at once and for as long as ctx lasts. The error
// says what is lost. News that comes later is ignored.
func (j *Journal) Shutdown(ctx context.Context) error {
	var err error
	for wait := time.Duration(0); wait == 0 && err == nil; {
		if err = ctx.Err(); err == nil {
			wait, err = j.step(ctx, true)
		}
	}
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	hosts, events := j.pending()
	j.metrics.lose(hosts, events)
	if err != nil {
		return fmt.Errorf("%d host status and %d events could not be written: %w", hosts, events, err)
	}
	return nil
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

// step makes one write of what is due, or with all of what there is; wait is 0
// then. Else wait is the time until something is due, negative where there is
// nothing. An error means that the store is away.
func (j *Journal) step(ctx context.Context, all bool) (wait time.Duration, err error) {
	now := time.Now()
	j.mu.Lock()
	j.turn++
	eventsFirst := j.turn%eventTurn == 0
	var host item[inventory.Ref, hostNews]
	var event item[eventKey, eventNews]
	var hostWait, eventWait time.Duration
	var isHost, isEvent bool
	if eventsFirst {
		event, eventWait, isEvent = j.events.next(now, all)
	}
	if !isEvent {
		host, hostWait, isHost = j.hosts.next(now, all)
	}
	if !isHost && !eventsFirst {
		event, eventWait, isEvent = j.events.next(now, all)
	}
	j.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	switch {
	case isEvent:
		key := "/events/" + event.key.namespace() + "/" + event.key.name()
		err := j.opts.Events.GuaranteedUpdate(ctx, key, &v1.Event{}, true, nil, event.news.update(event.key, j.opts.Instance), nil)
		return 0, settle(j, j.events, kindEvent, event, key, err, (*eventNews).add)
	case isHost:
		key := "/baremetalhosts/" + host.key.String()
		return 0, settle(j, j.hosts, kindHost, host, key, j.writeHost(ctx, key, host), (*hostNews).add)
	case hostWait < 0:
		return eventWait, nil
	case eventWait < 0:
		return hostWait, nil
	}
	return min(hostWait, eventWait), nil
}

// writeHost writes a status. A change of a condition is an event, too.
func (j *Journal) writeHost(ctx context.Context, key string, host item[inventory.Ref, hostNews]) error {
	j.mu.Lock()
	_, conflicting := j.conflicting[host.key]
	j.mu.Unlock()
	var stored v1.BareMetalHost
	var transitions []*metav1.Condition
	update := host.news.update(time.Now(), !conflicting, &transitions)
	if err := j.opts.Hosts.GuaranteedUpdate(ctx, key, &stored, false, nil, update, nil); err != nil {
		return err
	}
	for _, c := range transitions {
		object := v1.ObjectReference{
			Kind: "BareMetalHost", APIVersion: "v1", Namespace: host.key.Namespace, Name: host.key.Name, UID: string(stored.UID),
		}
		if c.Status == metav1.ConditionFalse {
			j.Record(object, v1.EventWarning, c.Reason, c.Message)
		} else {
			j.Record(object, v1.EventNormal, c.Type, c.Message)
		}
	}
	return nil
}

// settle counts how a write went, and keeps its news where it is worth another
// try. The error is not nil where the store is away.
func settle[K comparable, V any](j *Journal, q *queue[K, V], kind string, it item[K, V], key string, err error, add func(*V, V)) error {
	away := isAway(err)
	switch {
	case err == nil:
		j.metrics.wrote(kind, resultOK)
		return nil
	case errors.Is(err, errGone) || storage.IsNotFound(err) || apierrors.IsNotFound(err):
		j.metrics.wrote(kind, resultGone)
		return nil
	case away:
		it.attempts = -1 // that was none
	case it.attempts+1 >= maxAttempts:
		j.metrics.drop(kind, causeFailed)
		j.opts.Logger.Error("gave up a write", "key", key, "error", err)
		return nil
	default:
		it.due = time.Now().Add(time.Duration(it.attempts+1) * retryGap)
	}
	j.metrics.wrote(kind, resultRetry)
	j.mu.Lock()
	defer j.mu.Unlock()
	if q.putBack(it, time.Now(), add) {
		j.metrics.drop(kind, causeFull)
	}
	if away {
		return err
	}
	return nil
}

// isAway tells whether an error says that the store cannot be reached, or not
// in time, and nothing about what was to be written.
func isAway(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || storage.IsUnreachable(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}
