package progress

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// eventStep writes one event: of what machines have done only where no other is due.
func (j *Tracker) eventStep(ctx context.Context, all bool) (time.Duration, error) {
	now := time.Now()
	omissionWait := j.tellOmissions(now, all)
	j.mu.Lock()
	event, wait, isEvent := j.events.next(now, all)
	var step item[stepKey, eventNews]
	var stepWait time.Duration
	var isStep bool
	if !isEvent {
		step, stepWait, isStep = j.steps.next(now, all)
	}
	j.mu.Unlock()
	switch {
	case isEvent:
		key, err := j.writeEvent(ctx, event.key, &event.news)
		return 0, settle(j, j.events, kindEvent, event, key, err, (*eventNews).add)
	case isStep:
		key, err := j.writeEvent(ctx, step.key.event(), &step.news)
		return 0, settle(j, j.steps, kindEvent, step, key, err, (*eventNews).add)
	}
	return sooner(sooner(wait, stepWait), omissionWait), nil
}

// writeEvent writes an event, and gives its key in the store.
func (j *Tracker) writeEvent(ctx context.Context, key eventKey, news *eventNews) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	stored := "/events/" + key.namespace() + "/" + key.name()
	update := news.update(key, j.opts.Instance)
	return stored, j.opts.Events.GuaranteedUpdate(ctx, stored, &v1.Event{}, true, nil, update, nil)
}

// sooner is the shorter of two times to wait, of which a negative one is none.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// hostStep writes one status: of a host whose state it lacks, and only where there
// is none one of which there is other news.
func (j *Tracker) hostStep(ctx context.Context, all bool) (time.Duration, error) {
	now := time.Now()
	j.mu.Lock()
	state, stateWait, isState := j.states.next(now, all)
	ref := state.key
	var news item[snapshot.Ref, hostNews]
	var newsWait time.Duration
	var isNews bool
	if !isState {
		news, newsWait, isNews = j.hosts.next(now, all)
		ref = news.key
	}
	var write hostStatus
	m := j.machines.byRef[ref]
	if isState && (m == nil || j.hosts.news(ref).uid == m.uid) {
		news, isNews = j.hosts.take(ref, now) // one write for both
	}
	if write.news = news.news; m != nil && (isState || m.uid == news.news.uid) {
		write.machine = *m
	}
	j.mu.Unlock()
	switch {
	case isState && write.machine.uid == "" && !isNews: // the host is no more
		return 0, nil
	case !isState && !isNews:
		return sooner(stateWait, newsWait), nil
	}
	key := "/baremetalhosts/" + ref.String()
	err := j.writeHost(ctx, key, ref, &write, isNews)
	j.settleMachine(&write.machine, err)
	if isState {
		failure := settle(j, j.states, kindState, state, key, err, func(*struct{}, struct{}) {})
		if isNews {
			settle(j, j.hosts, kindHost, news, key, err, (*hostNews).add)
		}
		return 0, failure
	}
	return 0, settle(j, j.hosts, kindHost, news, key, err, (*hostNews).add)
}

// writeHost writes a status. A change of a condition is an event, too.
func (j *Tracker) writeHost(ctx context.Context, key string, ref snapshot.Ref, write *hostStatus, isNews bool) error {
	if !isNews && j.includes(ref, &write.machine) {
		return nil
	}
	j.mu.Lock()
	_, conflicting := j.conflicting[ref]
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var stored v1.BareMetalHost
	var transitions []*metav1.Condition
	update := write.update(time.Now(), !conflicting, &transitions)
	if err := j.opts.Hosts.GuaranteedUpdate(ctx, key, &stored, false, nil, update, nil); err != nil {
		return err
	}
	for _, c := range transitions {
		object := v1.ObjectReference{
			Kind: "BareMetalHost", APIVersion: "v1", Namespace: ref.Namespace, Name: ref.Name, UID: string(stored.UID),
		}
		if c.Status == metav1.ConditionFalse {
			j.Record(object, v1.EventWarning, c.Reason, c.Message)
		} else {
			j.Record(object, v1.EventNormal, c.Type, c.Message)
		}
	}
	return nil
}

// includes reports whether the status of a host, as the inventory has it, says all
// that the boot log does: another server may have written it.
func (j *Tracker) includes(ref snapshot.Ref, m *machine) bool {
	if j.opts.Host == nil || !m.logged {
		return false
	}
	host := j.opts.Host(ref)
	return host != nil && host.UID == m.uid && host.Progress.Position >= m.progress.Position
}

// settleMachine notes what the status of a host includes after a write, or that the
// host is no more.
func (j *Tracker) settleMachine(written *machine, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.machines.byRef[written.ref]
	switch {
	case m == nil || m.uid != written.uid:
	case err == nil && written.progress.Position >= m.progress.Position:
		m.oldest = 0
	case isGone(err):
		j.machines.drop(m)
	}
}

// settle counts how a write went, and keeps its news where it is worth another
// try. The error is not nil where the store is away.
func settle[K comparable, V any](j *Tracker, q *queue[K, V], kind string, it item[K, V], key string, err error, add func(*V, V)) error {
	away := isAway(err)
	switch {
	case err == nil:
		j.metrics.wrote(kind, resultOK)
		return nil
	case isGone(err):
		j.metrics.wrote(kind, resultGone)
		return nil
	case away:
		it.attempts = -1 // that was none
	case it.attempts+1 >= maxAttempts && kind != kindState:
		j.metrics.drop(kind, causeFailed)
		j.opts.Logger.Error("gave up a write", "key", key, "error", err)
		return nil
	case it.attempts+1 >= maxAttempts:
		it.due = time.Now().Add(stateRetry)
		if it.attempts+1 == maxAttempts {
			j.opts.Logger.Error("the status of a host cannot be written; the boot log keeps its state", "key", key, "error", err)
		}
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
