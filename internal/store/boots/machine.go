package boots

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// machine is the newest boot of a host, and what of it is not stored or not in the status of the host yet.
type machine struct {
	model.Boot
	// open is the whole boot while a part of it is not stored; nil: the bucket has all of it.
	open *v1.Boot
	// ended are former boots that are not in the history yet, the oldest first. leaving is true while some of them go
	// there.
	ended   []*v1.Boot
	leaving bool
	// kept is the number of the boot in the bucket.
	kept int64
	// revision is that of the last message of the host's key in the bucket; 0: there is none.
	revision uint64
	// changes counts the changes, of which the newest of the bucket is stored. decided is the newest one that decides the
	// next boot, which has to be stored soon.
	changes, stored, decided uint64
	// queue is where the machine waits for a write, nil: it does not, and due the time of that.
	queue *[]waiting
	due   time.Time
	// inFlight is true while a write has the boot.
	inFlight bool
	// gone is true where the boot is removed, since its host is gone.
	gone bool
	// unwritten is true where the status of the host is not up to date, and own where this server has stored the boot.
	unwritten, own bool
	// outcome is set while a request waits until the boot is stored.
	outcome *outcome
}

// outcome is closed once a change of a boot is stored, or could not be.
type outcome struct {
	change uint64
	done   chan struct{}
	err    error
}

// resolve ends the wait for the outcome.
func (m *machine) resolve(err error) {
	if m.outcome != nil {
		m.outcome.err = err
		close(m.outcome.done)
		m.outcome = nil
	}
}

// maxEnded bounds the former boots of one host that wait for the history.
const maxEnded = 8

// begin begins the next boot with a step.
func (m *machine) begin(metrics *Metrics, step decide.Step, at time.Time) {
	m.supersede(metrics, step, at)
	m.Number++
	m.Config, m.Hash, m.Failed = model.Ref{}, "", false
	m.open = newBoot(&m.Boot)
	m.open.Begun = &metav1.MicroTime{Time: at}
}

// supersede ends the present boot, which goes to the history. What was known before the first boot does not, and no
// boot of an unknown machine: anybody on the network can make many.
func (m *machine) supersede(metrics *Metrics, step decide.Step, at time.Time) {
	if m.open.Begun == nil || model.IsStranger(m.Host) {
		return
	}
	if end(m.open, step, m.Progress.State, at) {
		metrics.finished(m.open)
	}
	m.open.Machine = m.Progress.Stored()
	m.ended = append(m.ended, m.open)
	if extra := len(m.ended) - maxEnded; extra > 0 {
		m.ended = m.ended[extra:]
	}
}

// end ends a boot because the next one begins with a step. A machine that boots its disk after it has received its
// config has been installed. It reports whether the boot had not ended before.
func end(b *v1.Boot, step decide.Step, state string, at time.Time) (isNew bool) {
	if b.Outcome == v1.OutcomeBooting || b.Outcome == v1.OutcomeProvisioning {
		b.Outcome = v1.OutcomeAbandoned
		if step == decide.DiskStep && state == v1.StateProvisioning {
			b.Outcome = v1.OutcomeProvisioned
		}
	}
	if isNew = b.Ended == nil; isNew {
		b.Ended = &metav1.MicroTime{Time: at}
	}
	return isNew
}

// newBoot returns the object of a boot.
func newBoot(m *model.Boot) *v1.Boot {
	b := &v1.Boot{Host: m.Host.Name, HostUID: types.UID(m.UID), Number: m.Number}
	b.Namespace, b.Name, b.UID = m.Host.Namespace, Name(m.Host.Name, m.Number), types.UID(Name(m.UID, m.Number))
	if model.IsStranger(m.Host) {
		b.Host, b.UID = "", types.UID(b.Name)
	}
	b.CreationTimestamp = metav1.Now()
	if m.Config != (model.Ref{}) {
		b.Config = &v1.BootConfig{Name: m.Config.String(), Hash: m.Hash}
	}
	return b
}

