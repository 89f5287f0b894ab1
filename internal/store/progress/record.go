package progress

import (
	"context"
	"errors"
	"fmt"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/snapshot"
)

const (
	// maxRecords are written into the boot log at once.
	maxRecords = 10_000
	// recordGap is the least time between the begins of two writes: in a storm each
	// takes the states of many hosts. stormGap is the same in a storm, while no machine
	// waits: every state is durable within a second all the same.
	recordGap = 10 * time.Millisecond
	stormGap  = 400 * time.Millisecond
	// completeTimeout bounds how long a machine waits until its state is durable.
	completeTimeout = 3 * time.Second
	// otherGrace is how long the status of a host is left to the server that wrote
	// the record, which may be gone.
	otherGrace = 10 * time.Second
	// unloggedGrace is how long a status waits until its record is in the boot log.
	unloggedGrace = time.Second

	// rushRecords in a second, and rushLeast in one write, are a storm, in which
	// statuses and events wait; rush is how long one write tells so.
	rushRecords = 500
	rushLeast   = 8
	rush        = 500 * time.Millisecond
)

// Log is the boot log.
type Log interface {
	// Append returns once the records are durable.
	Append(ctx context.Context, records []bootlog.Record) error
	// Trim removes the messages up to a sequence.
	Trim(ctx context.Context, upTo uint64) error
}

// errClosed is told to those who wait for a state when the journal closes.
var errClosed = errors.New("the server stops")

// durable waits until the state of a host is in the boot log.
func (j *Tracker) durable(ctx context.Context, host *snapshot.Host) error {
	j.mu.Lock()
	m := j.machines.byRef[host.Ref]
	if m == nil || m.uid != host.UID || m.logged {
		j.mu.Unlock()
		return nil
	}
	if j.closed {
		j.mu.Unlock()
		return errClosed
	}
	if m.outcome == nil {
		m.outcome = &outcome{done: make(chan struct{})}
	}
	waited := m.outcome
	j.urgent = true
	j.mu.Unlock()
	signal(j.wakeLog)
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	select {
	case <-waited.done:
		return waited.err
	case <-ctx.Done():
		return fmt.Errorf("the state of host %s is not in the boot log yet: %w", host.Ref, ctx.Err())
	}
}

// enqueue has a machine written into the boot log. The caller holds the lock.
func (j *Tracker) enqueue(m *machine) {
	if !m.queued {
		m.queued = true
		j.unlogged = append(j.unlogged, m)
	}
}

// records takes what is to be written into the boot log next.
func (j *Tracker) records() (taken []*machine, records []bootlog.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	since := now.Sub(j.recorded)
	j.urgent, j.recorded = false, now
	most := min(len(j.unlogged), maxRecords)
	taken, records = make([]*machine, 0, most), make([]bootlog.Record, 0, most)
	for len(j.unlogged) > 0 && len(records) < maxRecords {
		m := j.unlogged[0]
		j.unlogged, m.queued = j.unlogged[1:], false
		if m.logged && !m.carried { // another server's record says it, or the host is no more
			continue
		}
		m.carried = false
		taken = append(taken, m)
		records = append(records, bootlog.Record{
			Host: m.ref, UID: m.uid, Progress: m.progress, After: m.progress.Position, Config: m.config, Hash: m.hash,
		})
	}
	if len(j.unlogged) == 0 {
		j.unlogged = nil
	}
	if len(records) >= rushLeast && float64(len(records)) >= rushRecords*since.Seconds() {
		j.rushUntil = now.Add(rush)
	}
	return taken, records
}

// lazy is how long what there is for the boot log can wait for more; 0: it cannot.
func (j *Tracker) lazy() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if j.urgent || len(j.unlogged) == 0 || len(j.unlogged) >= maxRecords || !now.Before(j.rushUntil) {
		return 0
	}
	return max(0, stormGap-now.Sub(j.recorded))
}

// recordStep writes what there is into the boot log, all of it or where it is time
// to. wait is 0 where that was something, and negative where there was nothing.
func (j *Tracker) recordStep(ctx context.Context, all bool) (wait time.Duration, err error) {
	if wait := j.lazy(); wait > 0 && !all {
		return wait, nil
	}
	taken, records := j.records()
	if len(records) == 0 {
		return -1, nil
	}
	if err = j.opts.Log.Append(ctx, records); err == nil {
		return 0, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range taken {
		if !m.logged {
			j.enqueue(m)
			m.resolve(err)
		}
	}
	return 0, err
}

// Take is given every message of the boot log, in order.
func (j *Tracker) Take(batch bootlog.Batch) {
	// The inventory is asked before the lock is taken: who holds that asks us.
	current := make([]*snapshot.Host, len(batch.Records))
	if !batch.Own && j.opts.Host != nil {
		for i := range batch.Records {
			current[i] = j.opts.Host(batch.Records[i].Host)
		}
	}
	now := time.Now()
	due := now
	if batch.Live && !batch.Own {
		due = now.Add(otherGrace)
	}
	j.note(j.wakeHosts, func() (wake bool) {
		j.taken = max(j.taken, batch.Sequence)
		for i := range batch.Records {
			r := &batch.Records[i]
			m, isNews := j.takeRecord(r, current[i], batch)
			if !isNews {
				continue
			}
			var first bool
			m.status, first = j.states.schedule(m.status, r.Host, due)
			wake = first || wake
		}
		return wake
	})
}

// takeRecord folds a record into what is remembered of its machine. isNews is false
// where the host is no more, or its status says what the record does.
func (j *Tracker) takeRecord(
	r *bootlog.Record, current *snapshot.Host, batch bootlog.Batch,
) (m *machine, isNews bool) {
	m = j.machines.byRef[r.Host]
	if m == nil || m.uid != r.UID {
		if batch.Own || current != nil && current.UID != r.UID {
			return nil, false
		}
		m = j.machines.put(machine{ref: r.Host, uid: r.UID, progress: r.Progress, after: r.After, logged: true, config: r.Config, hash: r.Hash})
		m.oldest = batch.Sequence
		return m, true
	}
	before := m.progress.Position
	if r.Progress.Position <= before {
		return m, m.oldest != 0
	}
	adopted := m.fold(r, batch.Own)
	if m.oldest == 0 || adopted && r.After >= before {
		m.oldest = batch.Sequence // it says what all older ones do
	}
	return m, true
}

// fold brings a machine to where a record is that comes after what it includes. It
// reports whether the machine is now as the record says.
func (m *machine) fold(r *bootlog.Record, own bool) (adopted bool) {
	before := m.progress
	switch {
	case own:
		m.progress.Position = r.Progress.Position
		m.after = max(m.after, r.After)
		adopted = decide.Same(m.progress, r.Progress)
	case m.logged:
		m.progress = decide.Fold(before, r.Progress, r.After)
		adopted = decide.Same(m.progress, r.Progress)
	case decide.LaterSeen(r.Progress, before):
		m.progress, adopted = r.Progress, true
	default: // what this server has to write comes after it
		m.progress.Position = r.Progress.Position
	}
	if adopted {
		m.logged = true
		m.resolve(nil)
		if !own {
			m.after, m.config, m.hash = r.After, r.Config, r.Hash
		}
	}
	if m.progress.Boots != before.Boots {
		m.done = 0
	}
	return adopted
}
