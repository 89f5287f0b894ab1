package wording

import (
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
)

// TestWaitingSaysWhereToLook: a machine that waits for a step much longer than its peers did is late, whatever the
// step, and the sentence says where to look; one that waits as they did, or that has no peers, is not.
func TestWaitingSaysWhereToLook(t *testing.T) {
	median := 10.0
	for _, step := range v1.BootSteps[1:] {
		line := &Timeline{
			Boot: &v1.Boot{Image: &v1.BootImage{Name: "rack/coreos"}}, Peers: 3,
			Steps: []Step{{Name: v1.StepScript}, {Name: step, Median: &median}},
		}
		text, isLate := Waiting(line, step, 30700*time.Millisecond)
		want := "The machine has waited for the step " + step + " for 31s. Its 3 peers (image rack/coreos) took 10s (median). It has"
		if !isLate || !strings.HasPrefix(text, want) || !strings.Contains(text, "look at its console") {
			t.Errorf("late: %v, %q", isLate, text)
		}
		if text, isLate := Waiting(line, step, 15*time.Second); isLate || strings.Contains(text, "look at") {
			t.Errorf("as its peers: late: %v, %q", isLate, text)
		}
		line.Steps[1].Median = nil
		if text, isLate := Waiting(line, step, time.Hour); isLate || strings.Contains(text, "peers") {
			t.Errorf("without peers: late: %v, %q", isLate, text)
		}
	}
}
