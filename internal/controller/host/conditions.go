package host

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// Reasons of the conditions IdentityUnique and ConfigReadable.
const (
	reasonUnique     = "Unique"
	reasonDuplicate  = decide.ReasonDuplicate
	reasonReadable   = "Readable"
	reasonUnreadable = "IgnitionTooOld"
)

// findings are the values of a host's conditions. They are immutable: a change replaces
// them.
type findings struct {
	uid string
	// conflicts has a sentence for each conflict of the host.
	conflicts []string
	// unreadable is the new value of ConfigReadable: why the image of the host cannot read
	// its config, or "" if it can. nil: the stored condition is up to date.
	unreadable *string
	// pending is true until the conditions are written.
	pending bool
}

func (f *findings) isPending() bool { return f != nil && f.pending }

// ConflictChanged takes the hosts that now share a hardware or IP address with a host.
func (w *StatusWriter) ConflictChanged(change snapshot.ConflictChange) {
	var sentences []string
	for _, c := range change.Conflicts {
		sentences = append(sentences, c.String())
	}
	w.changeFindings(change.Host, func(f *findings) { f.conflicts = sentences })
}

// ConfigReadable takes a sentence that says why a host's image cannot read its config; "":
// it can.
func (w *StatusWriter) ConfigReadable(host *snapshot.Host, sentence string) {
	w.changeFindings(host, func(f *findings) { f.unreadable = &sentence })
}

// changeFindings changes a host's findings, and queues the host.
func (w *StatusWriter) changeFindings(host *snapshot.Host, change func(*findings)) {
	w.mu.Lock()
	f := findings{uid: host.UID}
	if before := w.findings[host.Ref]; before != nil && before.uid == host.UID {
		f = *before
	}
	change(&f)
	f.pending = true
	w.findings[host.Ref] = &f
	w.mu.Unlock()
	w.queue.Enqueue(host.Ref)
}

// findingsOf returns the findings of a host; nil where there are none.
func (w *StatusWriter) findingsOf(ref snapshot.Ref) *findings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findings[ref]
}

// pending returns the hosts whose conditions are not written yet.
func (w *StatusWriter) pending() (refs []snapshot.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref, f := range w.findings {
		if f.pending {
			refs = append(refs, ref)
		}
	}
	return refs
}

// forget removes written findings, except for conflicts, which end later. It keeps
// findings that have changed during the write.
func (w *StatusWriter) forget(ref snapshot.Ref, written *findings) {
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

// conditions returns the conditions for a status. A host has a condition once it was False.
// Each write of the status sets IdentityUnique to True if the host has no conflict, since
// the conflict can have ended while no server ran.
func (f *findings) conditions(host *v1.BareMetalHost, isPending bool, now time.Time) (all []*metav1.Condition) {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		all = append(all, &metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: controller.ClipMessage(message),
			ObservedGeneration: host.Generation, LastTransitionTime: metav1.Time{Time: now},
		})
	}
	isFalse := func(kind string) bool { return meta.IsStatusConditionFalse(host.Status.Conditions, kind) }
	switch {
	case f != nil && len(f.conflicts) > 0:
		if isPending {
			set(v1.ConditionIdentityUnique, metav1.ConditionFalse, reasonDuplicate,
				"this host "+strings.Join(f.conflicts, "; "))
		}
	case isFalse(v1.ConditionIdentityUnique):
		set(v1.ConditionIdentityUnique, metav1.ConditionTrue, reasonUnique,
			"no other host has one of this host's hardware or IP addresses")
	}
	switch {
	case !isPending || f.unreadable == nil:
	case *f.unreadable != "":
		set(v1.ConditionConfigReadable, metav1.ConditionFalse, reasonUnreadable, *f.unreadable)
	case isFalse(v1.ConditionConfigReadable):
		set(v1.ConditionConfigReadable, metav1.ConditionTrue, reasonReadable, "the image of this host reads its config")
	}
	return all
}

// conditionEvent returns the event of a condition that changes.
func conditionEvent(
	ref snapshot.Ref, uid string, c *metav1.Condition,
) (object v1.ObjectReference, eventType, reason, message string) {
	object = controller.HostReference(ref, uid)
	if c.Status == metav1.ConditionFalse {
		return object, v1.EventWarning, c.Reason, c.Message
	}
	return object, v1.EventNormal, c.Type, c.Message
}