// note notes a step, the first time that the boot reaches it. It reports whether this is the first time.
func note(b *v1.Boot, name string, at time.Time) (isFirst bool) {
	if name == "" || hasStep(b, name) {
		return false
	}
	b.Steps = append(b.Steps, v1.BootStep{Name: name, Time: metav1.MicroTime{Time: at}})
	return true
}

func hasStep(b *v1.Boot, name string) bool {
	return slices.ContainsFunc(b.Steps, func(s v1.BootStep) bool { return s.Name == name })
}

// merge takes over a boot that another server has stored. The state of the server that has seen the machine later
// counts, in the boot that began later. It reports whether the machine now has the stored boot, and nothing of its own.
func (m *machine) merge(theirs model.Boot, whole func() *v1.Boot) (isTheirs bool) {
	switch {
	case m.changes == m.stored:
		m.Boot, m.open = theirs, nil
		return true
	case theirs.UID != m.UID:
		m.Boot, m.open = theirs, nil
		m.resolve(ErrGone)
		return true
	}
	ours, other := m.open, whole()
	state, isLater := latest(&m.Progress, &theirs.Progress)
	if ours == nil || other == nil { // no more is known than the state
		if isLater {
			m.Boot, m.open = theirs, other
		}
		m.Progress = state
		return isLater && decide.Same(state, theirs.Progress)
	}
	isOurs := begunAfter(ours, other)
	if isOurs && other.Number >= ours.Number {
		end(other, decide.ImageStep, theirs.Progress.State, ours.Begun.Time)
		m.ended = append(m.ended, other)
		m.rename(other.Number + 1)
		state.Boots = theirs.Progress.Boots + 1
	}
	base, rest := other, ours
	if isOurs {
		base, rest = ours, other
	}
	isChanged := overlay(base, rest, isLater == isOurs)
	m.Boot = model.Boot{
		Host: m.Host, UID: m.UID, Number: base.Number, Progress: state, Failed: base.Outcome == v1.OutcomeFailed,
	}
	if base.Config != nil {
		m.Config, m.Hash = refOf(base.Config.Name), base.Config.Hash
	}
	m.open = base
	return !isOurs && !isChanged && decide.Same(state, theirs.Progress)
}

