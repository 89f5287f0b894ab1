package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"glowplug/internal/domain/model"
	"glowplug/internal/store/bootlog"
)

const (
	// maxRecords bounds the records of one write into the boot log.
	maxRecords = 10_000
	// recordGap is the least time between the begins of two writes, and stormGap the same in
	// a storm while no machine waits: then each write has the states of many hosts. Each
	// state is durable within a second all the same.
	recordGap = 10 * time.Millisecond
	stormGap  = 400 * time.Millisecond
	// completeTimeout bounds the wait of a machine until its state is durable.
	completeTimeout = 3 * time.Second
	// awayMin and awayMax are the bounds of the pause between two attempts while the log
	// is away. It is short, since machines wait for the log.
	awayMin = 250 * time.Millisecond
	awayMax = time.Second
	// idle bounds the wait for a wake-up.
	idle = time.Minute
	// otherGrace is the time that another server, which may be gone, has to write the status
	// for its own record.
	otherGrace = 10 * time.Second

	// A storm begins with a write of stormLeast records that is one of stormRecords a
	// second. Statuses and events wait until stormLength after the last such write.
	stormRecords = 500
	stormLeast   = 8
	stormLength  = 500 * time.Millisecond
)

// Log is the boot log.
type Log interface {
	// Append returns once the records are durable.
	Append(ctx context.Context, records []bootlog.Record) error
	// Trim removes the messages up to a sequence.
	Trim(ctx context.Context, upTo uint64) error
}

// errClosed is the outcome of a wait for a state when the server stops.
var errClosed = errors.New("the server stops")

// awaitLogged waits until the state of a host is in the boot log.
func (t *Tracker) awaitLogged(ctx context.Context, host *model.Host) error {
	t.mu.Lock()
	m := t.knownLocked(host.Ref, host.UID)
	if m == nil || m.Logged {
		t.mu.Unlock()
		return nil
	}
	if t.closed {
		t.mu.Unlock()
		return errClosed
	}
	if m.outcome == nil {
		m.outcome = &outcome{done: make(chan struct{})}
	}
	waited := m.outcome
	t.urgent = true
	t.mu.Unlock()
	t.wakeWriter()
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	select {
	case <-waited.done:
		return waited.err
	case <-ctx.Done():
		return fmt.Errorf("the state of host %s is not in the boot log yet: %w", host.Ref, ctx.Err())
	}
}

// enqueueLocked queues a machine for the boot log.
func (t *Tracker) enqueueLocked(m *machine) {
	if !m.queued {
		m.queued = true
		t.unlogged = append(t.unlogged, m)
	}
}

// nextRecords removes the next records for the boot log from the queue.
func (t *Tracker) nextRecords() (machines []*machine, records []bootlog.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	since := now.Sub(t.recorded)
	t.urgent, t.recorded = false, now
	most := min(len(t.unlogged), maxRecords)
	machines, records = make([]*machine, 0, most), make([]bootlog.Record, 0, most)
	for len(t.unlogged) > 0 && len(records) < maxRecords {
		m := t.unlogged[0]
		t.unlogged, m.queued = t.unlogged[1:], false
		if m.Logged && !m.carried { // another server has written it, or the host is gone
			continue
		}
		m.carried = false
		machines = append(machines, m)
		records = append(records, bootlog.Record{
			Host: m.Ref, UID: m.UID, Progress: m.Progress, After: m.Progress.Position, Config: m.Config, Hash: m.Hash,
		})
	}
	if len(t.unlogged) == 0 {
		t.unlogged = nil
	}
	if len(records) >= stormLeast && float64(len(records)) >= stormRecords*since.Seconds() {
		t.stormUntil = now.Add(stormLength)
	}
	return machines, records
}

// pause returns the time that the queued states can wait for others; 0: they cannot.
func (t *Tracker) pause() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.urgent || len(t.unlogged) == 0 || len(t.unlogged) >= maxRecords || !now.Before(t.stormUntil) {
		return 0
	}
	return max(0, stormGap-now.Sub(t.recorded))
}

// writeRecords writes the next records into the boot log. n is their number.
func (t *Tracker) writeRecords(ctx context.Context) (n int, err error) {
	machines, records := t.nextRecords()
	if len(records) == 0 {
		return 0, nil
	}
	if err = t.log.Append(ctx, records); err == nil {
		return len(records), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range machines {
		if !m.Logged {
			t.enqueueLocked(m)
			m.resolve(err)
		}
	}
	return 0, err
}

// Run writes states into the boot log until ctx ends. While the log is away, states wait. It is called once; Shutdown
// writes the rest.
func (t *Tracker) Run(ctx context.Context, log Log) {
	t.mu.Lock()
	t.log = log
	t.mu.Unlock()
	t.due.Publish(Due{})
	var trimming sync.WaitGroup
	defer trimming.Wait()
	trimming.Go(func() { t.trim(ctx) })
	t.writeAll(ctx)
}

// writeAll writes states until ctx ends.
func (t *Tracker) writeAll(ctx context.Context) {
	away := awayMin
	for ctx.Err() == nil {
		if pause := t.pause(); pause > 0 {
			sleep(ctx, pause, t.wake)
			continue
		}
		began := time.Now()
		n, err := t.writeRecords(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if away == awayMin {
				t.opts.Logger.Warn("the boot log takes no states of hosts; they wait", "error", err)
			}
			sleep(ctx, away, nil)
			away = min(2*away, awayMax)
		case n == 0:
			sleep(ctx, idle, t.wake)
		default:
			if away > awayMin {
				t.opts.Logger.Info("the boot log takes states of hosts again")
			}
			away = awayMin
			sleep(ctx, recordGap-time.Since(began), nil)
		}
	}
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

// Shutdown writes the rest into the boot log once Run has returned, for as long as ctx
// lasts. The error says how many states are lost. Later steps are ignored.
func (t *Tracker) Shutdown(ctx context.Context) error {
	var err error
	for n := 1; n > 0 && err == nil; {
		if err = ctx.Err(); err == nil {
			n, err = t.writeRecords(ctx)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, m := range t.unlogged {
		m.resolve(errClosed)
	}
	if err != nil && len(t.unlogged) > 0 {
		return fmt.Errorf("%d states of hosts could not be written: %w", len(t.unlogged), err)
	}
	return nil
}

const (
	// trimInterval is the time between two trims of the boot log.
	trimInterval = 2 * time.Second
	// maxLag is the number of messages of the boot log that may wait for one host, whose
	// status cannot be written: its state is then written into the log again.
	maxLag = 1 << 12
)

// trim removes from the boot log the messages that the statuses include, until ctx ends.
func (t *Tracker) trim(ctx context.Context) {
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	trimmed := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if upTo := t.included(); upTo > trimmed {
			if err := t.log.Trim(ctx, upTo); err != nil {
				t.opts.Logger.Debug("the boot log is not trimmed", "error", err)
				continue
			}
			trimmed = upTo
		}
	}
}

// included returns the sequence up to which all messages of the boot log are in the
// status of hosts.
func (t *Tracker) included() (upTo uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	upTo = t.applied
	carry := false
	for _, m := range t.machines {
		if m.oldest == 0 {
			continue
		}
		upTo = min(upTo, m.oldest-1)
		if m.oldest+maxLag < t.applied && !m.carried {
			m.carried, carry = true, true
			t.enqueueLocked(m)
		}
	}
	if carry {
		t.wakeWriter()
	}
	return upTo
}
