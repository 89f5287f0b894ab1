package journal

import (
	"time"

	"glowplug/internal/boot"
	"glowplug/internal/inventory"
)

// fewMachines are remembered without a look at which of them can be forgotten.
const fewMachines = 1 << 14

// machine is what is remembered of a host: what it boots next must not hang on
// whether its status has been written yet.
type machine struct {
	uid      string
	progress inventory.Progress
	// told is the revision of the host whose status said all of progress; 0: none
	// has yet. From then on the status counts.
	told uint64
	// done are the things of its present boot that are noted once.
	done once
	// config is what it was given last.
	config inventory.Ref
	hash   string
}

// once are things that a boot does several times and that are noted once.
type once uint8

const (
	loggedIn once = 1 << iota
	readKernel
	readInitrd
)

// machines remembers hosts. Its owner holds a lock.
type machines struct {
	byRef map[inventory.Ref]*machine
	// limit is the number at which those that can be forgotten are.
	limit int
}

func newMachines() machines {
	return machines{byRef: make(map[inventory.Ref]*machine), limit: fewMachines}
}

// progress is how far a host is: by memory until the status has caught up.
func (m *machines) progress(h *inventory.Host) inventory.Progress {
	known := m.byRef[h.Ref]
	if known == nil || known.uid != h.UID {
		return h.Progress
	}
	if known.told == 0 && boot.Told(h.Progress, known.progress) {
		known.told = h.Revision
	}
	if known.told != 0 && h.Revision >= known.told {
		return h.Progress
	}
	return boot.Later(known.progress, h.Progress)
}

// of gives what is remembered of a host, to be changed.
func (m *machines) of(h *inventory.Host) *machine {
	known := m.byRef[h.Ref]
	if known == nil {
		if len(m.byRef) >= m.limit {
			m.forget()
		}
		known = &machine{}
		m.byRef[h.Ref] = known
	}
	if known.uid != h.UID {
		*known = machine{uid: h.UID, progress: h.Progress, told: h.Revision}
	}
	return known
}

// forget drops the hosts whose status says all there is to know.
func (m *machines) forget() {
	for ref, known := range m.byRef {
		if known.told != 0 {
			delete(m.byRef, ref)
		}
	}
	m.limit = max(fewMachines, 2*len(m.byRef))
}

// step brings a host forward. began tells of a new boot, changed of a new state.
func (m *machines) step(h *inventory.Host, step boot.Step, now time.Time) (known *machine, began, changed bool) {
	p := m.progress(h)
	known = m.of(h)
	known.progress, began = boot.Advance(h, p, step, now)
	known.told = 0
	if began {
		known.done = 0
	}
	return known, began, known.progress.State != p.State
}

// first tells whether a thing happens for the first time in the present boot.
func (m *machines) first(h *inventory.Host, what once) bool {
	known := m.of(h)
	if known.done&what != 0 {
		return false
	}
	known.done |= what
	return true
}
