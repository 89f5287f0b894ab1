package progress

import (
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// fewMachines are remembered without a look at which of them can be forgotten.
const fewMachines = 1 << 14

// keptSteps is how many of its events a machine keeps at hand: those of one boot.
const keptSteps = 8

// machine is what is remembered of a host: what it boots next must not hang on
// whether its status has been written yet.
type machine struct {
	ref snapshot.Ref
	uid string
	// progress is how far it is. Its Position is that of the newest record of the
	// boot log that is included.
	progress snapshot.Progress
	// after is the newest position that was known when progress was made.
	after uint64
	// logged is true where the boot log has what decides of progress. queued is true
	// while it is among those that are to be written.
	logged, queued bool
	// carried is true where it is to be written into the boot log once more, so that
	// the old message can be removed.
	carried bool
	// oldest is the sequence of the oldest message of the boot log that its status
	// does not include; 0: it includes all.
	oldest uint64
	// outcome is told to those who wait until it is logged; nil: nobody waits.
	outcome *outcome
	// done are the things of its present boot that are noted once.
	done once
	// config is what it was given last.
	config snapshot.Ref
	hash   string
	// status is its item in the journal's queue, and steps are its newest ones; some may
	// have been removed from there. Looking them up would cost more than the rest of
	// noting a step.
	status *item[snapshot.Ref, struct{}]
	steps  []*stepItem
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

// resolve tells those who wait for a machine.
func (m *machine) resolve(err error) {
	if m.outcome != nil {
		m.outcome.err = err
		close(m.outcome.done)
		m.outcome = nil
	}
}

// with gives how far the machine is by memory and by its status.
func (m *machine) with(status snapshot.Progress) snapshot.Progress {
	p := m.progress
	switch {
	case m.logged:
		p = decide.Fold(status, p, m.after)
	case p.Position < status.Position && decide.LaterSeen(status, p):
		p = status // another server has gone on with it meanwhile
	default:
		p.Position = max(p.Position, status.Position)
	}
	// The time of what came last is in the status a little later.
	if m.progress.Seen.After(p.Seen) {
		p.Seen = m.progress.Seen
	}
	if m.progress.Script.After(p.Script) {
		p.Script = m.progress.Script
	}
	return p
}

// machines remembers hosts. Its owner holds a lock.
type machines struct {
	byRef map[snapshot.Ref]*machine
	// limit is the number at which those that can be forgotten are.
	limit int
}

func newMachines() machines {
	return machines{byRef: make(map[snapshot.Ref]*machine), limit: fewMachines}
}

// progress is how far a host is: by memory until the status has caught up.
func (m *machines) progress(h *snapshot.Host) snapshot.Progress {
	known := m.byRef[h.Ref]
	if known == nil || known.uid != h.UID {
		return h.Progress
	}
	return known.with(h.Progress)
}

// of gives what is remembered of a host, to be changed.
func (m *machines) of(h *snapshot.Host) *machine {
	known := m.byRef[h.Ref]
	if known == nil || known.uid != h.UID {
		known = m.put(machine{ref: h.Ref, uid: h.UID, progress: h.Progress, after: h.Progress.Position, logged: true})
	}
	return known
}

// put remembers a machine in place of one of the same name, which is no more.
func (m *machines) put(known machine) *machine {
	if old := m.byRef[known.ref]; old != nil {
		m.drop(old)
	}
	if len(m.byRef) >= m.limit {
		m.forget()
	}
	m.byRef[known.ref] = &known
	return &known
}

// drop forgets a machine whose host is no more.
func (m *machines) drop(known *machine) {
	delete(m.byRef, known.ref)
	known.logged, known.carried = true, false
	known.resolve(nil)
}

// forget drops the hosts whose status says all there is to know.
func (m *machines) forget() {
	for ref, known := range m.byRef {
		if known.logged && known.oldest == 0 && !known.queued {
			delete(m.byRef, ref)
		}
	}
	m.limit = max(fewMachines, 2*len(m.byRef))
}

// step brings a host forward. began tells of a new boot, changed of anything that
// decides the next one.
func (m *machines) step(h *snapshot.Host, step decide.Step, now time.Time) (known *machine, began, changed bool) {
	known = m.of(h)
	p := known.with(h.Progress)
	known.progress, began = decide.Advance(h, p, step, now)
	if began {
		known.done = 0
	}
	if changed = !decide.Same(p, known.progress); changed {
		known.logged, known.after = false, p.Position
	}
	return known, began, changed
}

// first tells whether a thing happens for the first time in the present boot.
func (m *machines) first(h *snapshot.Host, what once) bool {
	known := m.of(h)
	if known.done&what != 0 {
		return false
	}
	known.done |= what
	return true
}
