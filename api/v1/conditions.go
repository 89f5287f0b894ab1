package v1

import (
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of all kinds that have a status, as kstatus reads them
// (sigs.k8s.io/cli-utils/pkg/kstatus): kubectl wait, Flux, Argo CD and helm wait for Ready.
const (
	// ConditionReady is True while the object is used as it is written.
	ConditionReady = "Ready"
	// ConditionStalled is True while the object has an error that only another write mends.
	ConditionStalled = "Stalled"
)

// Conditions of a BareMetalHost.
const (
	// ConditionIdentityUnique is False while another host claims one of this host's
	// hardware or IP addresses.
	ConditionIdentityUnique = "IdentityUnique"
	// ConditionConfigMatched is False while the machine would receive no config.
	ConditionConfigMatched = "ConfigMatched"
	// ConditionImageReady is False while the host's image cannot be booted.
	ConditionImageReady = "ImageReady"
	// ConditionConfigReadable is False while the Ignition version in this host's image can
	// not read the host's config.
	ConditionConfigReadable = "ConfigReadable"
	// ConditionDataPreserved is False while Ignition would destroy data on the known disks of this
	// host. It is no part of Ready: that may be intended.
	ConditionDataPreserved = "DataPreserved"
	// ConditionBootProgressing is False while the boot of the machine takes no further step.
	ConditionBootProgressing = "BootProgressing"
)

// SetReady sets the condition Ready of an object with a phase. isFinal is true where a phase
// Error ends with another write of the object alone, which the condition Stalled says.
func SetReady(conditions *[]metav1.Condition, phase, message string, isFinal bool, generation int64, now time.Time) {
	*conditions = slices.Clone(*conditions) // an older object may have the same
	status := metav1.ConditionUnknown
	switch phase {
	case PhaseReady:
		status = metav1.ConditionTrue
	case PhaseError:
		status = metav1.ConditionFalse
	}
	set := func(kind string, status metav1.ConditionStatus, message string) {
		apimeta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: status, Reason: phase, Message: message,
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
		})
	}
	set(ConditionReady, status, message)
	if phase == PhaseError && isFinal {
		set(ConditionStalled, metav1.ConditionTrue, message)
	} else {
		apimeta.RemoveStatusCondition(conditions, ConditionStalled)
	}
}
