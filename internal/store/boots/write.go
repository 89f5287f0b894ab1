package boots

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/batch"
	"glowplug/internal/store/kvstore"
)

const (
	// A boot for which a machine waits is written at once, or bootGap for each boot of the last write after that, at
	// most maxGap: the more machines come, the more of them share a write. Others wait until soonPause after the last
	// write, and in a storm for stormPause, since most take further steps by then. What decides the next boot is durable
	// within a second all the same.
	bootGap    = 500 * time.Microsecond
	maxGap     = 30 * time.Millisecond
	soonPause  = 50 * time.Millisecond
	stormPause = 400 * time.Millisecond
	// latePause is how long steps wait that decide nothing, and seenPause the pause before a status is written that
	// has a new lastSeen alone.
	latePause = 5 * time.Second
	// completeTimeout bounds the wait of a machine until its boot is durable.
	completeTimeout = 3 * time.Second
	// awayMin and awayMax are the bounds of the pause between two attempts while the store
	// is away. It is short, since machines wait for it.
	awayMin = 250 * time.Millisecond
	awayMax = time.Second
	// otherGrace is the time that another server, which may be gone, has to write the status
	// for its own boot.
	otherGrace = 10 * time.Second

	// A storm begins when stormBoots were written in about stormWindow, or are pending. Statuses and events wait until
	// stormLength after the last such write.
	stormBoots  = 50
	stormWindow = 100 * time.Millisecond
	stormLength = 500 * time.Millisecond
)

// errClosed is the outcome of a wait for a boot when the server stops.
var errClosed = errors.New("the server stops")

// waiting is a machine in a queue, for a write that is due at a time. It does not count if the machine is due earlier
// by now, or in the other queue.
type waiting struct {
	machine *machine
	due     time.Time
}

// changedLocked queues a machine whose boot has changed. decisive is true where that decides the next boot.
func (t *Tracker) changedLocked(m *machine, decisive bool) {
	m.changes++
	if decisive {
		m.decided = m.changes
	}
	t.enqueueLocked(m)
	t.opts.Changed(m.Host)
}

// unstored reports whether the bucket lacks a change.
func (m *machine) unstored() bool { return m.changes != m.stored }

// enqueueLocked queues a machine; one whose write is under way is queued after it. One for whose boot a request waits
// is due before all others.
func (t *Tracker) enqueueLocked(m *machine) {
	now := time.Now()
	queue, due := &t.late, now.Add(latePause)
	switch {
	case m.inFlight:
		return
	case m.outcome != nil:
		queue, due = &t.soon, t.recorded.Add(t.gap)
	case m.decided > m.stored && now.Before(t.stormUntil):
		queue, due = &t.soon, now.Add(stormPause)
	case m.decided > m.stored:
		queue, due = &t.soon, t.recorded.Add(soonPause)
	}
	if m.queue == queue && !due.Before(m.due) {
		return
	}
	m.queue, m.due = queue, due
	i := sort.Search(len(*queue), func(i int) bool { return (*queue)[i].due.After(due) })
	*queue = slices.Insert(*queue, i, waiting{m, due})
	if i == 0 {
		notify(t.wake)
	}
}

func notify(waker chan<- struct{}) {
	select {
	case waker <- struct{}{}:
	default:
	}
}

// awaitStored waits until the boot of a host is stored.
func (t *Tracker) awaitStored(ctx context.Context, host *model.Host) error {
	t.mu.Lock()
	if t.closed { // the last step may have been ignored
		t.mu.Unlock()
		return errClosed
	}
	m := t.knownLocked(host.Ref, host.UID)
	if m == nil || !m.unstored() {
		t.mu.Unlock()
		return nil
	}
	if m.outcome == nil {
		m.outcome = &outcome{change: m.changes, done: make(chan struct{})}
	}
	// Retries come in the meantime, perhaps more of them than there are writes.
	m.outcome.change = max(m.outcome.change, m.decided)
	waited := m.outcome
	t.enqueueLocked(m)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	select {
	case <-waited.done:
		return waited.err
	case <-ctx.Done():
		return fmt.Errorf("the boot of host %s is not stored yet: %w", host.Ref, ctx.Err())
	}
}

// writing is the write of the boot of a machine.
type writing struct {
	machine *machine
	put     kvstore.Put
	// change is the newest change of the machine, and number that of its boot.
	change uint64
	number int64
	// former are the boots that it overwrites and that the history has not taken yet.
	former []*v1.Boot
}

// next removes the next boots from the queues. all is true where none waits any longer.
func (t *Tracker) next(all bool) []writing {
	t.mu.Lock()
	defer t.mu.Unlock()
	writes := t.takeLocked(nil, &t.soon, all)
	if n := len(writes); n > 0 {
		now := time.Now()
		passed := now.Sub(t.recorded).Seconds() / stormWindow.Seconds()
		t.lately = t.lately*math.Exp(-passed) + float64(n)
		t.recorded, t.gap = now, min(time.Duration(n)*bootGap, maxGap)
		if t.lately+float64(len(t.soon)) >= stormBoots {
			t.stormUntil = now.Add(stormLength)
		}
	}
	return t.takeLocked(writes, &t.late, all)
}

// takeLocked adds the machines at the head of a queue to a batch.
func (t *Tracker) takeLocked(writes []writing, queue *[]waiting, all bool) []writing {
	now, taken := time.Now(), 0
	for ; taken < len(*queue) && len(writes) < batch.Max; taken++ {
		head := (*queue)[taken]
		if !all && now.Before(head.due) {
			break
		}
		m := head.machine
		if m.queue != queue || !m.due.Equal(head.due) {
			continue
		}
		m.queue = nil
		if m.unstored() && !m.leaving { // or another server has stored it
			writes = append(writes, writeLocked(t, m))
		}
	}
	*queue = (*queue)[taken:]
	return writes
}

