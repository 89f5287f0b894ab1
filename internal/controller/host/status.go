package host

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/progress"
	"glowplug/internal/store/snapshot"
)

// update is one write of a status.
type update struct {
	machine  progress.Machine // zero: its part of the status is up to date
	findings *findings        // nil: there are none
	at       time.Time

	// uid is the UID of the stored host, and transitions are the conditions that change.
	uid         string
	transitions []*metav1.Condition
}

// apply is the storage.UpdateFunc.
func (u *update) apply(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	host := input.(*v1.BareMetalHost)
	u.uid, u.transitions = string(host.UID), nil
	isPending := u.findings.isPending() && u.findings.uid == u.uid
	if u.machine.UID != u.uid && !isPending {
		return nil, nil, progress.ErrGone
	}
	if u.machine.UID == u.uid {
		writeProgress(&host.Status, &u.machine)
	}
	for _, c := range u.findings.conditions(host, isPending, u.at) {
		if meta.SetStatusCondition(&host.Status.Conditions, *c) {
			u.transitions = append(u.transitions, c)
		}
	}
	return host, nil, nil
}

// writeProgress writes the state of a machine's boot into a status.
func writeProgress(s *v1.BareMetalHostStatus, m *progress.Machine) {
	status := progressOf(s)
	p := m.Merge(status)
	if p.Seen.IsZero() { // the machine has sent no request
		return
	}
	// Within one boot, a host does not go back from Provisioned to Provisioning.
	if p.State == v1.StateProvisioning && s.State == v1.StateProvisioned && p.Boots == s.BootCount {
		p.State = s.State
	}
	s.State, s.Rearmed, s.BootCount, s.BootRecord = p.State, p.Rearmed, p.Boots, int64(p.Position)
	s.LastSeen, s.LastScript, s.LastBoot = timeOf(p.Seen), timeOf(p.Script), timeOf(p.Boot)
	if m.Config != (snapshot.Ref{}) && !status.Seen.After(m.Progress.Seen) {
		s.LastConfig, s.LastConfigHash = m.Config.String(), m.Hash
	}
}

// progressOf returns the state of a host's boot by its status.
func progressOf(s *v1.BareMetalHostStatus) snapshot.Progress {
	p := snapshot.Progress{
		State: s.State, Rearmed: s.Rearmed, Boots: s.BootCount, Position: uint64(max(0, s.BootRecord)),
	}
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
