package progress

import (
	"time"

	"glowplug/internal/store/snapshot"
)

// Unwritten returns the hosts whose status lacks something.
func (t *Tracker) Unwritten() []snapshot.Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	refs := make([]snapshot.Ref, 0, t.machines.unwritten)
	for ref, m := range t.machines.byRef {
		if m.unwritten {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Due returns the time until the status of a host is to be written; isUnwritten is
// false where it lacks nothing.
func (t *Tracker) Due(ref snapshot.Ref) (wait time.Duration, isUnwritten bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines.byRef[ref]
	if m == nil || !m.unwritten {
		return 0, false
	}
	return time.Until(m.due), true
}

// BeginWrite returns what is remembered of a host whose status lacks something. It is
// written from then on, until EndWrite says what has come of that.
func (t *Tracker) BeginWrite(ref snapshot.Ref) (m Machine, isUnwritten bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.machines.byRef[ref]
	if known == nil || !known.unwritten {
		return Machine{}, false
	}
	known.unwritten = false
	t.machines.unwritten--
	return known.Machine, true
}

// Result is what has come of the write of a status.
type Result int

// Results of a write: the status says all of the machine, it does not, or the host is
// no more.
const (
	Written Result = iota
	Failed
	Gone
)

// EndWrite notes the result of the write that BeginWrite began.
func (t *Tracker) EndWrite(written *Machine, result Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines.byRef[written.Ref]
	if m == nil || m.UID != written.UID {
		return
	}
	switch result {
	case Written:
		m.written = time.Now()
		if written.Progress.Position >= m.Progress.Position {
			m.oldest = 0
		}
	case Failed:
		t.markLocked(m, time.Now())
	case Gone:
		t.machines.drop(m)
	}
}
