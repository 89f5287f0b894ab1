package decide

import (
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

// TestNotCompiled: the condition of a host whose config has no artifact. The config may have
// compiled before its type changed, so the message does not deny it.
func TestNotCompiled(t *testing.T) {
	for phase, want := range map[string]string{
		v1.PhasePending: "is still being compiled",
		v1.PhaseError: "has no compiled result of type ignition; correct the error that its status or glowplug " +
			"validate names",
	} {
		l := story()
		l.configs[0].Compiled, l.configs[0].Status.Phase = nil, phase
		d := New(Options{Inventory: l.inventory(t)})
		view := d.opts.Inventory.View()
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
	l.host("a", "node", "", "10.0.0.1")
	l.config("b", "for-all", Ignition, sel{Default: true})
	inv := l.inventory(t)
	mark(inv, "a", "island", "true")
	d := New(Options{Inventory: inv})
	view := d.opts.Inventory.View()
	got := ConfigMatched(d, view, view.Host(model.Ref{Namespace: "a", Name: "node"}))
	if got.Met || !strings.HasSuffix(got.Message, "; the namespace a is an island, so only its own configs reach this host") {
		t.Errorf("%+v", got)
	}
}
