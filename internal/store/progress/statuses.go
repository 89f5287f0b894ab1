package progress

import (
	"errors"

	"glowplug/internal/store/snapshot"
)

// ErrGone is the error of a write for a host that is gone; another one may have its name.
var ErrGone = errors.New("the host is gone")

// Unwritten returns the hosts whose status is not up to date.
func (t *Tracker) Unwritten() []snapshot.Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	var refs []snapshot.Ref
	for ref, m := range t.machines {
		if m.unwritten {
			refs = append(refs, ref)
		}
	}
	return refs
}

// IsUnwritten reports whether the status of a host is not up to date.
func (t *Tracker) IsUnwritten(ref snapshot.Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines[ref]
	return m != nil && m.unwritten
}

// BeginWrite returns the state of a host whose status is not up to date. EndWrite ends the
// write of that status.
func (t *Tracker) BeginWrite(ref snapshot.Ref) (m Machine, isUnwritten bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.machines[ref]
	if known == nil || !known.unwritten {
		return Machine{}, false
	}
	known.unwritten = false
	return known.Machine, true
}

// EndWrite takes the error of the write that BeginWrite began: ErrGone where the host is
// gone.
func (t *Tracker) EndWrite(written *Machine, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines[written.Ref]
	switch {
	case m == nil || m.UID != written.UID:
	case errors.Is(err, ErrGone):
		t.dropLocked(m)
	case err != nil:
		m.unwritten = true
	case written.Progress.Position >= m.Progress.Position:
		m.oldest = 0
	}
}
