package progress

import (
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/bootlog"
	"glowplug/internal/store/snapshot"
)

// Apply applies a message of the boot log. All messages are applied, in order.
func (t *Tracker) Apply(batch bootlog.Batch) {
	// The snapshot is read before the lock is taken: the requests of machines wait for the
	// lock.
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
			m.unwritten = true
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

// applyLocked merges a record into the state of its machine. isNew is false where the host
// is gone, or its status includes the record.
func (t *Tracker) applyLocked(
	r *bootlog.Record, current *snapshot.Host, batch bootlog.Batch,
) (m *machine, isNew bool) {
	if m = t.knownLocked(r.Host, r.UID); m == nil {
		if batch.Own || current != nil && current.UID != r.UID {
			return nil, false
		}
		m = t.addLocked(Machine{
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
		m.oldest = batch.Sequence // it includes all older ones
	}
	return m, true
}

// fold merges a record that is newer than the state of a machine into it. It reports
// whether the state is now that of the record.
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
	default: // the state that this server has yet to write comes after it
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
		m.recorded = 0
	}
	return adopted
}
