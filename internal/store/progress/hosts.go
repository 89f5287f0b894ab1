package progress

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot"
)

// Reasons of the condition IdentityUnique.
const (
	reasonUnique    = "Unique"
	reasonDuplicate = decide.ReasonDuplicate
)

// Reasons of the condition ConfigReadable.
const (
	reasonReadable   = "Readable"
	reasonUnreadable = "IgnitionTooOld"
)

// hostNews is what is to be written into the status of a host, besides how far it is.
type hostNews struct {
	uid string
	// conflicts is a sentence for each conflict; nil: nothing is new.
	conflicts *[]string
	// unreadable says why the image cannot read the config, "" that it can; nil:
	// nothing is new.
	unreadable *string
}

// add adds what came later.
func (n *hostNews) add(newer hostNews) {
	if newer.conflicts != nil {
		n.conflicts = newer.conflicts
	}
	if newer.unreadable != nil {
		n.unreadable = newer.unreadable
	}
	n.uid = newer.uid
}

// hostStatus is one write of a status: how far the host is, as remembered, and news.
type hostStatus struct {
	machine machine
	news    hostNews
}

// errGone is for news of an object that is no longer the same.
var errGone = errors.New("the object is another one by now")

// update gives the update of a host's status. *transitions are the conditions that
// it changes.
func (w *hostStatus) update(now time.Time, unique bool, transitions *[]*metav1.Condition) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		*transitions = nil
		host := input.(*v1.BareMetalHost)
		if uid := w.uid(); uid != "" && string(host.UID) != uid {
			return nil, nil, errGone
		}
		if w.machine.uid != "" {
			w.machine.updateStatus(&host.Status)
		}
		for _, condition := range []*metav1.Condition{w.news.condition(host, now, unique), w.news.readable(host, now)} {
			if condition != nil && meta.SetStatusCondition(&host.Status.Conditions, *condition) {
				*transitions = append(*transitions, condition)
			}
		}
		return host, nil, nil
	}
}

func (w *hostStatus) uid() string { return cmp.Or(w.machine.uid, w.news.uid) }

// updateStatus writes how far the machine is.
func (m *machine) updateStatus(s *v1.BareMetalHostStatus) {
	status := progressOf(s)
	p := m.with(status)
	if p.Seen.IsZero() { // it has done nothing
		return
	}
	// Within one boot, what came after the config was served is not undone.
	if p.State == v1.StateProvisioning && s.State == v1.StateProvisioned && p.Boots == s.BootCount {
		p.State = s.State
	}
	s.State, s.Rearmed, s.BootCount, s.BootRecord = p.State, p.Rearmed, p.Boots, int64(p.Position)
	s.LastSeen, s.LastScript, s.LastBoot = timeOf(p.Seen), timeOf(p.Script), timeOf(p.Boot)
	if m.config != (snapshot.Ref{}) && !status.Seen.After(m.progress.Seen) {
		s.LastConfig, s.LastConfigHash = m.config.String(), m.hash
	}
}

// progressOf is how far a host is by its status.
func progressOf(s *v1.BareMetalHostStatus) snapshot.Progress {
	p := snapshot.Progress{State: s.State, Rearmed: s.Rearmed, Boots: s.BootCount, Position: uint64(max(0, s.BootRecord))}
	for to, from := range map[*time.Time]*metav1.Time{&p.Seen: s.LastSeen, &p.Script: s.LastScript, &p.Boot: s.LastBoot} {
		if from != nil {
			*to = from.Time
		}
	}
	return p
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// condition is IdentityUnique as it is to be, nil where it stays. It appears
// with the first conflict. One that is left from a conflict which ended while
// nobody looked is corrected when the host is next written.
func (n *hostNews) condition(host *v1.BareMetalHost, now time.Time, unique bool) *metav1.Condition {
	c := &metav1.Condition{
		Type: v1.ConditionIdentityUnique, Status: metav1.ConditionTrue, Reason: reasonUnique,
		Message:            "no other host has one of this host's hardware or IP addresses",
		ObservedGeneration: host.Generation, LastTransitionTime: metav1.Time{Time: now},
	}
	if n.conflicts != nil && len(*n.conflicts) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, reasonDuplicate
		c.Message = clip("this host "+strings.Join(*n.conflicts, "; "), maxMessage)
		return c
	}
	stands := meta.IsStatusConditionFalse(host.Status.Conditions, v1.ConditionIdentityUnique)
	if stands && (n.conflicts != nil || unique) {
		return c
	}
	return nil
}

// readable is ConfigReadable as it is to be, nil where it stays. It appears with the
// first config that cannot be read.
func (n *hostNews) readable(host *v1.BareMetalHost, now time.Time) *metav1.Condition {
	if n.unreadable == nil {
		return nil
	}
	c := &metav1.Condition{
		Type: v1.ConditionConfigReadable, Status: metav1.ConditionTrue, Reason: reasonReadable,
		Message:            "the image of this host reads its config",
		ObservedGeneration: host.Generation, LastTransitionTime: metav1.Time{Time: now},
	}
	switch {
	case *n.unreadable != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonUnreadable, clip(*n.unreadable, maxMessage)
	case !meta.IsStatusConditionFalse(host.Status.Conditions, v1.ConditionConfigReadable):
		return nil
	}
	return c
}
