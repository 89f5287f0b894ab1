package progress

import (
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// fewMachines are remembered without a look at which of them can be forgotten.
const fewMachines = 1 << 14

// Machine is what is remembered of a host.
type Machine struct {
	Ref snapshot.Ref
	UID string
	// Progress is how far it is. Its Position is that of the newest record of the boot
	// log that is included.
	Progress snapshot.Progress
	// Logged is true where the boot log has what decides of Progress.
	Logged bool
	// Config is the config that it was given last, and Hash that of its bytes.
	Config snapshot.Ref
	Hash   string
	// after is the newest position that was known when Progress was made.
	after uint64
}

// machine is a Machine and the writes that are due for it.
type machine struct {
	Machine
	// queued is true while it is among those that are to be written into the boot log.
	queued bool
	// carried is true where it is to be written into the boot log once more, so that
	// the old message can be removed.
	carried bool
	// oldest is the sequence of the oldest message of the boot log that its status
	// does not include; 0: it includes all.
	oldest uint64
	// unwritten is true where its status lacks something.
	unwritten bool
	// outcome is what those wait for who wait until it is logged; nil: nobody does.
	outcome *outcome
	// done are the things of its present boot that are noted once.
	done once
}

// outcome is closed once a state is in the boot log, or could not be written.
type outcome struct {
	done chan struct{}
	err  error
}

// once are things that a boot does several times and that are noted once.
type once uint8

const (
	loggedIn once = 1 << iota
	readKernel
	readInitrd
)

// resolve ends the wait of those who wait for a machine.
func (m *machine) resolve(err error) {
	if m.outcome != nil {
		m.outcome.err = err
		close(m.outcome.done)
		m.outcome = nil
	}
}

// Merge returns how far the machine is by memory and by its status.
func (m *Machine) Merge(status snapshot.Progress) snapshot.Progress {
	p := m.Progress
	switch {
	case m.Logged:
		p = decide.Fold(status, p, m.after)
	case p.Position < status.Position && decide.LaterSeen(status, p):
		p = status // another server has gone on with it meanwhile
	default:
		p.Position = max(p.Position, status.Position)
	}
	// The time of what came last is in the status a little later.
	if m.Progress.Seen.After(p.Seen) {
		p.Seen = m.Progress.Seen
	}
	if m.Progress.Script.After(p.Script) {
		p.Script = m.Progress.Script
	}
	return p
}

// machines remembers hosts. Its owner holds a lock.
type machines struct {
	byRef map[snapshot.Ref]*machine
	// limit is the number at which those that can be forgotten are.
	limit int
	// unwritten is the number of those whose status lacks something.
	unwritten int
}

func newMachines() machines {
	return machines{byRef: make(map[snapshot.Ref]*machine), limit: fewMachines}
}

// progress returns how far a host is: by memory until the status has caught up.
func (m *machines) progress(h *snapshot.Host) snapshot.Progress {
	known := m.byRef[h.Ref]
	if known == nil || known.UID != h.UID {
		return h.Progress
	}
	return known.Merge(h.Progress)
}

// of returns what is remembered of a host, to be changed.
func (m *machines) of(h *snapshot.Host) *machine {
	known := m.byRef[h.Ref]
	if known == nil || known.UID != h.UID {
		known = m.put(Machine{Ref: h.Ref, UID: h.UID, Progress: h.Progress, after: h.Progress.Position, Logged: true})
	}
	return known
}

// put remembers a machine in place of one of the same name, which is no more.
func (m *machines) put(known Machine) *machine {
	if old := m.byRef[known.Ref]; old != nil {
		m.drop(old)
	}
	if len(m.byRef) >= m.limit {
		m.forget()
	}
	added := &machine{Machine: known}
	m.byRef[known.Ref] = added
	return added
}

// mark notes that the status of a machine lacks something, and reports whether it did
// not before.
func (m *machines) mark(known *machine) (first bool) {
	if first = !known.unwritten; first {
		known.unwritten = true
		m.unwritten++
	}
	return first
}

// unmark notes that a status is being written, and reports whether it lacked something.
func (m *machines) unmark(known *machine) (wasMarked bool) {
	if wasMarked = known.unwritten; wasMarked {
		known.unwritten = false
		m.unwritten--
	}
	return wasMarked
}

// drop forgets a machine whose host is no more.
func (m *machines) drop(known *machine) {
	delete(m.byRef, known.Ref)
	known.Logged, known.carried = true, false
	m.unmark(known)
	known.resolve(nil)
}

// forget drops the hosts whose status says all there is to know.
func (m *machines) forget() {
	for ref, known := range m.byRef {
		if known.Logged && known.oldest == 0 && !known.queued && !known.unwritten {
			delete(m.byRef, ref)
		}
	}
	m.limit = max(fewMachines, 2*len(m.byRef))
}

// step brings a host forward. began is true where a new boot has begun, changed where
// anything has changed that decides the next one.
func (m *machines) step(h *snapshot.Host, step decide.Step, now time.Time) (known *machine, began, changed bool) {
	known = m.of(h)
	p := known.Merge(h.Progress)
	known.Progress, began = decide.Advance(h, p, step, now)
	if began {
		known.done = 0
	}
	if changed = !decide.Same(p, known.Progress); changed {
		known.Logged, known.after = false, p.Position
	}
	return known, began, changed
}

// isFirst reports whether a thing happens for the first time in the present boot.
func (m *machines) isFirst(h *snapshot.Host, what once) bool {
	known := m.of(h)
	if known.done&what != 0 {
		return false
	}
	known.done |= what
	return true
}
