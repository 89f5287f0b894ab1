package progress

import (
	"errors"

	"glowplug/internal/store/snapshot"
)

// ErrGone is the error of a write where another object has taken the place of the host,
// or none.
var ErrGone = errors.New("the host is no more")

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

// IsUnwritten reports whether the status of a host lacks something.
func (t *Tracker) IsUnwritten(ref snapshot.Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines.byRef[ref]
	return m != nil && m.unwritten
}

// BeginWrite returns what is remembered of a host whose status lacks something. It is
// written from then on, until EndWrite says what has come of that.
func (t *Tracker) BeginWrite(ref snapshot.Ref) (m Machine, isUnwritten bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.machines.byRef[ref]
	if known == nil || !t.machines.unmark(known) {
		return Machine{}, false
	}
	return known.Machine, true
}

// EndWrite takes the error of the write that BeginWrite began: ErrGone where the host
// is no more.
func (t *Tracker) EndWrite(written *Machine, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines.byRef[written.Ref]
	switch {
	case m == nil || m.UID != written.UID:
	case errors.Is(err, ErrGone):
		t.machines.drop(m)
	case err != nil:
		t.machines.mark(m)
	case written.Progress.Position >= m.Progress.Position:
		m.oldest = 0
	}
}
