package host

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/model"
)

// Admit stores the conditions that are False with a host whose spec is new, so that they need
// no further write. It replaces nothing else in the status.
func (c *Checker) Admit(host *v1.BareMetalHost) {
	now := time.Now()
	for _, found := range append(c.conditions(host), c.recognised(host)) {
		stored := meta.FindStatusCondition(host.Status.Conditions, found.Type)
		if !found.Met || stored != nil {
			meta.SetStatusCondition(&host.Status.Conditions, *conditionOf(&found, host.Generation, now))
		}
	}
}

// Complete sets all conditions of a host that a client reads, as they are now: they depend on
// other objects, and most hosts have none of them in the store. A condition that becomes True
// or False is written by the Checker, so that watches see it; a change of a message is not.
func (c *Checker) Complete(host *v1.BareMetalHost) {
	if host.Name == "" { // a bookmark of a watch
		return
	}
	now := time.Now()
	ready := explain.Condition{
		Type: v1.ConditionReady, Met: true, Reason: "Ready",
		Message: "all conditions of this host are True; glowplug explain shows the answer to its machine",
	}
	var all []metav1.Condition
	since := host.CreationTimestamp.Time
	if found := c.recognised(host); !found.Met {
		ready.Met, ready.Reason, ready.Message = false, found.Reason, found.Message
	}
	if stored := meta.FindStatusCondition(host.Status.Conditions, conditionRecognised); stored != nil {
		since = stored.LastTransitionTime.Time
	}
	for _, found := range c.conditions(host) {
		at := host.CreationTimestamp.Time
		if stored := meta.FindStatusCondition(host.Status.Conditions, found.Type); stored != nil {
			at = stored.LastTransitionTime.Time
			if (stored.Status == metav1.ConditionTrue) != found.Met { // its write is pending
				at = now
			}
		} else if !found.Met {
			at = now
		}
		switch {
		case found.Met || !ready.Met:
		case found.Type == v1.ConditionDataPreserved: // which may be intended
			ready.Message = "all conditions of this host but DataPreserved are True; glowplug plan shows what is destroyed"
		default:
			ready.Met, ready.Reason, ready.Message = false, found.Reason, found.Message
		}
		if at.After(since) {
			since = at
		}
		all = append(all, *conditionOf(&found, host.Generation, at))
	}
	host.Status.Conditions = append([]metav1.Condition{*conditionOf(&ready, host.Generation, since)}, all...)
}

// recognised returns whether a machine can be recognised as a host.
func (c *Checker) recognised(host *v1.BareMetalHost) explain.Condition {
	found := explain.Condition{Type: conditionRecognised, Met: true, Reason: conditionRecognised}
	if h := model.HostFrom(host); h != nil {
		if reason := decide.Unrecognised(c.opts.Decider, h); reason != "" {
			found.Met, found.Reason, found.Message = false, reasonUnrecognised, reason
		}
	}
	return found
}

// conditions returns the conditions of a host, which need not be stored, but Ready.
func (c *Checker) conditions(host *v1.BareMetalHost) []explain.Condition {
	h := model.HostFrom(host)
	if h == nil { // another program wrote it, and machines are not served by it
		return nil
	}
	view := c.opts.Inventory.View()
	readable := explain.ConfigReadable(explain.SkewOf(c.opts.Decider, h))
	// The rendering of a template is not known here. Its condition is the stored one.
	if config, _ := c.opts.Decider.ConfigOf(view, h); config != nil && config.Template && readable.Met {
		if stored, isStored := storedCondition(host, readable.Type); isStored && !stored.Met {
			readable = stored
		}
	}
	matched := explain.ConfigMatched(c.opts.Decider, view, h)
	if stored, _ := storedCondition(host, matched.Type); matched.Unknown && stored.Reason == explain.ReasonNotRendered {
		matched = stored
	}
	all := []explain.Condition{
		identityUnique(explain.Texts(view.Conflicts(h))), matched, explain.ImageReady(c.opts.Decider, view, h),
		readable,
	}
	// A plan takes too long for each read, and a boot is stuck after some time: these conditions are the stored ones.
	for _, kind := range []string{v1.ConditionDataPreserved, v1.ConditionBootProgressing} {
		if stored, isStored := storedCondition(host, kind); isStored {
			all = append(all, stored)
		}
	}
	return all
}

// storedCondition returns a condition as the status of a host has it.
func storedCondition(host *v1.BareMetalHost, kind string) (found explain.Condition, isStored bool) {
	stored := meta.FindStatusCondition(host.Status.Conditions, kind)
	if stored == nil {
		return found, false
	}
	return explain.Condition{
		Type: kind, Kind: model.ConditionOf(kind), Met: stored.Status == metav1.ConditionTrue,
		Reason: stored.Reason, Message: stored.Message,
	}, true
}
