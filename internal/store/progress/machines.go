package progress

import (
	"errors"
	"maps"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/bootlog"
)

// fewMachines is the number of machines up to which none is forgotten.
const fewMachines = 1 << 14

// Machine is the known state of a host.
type Machine struct {
	Ref model.Ref
	UID string
	// Progress is the state of its boot. Its Position is that of the newest record of the
	// boot log that is included.
	Progress model.Progress
	// Logged is true where the part of Progress that decides the next boot is in the boot
	// log.
	Logged bool
	// Stepped is true where the machine took a step at this server that its status may lack: no
	// position of the boot log says so where the step changes only the time and the config.
	Stepped bool
	// Config is the config that the machine was given last, and Hash that of its bytes.
	Config model.Ref
	Hash   string
	// after is the newest position that was known when Progress was made.
	after uint64
}

// machine is a Machine and its pending writes.
type machine struct {
	Machine
	// queued is true while the machine is in Tracker.unlogged.
	queued bool
	// carried is true where the same state is written into the boot log again, so that the
	// old message can be removed.
	carried bool
	// oldest is the sequence of the oldest message of the boot log that its status does not
	// include; 0: it includes all.
	oldest uint64
	// unwritten is true where its status is not up to date.
	unwritten bool
	// outcome is set while a request waits until the state is in the boot log.
	outcome *outcome
	// recorded are the events that its present boot has had.
	recorded eventSet
}

// outcome is closed once a state is in the boot log, or could not be written.
type outcome struct {
	done chan struct{}
	err  error
}

// eventSet is a set of the events that are recorded once a boot.
type eventSet uint8

const (
	loggedIn eventSet = 1 << iota
	readKernel
	readInitrd
)

// resolve ends the wait for the outcome.
func (m *machine) resolve(err error) {
	if m.outcome != nil {
		m.outcome.err = err
		close(m.outcome.done)
		m.outcome = nil
	}
}

// Merge returns the state of the machine by memory and by its status.
func (m *Machine) Merge(status model.Progress) model.Progress {
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

// knownLocked returns what is known of a host, or nil. Another object of the same name does
// not count.
func (t *Tracker) knownLocked(ref model.Ref, uid string) *machine {
	if m := t.machines[ref]; m != nil && m.UID == uid {
		return m
	}
	return nil
}

// machineLocked returns what is known of a host, and adds it where nothing is.
func (t *Tracker) machineLocked(h *model.Host) *machine {
	if m := t.knownLocked(h.Ref, h.UID); m != nil {
		return m
	}
	return t.addLocked(Machine{Ref: h.Ref, UID: h.UID, Progress: h.Progress, after: h.Progress.Position, Logged: true})
}

// addLocked adds a machine, in place of one of the same name, whose host is gone.
func (t *Tracker) addLocked(added Machine) *machine {
	if old := t.machines[added.Ref]; old != nil {
		t.dropLocked(old)
	}
	if len(t.machines) >= t.limit {
		t.forgetLocked()
	}
	m := &machine{Machine: added}
	t.machines[added.Ref] = m
	return m
}

// dropLocked forgets a machine whose host is gone.
func (t *Tracker) dropLocked(m *machine) {
	delete(t.machines, m.Ref)
	m.Logged, m.carried, m.unwritten = true, false, false
	m.resolve(nil)
}

// forgetLocked drops the machines whose status is up to date.
func (t *Tracker) forgetLocked() {
	maps.DeleteFunc(t.machines, func(_ model.Ref, m *machine) bool {
		return m.Logged && m.oldest == 0 && !m.queued && !m.unwritten
	})
	t.limit = max(fewMachines, 2*len(t.machines))
}

// ErrGone is the error of a write for a host that is gone; another one may have its name.
var ErrGone = errors.New("the host is gone")

// Unwritten returns the hosts whose status is not up to date.
func (t *Tracker) Unwritten() []model.Ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	var refs []model.Ref
	for ref, m := range t.machines {
		if m.unwritten {
			refs = append(refs, ref)
		}
	}
	return refs
}

// IsUnwritten reports whether the status of a host is not up to date.
func (t *Tracker) IsUnwritten(ref model.Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines[ref]
	return m != nil && m.unwritten
}

// BeginWrite returns the state of a host whose status is not up to date. EndWrite ends the
// write of that status.
func (t *Tracker) BeginWrite(ref model.Ref) (m Machine, isUnwritten bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.machines[ref]
	if known == nil || !known.unwritten {
		return Machine{}, false
	}
	m = known.Machine
	known.unwritten, known.Stepped = false, false
	return m, true
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
		m.unwritten, m.Stepped = true, m.Stepped || written.Stepped
	case written.Progress.Position >= m.Progress.Position:
		m.oldest = 0
	}
}

// Apply applies a message of the boot log. All messages are applied, in order.
func (t *Tracker) Apply(batch bootlog.Batch) {
	// The snapshot is read before the lock is taken: the requests of machines wait for the
	// lock.
	current := make([]*model.Host, len(batch.Records))
	if !batch.Own && t.opts.Host != nil {
		for i := range batch.Records {
			current[i] = t.opts.Host(batch.Records[i].Host)
		}
	}
	var pause time.Duration
	if batch.Live && !batch.Own {
		pause = otherGrace
	}
	changed := make([]model.Ref, 0, len(batch.Records))
	t.mu.Lock()
	t.applied = max(t.applied, batch.Sequence)
	for i := range batch.Records {
		if m, isNew := t.applyLocked(&batch.Records[i], current[i], batch); m != nil && (isNew || m.unwritten) {
			m.unwritten = true
			changed = append(changed, m.Ref)
		}
	}
	t.mu.Unlock()
	for _, ref := range changed {
		t.due.Publish(Due{ref, pause})
	}
}

// applyLocked merges a record into the state of its machine. isNew is false where the host
// is gone, or its status includes the record.
func (t *Tracker) applyLocked(
	r *bootlog.Record, current *model.Host, batch bootlog.Batch,
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