// writeLocked begins the write of a boot.
func writeLocked(t *Tracker, m *machine) writing {
	put := kvstore.Put{Key: m.Host.String(), Expect: m.revision}
	if !m.gone {
		b := t.openLocked(m)
		b.Machine = m.Progress.Stored()
		put.Object = b.DeepCopy()
	}
	m.inFlight = true
	return writing{machine: m, put: put, change: m.changes, number: m.Number, former: slices.Clone(m.overwritten())}
}

// write stores the next boots. n is their number.
func (t *Tracker) write(ctx context.Context, all bool) (n int, err error) {
	writes := t.next(all)
	var former []*v1.Boot
	for _, w := range writes {
		former = append(former, w.former...)
	}
	_ = keep(ctx, t.archive, former) // without room for them states go on
	if len(writes) > batch.Small {
		return len(writes), put(ctx, t, writes)
	}
	var putting errgroup.Group
	for i := range writes {
		putting.Go(func() error { return put(ctx, t, writes[i:i+1]) })
	}
	return len(writes), putting.Wait()
}

// put stores a batch.
func put(ctx context.Context, t *Tracker, writes []writing) error {
	var puts []kvstore.Put
	for _, w := range writes {
		puts = append(puts, w.put)
	}
	began := time.Now()
	last, err := t.store.PutAll(ctx, puts)
	t.opts.Metrics.wrote(len(puts), err, time.Since(began))
	return t.written(writes, last, err)
}

// written takes the outcome of a batch, whose last message has a revision. It returns nil where the next batch need
// not wait: what others have stored meanwhile is merged.
func (t *Tracker) written(writes []writing, last uint64, err error) error {
	conflict := new(kvstore.ConflictError)
	isConflict, isNews := errors.As(err, &conflict), false
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range writes {
		m := w.machine
		m.inFlight = false
		switch {
		case err == nil:
			t.storedLocked(&w, last-uint64(len(writes)-1-i))
		case isConflict:
			if k := slices.Index(conflict.Keys, w.put.Key); k >= 0 {
				m.revision = max(m.revision, conflict.Revisions[k])
			}
			isNews = isNews || m.revision > w.put.Expect
		default:
			m.resolve(err)
		}
		if m.unstored() {
			t.enqueueLocked(m)
		}
	}
	if isNews {
		return nil
	}
	return err
}

// storedLocked notes that the boot of a machine is stored, as it was when its write began.
func (t *Tracker) storedLocked(w *writing, revision uint64) {
	m := w.machine
	m.revision, m.stored, m.kept = max(m.revision, revision), w.change, w.number
	m.ended = slices.DeleteFunc(m.ended, func(b *v1.Boot) bool { return slices.Contains(w.former, b) })
	leaveLocked(t, m)
	m.unwritten, m.own = !model.IsStranger(m.Host), true
	if m.outcome != nil && m.stored >= m.outcome.change {
		m.resolve(nil)
	}
	if !m.unstored() {
		if m.open != nil && m.open.Ended != nil { // the next step reads it again
			m.open = nil
		}
		if m.gone {
			delete(t.machines, m.Host)
			return
		}
	}
	if m.unwritten {
		t.due.Publish(Due{Host: m.Host})
	}
}

// Run stores boots until ctx ends. While the store is away, they wait. It is called once; Shutdown
// stores the rest.
func (t *Tracker) Run(ctx context.Context, store Store, archive Archive) {
	t.mu.Lock()
	t.store, t.archive = store, archive
	t.mu.Unlock()
	t.due.Publish(Due{})
	var archiving sync.WaitGroup
	defer archiving.Wait()
	archiving.Go(func() { keepFormer(ctx, t) })
	away := awayMin
	for ctx.Err() == nil {
		if pause := pauseOf(t); pause > 0 {
			sleep(ctx, pause, t.wake)
			continue
		}
		_, err := t.write(ctx, false)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if away == awayMin {
				t.opts.Logger.Warn("the store takes no boots of hosts; they wait", "error", err)
			}
			sleep(ctx, away, nil)
			away = min(2*away, awayMax)
		default:
			if away > awayMin {
				t.opts.Logger.Info("the store takes boots of hosts again")
			}
			away = awayMin
		}
	}
}

// idle bounds the wait for a wake-up.
const idle = time.Minute

// pauseOf returns the time that the queued boots can wait for others; 0: they cannot.
func pauseOf(t *Tracker) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, pause := time.Now(), idle
	for _, queue := range [][]waiting{t.soon, t.late} {
		if len(queue) > 0 {
			pause = min(pause, max(0, queue[0].due.Sub(now)))
		}
	}
	return pause
}

// sleep waits for a time, until it is woken, or until ctx ends.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}

// Shutdown stores the rest once Run has returned, for as long as ctx
// lasts. The error says how many boots are lost. Later steps are ignored.
func (t *Tracker) Shutdown(ctx context.Context) error {
	var err error
	for n := 1; n > 0 && err == nil; {
		if err = ctx.Err(); err == nil {
			kept := archiveNext(ctx, t)
			n, err = t.write(ctx, true)
			n += kept
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	left := 0
	for _, m := range t.machines {
		if m.unstored() {
			left++
			m.resolve(errClosed)
		}
	}
	if err != nil && left > 0 {
		return fmt.Errorf("the boots of %d hosts could not be stored: %w", left, err)
	}
	return nil
}

// Pending returns the number of boots that are not stored yet, and that of hosts
// whose status is not up to date.
func (t *Tracker) Pending() (boots, statuses int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.machines {
		if m.unstored() {
			boots++
		}
		if m.unwritten {
			statuses++
		}
	}
	return boots, statuses
}
