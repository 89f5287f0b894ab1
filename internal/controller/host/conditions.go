package host

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot"
)

// Reasons of the condition IdentityUnique.
const (
	reasonUnique    = "Unique"
	reasonDuplicate = decide.ReasonDuplicate
)

// conditionRecognised is stored for its time alone: clients read it as a part of Ready.
const conditionRecognised = "Recognised"

// reasonUnrecognised is the reason of the condition Ready of a host that no machine can be.
const reasonUnrecognised = "NotRecognised"

// findings are the values of a host's conditions. They are immutable: a change replaces
// them.
type findings struct {
	uid string
	// conflicts has a sentence for each conflict that the host had at the last look.
	conflicts []string
	// changed are the other conditions that are not written yet, one of each type.
	changed []explain.Condition
	// pending is true until the conditions are written.
	pending bool
}

func (f *findings) isPending() bool { return f != nil && f.pending }

// of returns the findings of a host, without those of an earlier host of the same name.
func (f *findings) of(host *model.Host) findings {
	if f == nil || f.uid != host.UID {
		return findings{uid: host.UID}
	}
	return *f
}

// changed finds the hosts whose conflicts a change of hosts makes or ends.
func (w *StatusWriter) changed(change snapshot.Change) {
	view, around := w.opts.Inventory.View(), map[model.Ref]bool{}
	switch old, now := change.OldHost, change.Host; {
	case change.Reload:
		around = model.Conflicting(view)
		for _, ref := range w.found(func(f *findings) bool { return len(f.conflicts) > 0 }) {
			around[ref] = true
		}
	case old != nil && now != nil && now.UID == old.UID && now.SameIdentity(old):
		return // most updates are of the status
	default:
		maps.Copy(around, view.Sharing(old))
		maps.Copy(around, view.Sharing(now))
	}
	for _, ref := range slices.SortedFunc(maps.Keys(around), model.Ref.Compare) {
		host := view.Host(ref)
		if host == nil {
			continue
		}
		if now := conflictsOf(view, ref); !slices.Equal(now, w.findingsOf(ref).of(host).conflicts) {
			w.changeFindings(host, func(f *findings) { f.conflicts = now })
		}
	}
}

// conflictsOf returns a sentence for each conflict of a host, which need not be stored.
func conflictsOf(view model.View, ref model.Ref) []string {
	host := view.Host(ref)
	if host == nil {
		return nil
	}
	return explain.Texts(view.Conflicts(host))
}

// Condition takes the new value of a condition of a host.
func (w *StatusWriter) Condition(host *model.Host, c explain.Condition) {
	w.changeFindings(host, func(f *findings) {
		others := slices.DeleteFunc(slices.Clone(f.changed), func(o explain.Condition) bool { return o.Type == c.Type })
		f.changed = append(others, c)
	})
}

// changeFindings changes a host's findings, and queues the host.
func (w *StatusWriter) changeFindings(host *model.Host, change func(*findings)) {
	w.mu.Lock()
	f := w.findings[host.Ref].of(host)
	change(&f)
	f.pending = true
	w.findings[host.Ref] = &f
	w.mu.Unlock()
	w.queue.Enqueue(host.Ref)
}

// findingsOf returns the findings of a host; nil where there are none.
func (w *StatusWriter) findingsOf(ref model.Ref) *findings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findings[ref]
}

// pending returns the hosts whose conditions are not written yet.
func (w *StatusWriter) pending() []model.Ref { return w.found((*findings).isPending) }

// found returns the hosts with findings for which ok is true.
func (w *StatusWriter) found(ok func(*findings) bool) (refs []model.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, f := range w.findings {
		if ok(f) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// forget removes written findings, except for conflicts, which end later. It keeps
// findings that have changed during the write.
func (w *StatusWriter) forget(ref model.Ref, written *findings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !written.isPending() || w.findings[ref] != written {
		return
	}
	if len(written.conflicts) == 0 {
		delete(w.findings, ref)
		return
	}
	w.findings[ref] = &findings{uid: written.uid, conflicts: written.conflicts}
}

// conditions returns the conditions for a status. The store has a condition once it was
// False. Each write of the status sets IdentityUnique to True if the host has no conflict,
// since the conflict can have ended while no server ran.
func (u *update) conditions(host *v1.BareMetalHost, isPending bool) (all []*metav1.Condition) {
	set := func(c explain.Condition) {
		if !c.Met || meta.IsStatusConditionFalse(host.Status.Conditions, c.Type) {
			all = append(all, conditionOf(&c, host.Generation, u.at))
		}
	}
	if len(u.conflicts) == 0 || isPending {
		set(identityUnique(u.conflicts))
	}
	if isPending {
		for _, c := range u.findings.changed {
			set(c)
		}
	}
	return all
}

// conditionOf returns a condition for a status.
func conditionOf(c *explain.Condition, generation int64, now time.Time) *metav1.Condition {
	status := metav1.ConditionFalse
	if c.Met {
		status = metav1.ConditionTrue
	}
	return &metav1.Condition{
		Type: c.Type, Status: status, Reason: c.Reason, Message: controller.ClipMessage(c.Message),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
}

// identityUnique returns the condition of a host with these conflicts.
func identityUnique(conflicts []string) explain.Condition {
	c := explain.Condition{Type: v1.ConditionIdentityUnique, Reason: reasonDuplicate}
	if len(conflicts) > 0 {
		c.Message = "this host " + strings.Join(conflicts, "; ")
		return c
	}
	c.Met, c.Reason, c.Message = true, reasonUnique, "no other host has one of this host's hardware or IP addresses"
	return c
}

// conditionEvent returns the event of a condition that changes.
func conditionEvent(
	ref model.Ref, uid string, c *metav1.Condition,
) (object v1.ObjectReference, eventType, reason, message string) {
	object = controller.HostReference(ref, uid)
	switch {
	case c.Status != metav1.ConditionFalse:
		return object, v1.EventNormal, c.Type, c.Message
	case c.Reason == explain.ReasonImagePending:
		return object, v1.EventNormal, c.Reason, c.Message
	}
	return object, v1.EventWarning, c.Reason, c.Message
}
