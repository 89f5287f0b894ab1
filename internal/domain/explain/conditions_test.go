package explain

import (
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot/labtest"
)

// TestNotCompiled: the condition of a host whose config has no artifact. The config may have
// compiled before its type changed, so the message does not deny it.
func TestNotCompiled(t *testing.T) {
	for phase, want := range map[string]string{
		v1.PhasePending: "is still being compiled",
		v1.PhaseError: "has no compiled result of type ignition; correct the error that its status or glowplug " +
			"validate names",
	} {
		l := labtest.Story()
		l.Configs[0].Compiled, l.Configs[0].Status.Phase = nil, phase
		d := decide.New(decide.Options{Inventory: l.Inventory(t)})
		view := d.View()
		got := ConfigMatched(d, view, view.Host(model.Ref{Namespace: "g10", Name: "builder1"}))
		if got.Met || got.Reason != "NotCompiled" ||
			got.Message != "IgnitionConfig g10/coreos-builder matches by labels and "+want {
			t.Errorf("%s: %+v", phase, got)
		}
	}
}

// TestConditionsNameTheIsland: a host without a config is told that its namespace is an island.
func TestConditionsNameTheIsland(t *testing.T) {
	l := &lab{}
	l.Host("a", "node", "", "10.0.0.1")
	l.Config("b", "for-all", decide.Ignition, sel{Default: true})
	inv := l.Inventory(t)
	labtest.Mark(inv, "a", "island", "true")
	d := decide.New(decide.Options{Inventory: inv})
	view := d.View()
	got := ConfigMatched(d, view, view.Host(model.Ref{Namespace: "a", Name: "node"}))
	if got.Met || !strings.HasSuffix(got.Message, "; the namespace a is an island, so only its own configs reach this host") {
		t.Errorf("%+v", got)
	}
}
