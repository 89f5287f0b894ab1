package progress

import (
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/snapshot"
)

// Apply applies a message of the boot log. All messages are applied, in order.
func (t *Tracker) Apply(batch bootlog.Batch) {
	// The snapshot is asked before the lock is taken, since its own lock is held by those
	// who ask for the progress of a host.
	current := make([]*snapshot.Host, len(batch.Records))
	if !batch.Own && t.opts.Host != nil {
		for i := range batch.Records {
			current[i] = t.opts.Host(batch.Records[i].Host)
		}
	}
	var pause time.Duration
	if batch.Live && !batch.Own {
		pause = otherGrace
	}
	changed := make([]snapshot.Ref, 0, len(batch.Records))
	t.mu.Lock()
	t.applied = max(t.applied, batch.Sequence)
	for i := range batch.Records {
		if m, isNew := t.applyLocked(&batch.Records[i], current[i], batch); m != nil && (isNew || m.unwritten) {
			t.machines.mark(m)
			changed = append(changed, m.Ref)
		}
	}
	statuses := t.statuses
	t.mu.Unlock()
	if statuses == nil {
		return
	}
	for _, ref := range changed {
		statuses.Changed(ref, pause)
	}
}

// applyLocked folds a record into what is remembered of its machine. isNew is false
// where the host is no more, or its status says what the record does.
func (t *Tracker) applyLocked(
	r *bootlog.Record, current *snapshot.Host, batch bootlog.Batch,
) (m *machine, isNew bool) {
	m = t.machines.byRef[r.Host]
	if m == nil || m.UID != r.UID {
		if batch.Own || current != nil && current.UID != r.UID {
			return nil, false
		}
		m = t.machines.put(Machine{
			Ref: r.Host, UID: r.UID, Progress: r.Progress, Logged: true, Config: r.Config, Hash: r.Hash, after: r.After,
		})
		m.oldest = batch.Sequence
		return m, true
	}
	before := m.Progress.Position
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
	before := m.Progress
	switch {
	case own:
		m.Progress.Position = r.Progress.Position
		m.after = max(m.after, r.After)
		adopted = decide.Same(m.Progress, r.Progress)
	case m.Logged:
		m.Progress = decide.Fold(before, r.Progress, r.After)
		adopted = decide.Same(m.Progress, r.Progress)
	case decide.LaterSeen(r.Progress, before):
		m.Progress, adopted = r.Progress, true
	default: // what this server has to write comes after it
		m.Progress.Position = r.Progress.Position
	}
	if adopted {
		m.Logged = true
		m.resolve(nil)
		if !own {
			m.after, m.Config, m.Hash = r.After, r.Config, r.Hash
		}
	}
	if m.Progress.Boots != before.Boots {
		m.done = 0
	}
	return adopted
}