// latest returns the state of a machine that two servers have seen: what the one has that saw it later, which isLater
// says of theirs, but of a provisioning window the use by which more is refused.
func latest(ours, theirs *model.Progress) (state model.Progress, isLater bool) {
	state = *ours
	if isLater = theirs.Seen.After(ours.Seen); isLater {
		state = *theirs
		state.Window = decide.LaterWindow(ours.Window, theirs.Window)
	} else {
		state.Window = decide.LaterWindow(theirs.Window, ours.Window)
	}
	state.Boots = max(ours.Boots, theirs.Boots)
	state.Script, state.Boot = later(ours.Script, theirs.Script), later(ours.Boot, theirs.Boot)
	return state, isLater
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// rename gives the present boot a number.
func (m *machine) rename(number int64) {
	m.Number = number
	m.open.Number, m.open.Name, m.open.UID = number, Name(m.Host.Name, number), types.UID(Name(m.UID, number))
}

// begunAfter reports whether a boot began after another. Stored times have microseconds.
func begunAfter(a, b *v1.Boot) bool {
	return a.Begun != nil && (b.Begun == nil || a.Begun.UnixMicro() > b.Begun.UnixMicro())
}

// overlay adds to a boot the steps of another object that were after it began and, where the machine was seen later in
// that, how the boot has gone on.
func overlay(b, other *v1.Boot, isLater bool) (isChanged bool) {
	for _, step := range other.Steps {
		if b.Begun == nil || step.Time.UnixMicro() >= b.Begun.UnixMicro() {
			isChanged = note(b, step.Name, step.Time.Time) || isChanged
		}
	}
	slices.SortStableFunc(b.Steps, func(x, y v1.BootStep) int { return x.Time.Compare(y.Time.Time) })
	if isLater {
		b.Outcome, b.Reason, b.Ended = other.Outcome, other.Reason, other.Ended
		if other.Config != nil {
			b.Config = other.Config
		}
	}
	return isChanged || isLater
}

// ErrGone is the error of a write for a host that is gone; another one may have its name.
var ErrGone = errors.New("the host is gone")

// knownLocked returns the machine of a host, or nil. Another object of the same name does not count.
func (t *Tracker) knownLocked(ref model.Ref, uid string) *machine {
	if m := t.machines[ref]; m != nil && m.UID == uid {
		return m
	}
	return nil
}

// machineLocked returns the machine of a host, and adds it where nothing is known. A host without a boot begins with
// its status, as after an upgrade. The boots of another host of the same name come before those of this one.
func (t *Tracker) machineLocked(h *model.Host) *machine {
	m := t.machines[h.Ref]
	if m != nil {
		m.gone = false
	}
	switch {
	case m == nil:
		m = &machine{Boot: model.Boot{Host: h.Ref, UID: h.UID, Number: h.Progress.Boots, Progress: h.Progress}}
		t.machines[h.Ref] = m
	case m.UID != h.UID:
		t.openLocked(m)
		m.supersede(t.opts.Metrics, decide.ImageStep, time.Now())
		leaveLocked(t, m)
		m.resolve(ErrGone)
		m.Boot = model.Boot{Host: h.Ref, UID: h.UID, Number: m.Number, Progress: h.Progress}
		m.open, m.unwritten = newBoot(&m.Boot), false
	}
	return m
}

// Remove removes the boots that no step has had since a time, and whose host is gone.
func (t *Tracker) Remove(isGone func(host model.Ref, uid string) bool, before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref, m := range t.machines {
		if !m.gone && !m.unstored() && m.Progress.Seen.Before(before) && isGone(ref, m.UID) {
			m.gone = true
			t.changedLocked(m, true)
		}
	}
}

// Forget removes the boot of an unknown machine that is not listed any more.
func (t *Tracker) Forget(stranger *model.Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines[stranger.Ref]
	switch {
	case m == nil:
	case m.revision == 0 && !m.inFlight:
		m.stored = m.changes // nothing is left to write
		delete(t.machines, stranger.Ref)
	default:
		m.gone = true
		t.changedLocked(m, false)
	}
}

// openLocked returns the whole boot of a machine.
func (t *Tracker) openLocked(m *machine) *v1.Boot {
	if m.open == nil && m.revision > 0 {
		m.open = t.opts.whole(&m.Boot)
	}
	if m.open == nil {
		m.open = newBoot(&m.Boot)
	}
	return m.open
}

// whole returns the stored object of a boot; nil where the bucket has another one.
func (o *Options) whole(m *model.Boot) *v1.Boot {
	if b := o.Stored(m.Host); b != nil && b.Number == m.Number && string(b.HostUID) == m.UID {
		return b
	}
	return nil
}

// Machine is the state of a host's machine.
type Machine struct {
	model.Boot
	// Own is true where this server has stored it.
	Own bool
}

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
	known.unwritten = false
	return Machine{known.Boot, known.own}, true
}

// EndWrite takes the error of the write that BeginWrite began: ErrGone where the host is
// gone.
func (t *Tracker) EndWrite(written *Machine, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.machines[written.Host]
	if m != nil && m.UID == written.UID && err != nil && !errors.Is(err, ErrGone) {
		m.unwritten = true
	}
}

// IsIn reports whether the status of a host has the state of its machine. Times have whole seconds there.
func (m *Machine) IsIn(status *model.Progress) bool {
	p := &m.Progress
	return decide.Same(*p, *status) && isSecond(p.Seen, status.Seen) && isSecond(p.Script, status.Script) &&
		isSecond(p.Boot, status.Boot)
}

func isSecond(a, b time.Time) bool { return a.Unix() == b.Unix() }
