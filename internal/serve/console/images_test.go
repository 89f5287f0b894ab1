package console

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/limit"
	"glowplug/internal/serve/console/live"
)

// TestTransferHasARateAndATimeLeft: from the second look on, and it says when nothing arrives any more.
func TestTransferHasARateAndATimeLeft(t *testing.T) {
	s := &Server{transfers: limit.NewTable[string](10, func() *progress { return &progress{} })}
	begin := time.Now()
	for _, look := range []struct {
		after    time.Duration
		received int64
		want     transfer
	}{
		{0, 100, transfer{}},
		{time.Second, 200, transfer{Rate: 100, Left: 8 * time.Second}},
		{5 * time.Second, 600, transfer{Rate: 100, Left: 4 * time.Second}},
		{10 * time.Second, 600, transfer{Rate: 100, Left: 4 * time.Second}}, // its progress is not written that often
		{35 * time.Second, 600, transfer{Rate: 100, Still: 30 * time.Second}},
		{36 * time.Second, 50, transfer{}}, // it begins again
		{38 * time.Second, 250, transfer{Rate: 100, Left: 7500 * time.Millisecond}},
	} {
		got := transfer{Received: look.received, Total: 1000}
		s.measure(&got, "image", begin.Add(look.after))
		look.want.Received, look.want.Total = look.received, 1000
		if got != look.want {
			t.Errorf("after %s: %+v, want %+v", look.after, got, look.want)
		}
	}
}

// TestImagesThatFailComeFirst: an error, a condition that is not met and hosts that cannot read their config come
// before what is not ready yet, and that before the others.
func TestImagesThatFailComeFirst(t *testing.T) {
	image := func(phase string, conditions ...metav1.Condition) *v1.ISCSICdrom {
		return &v1.ISCSICdrom{Status: v1.ISCSICdromStatus{Phase: phase, ErrorMessage: "why", Conditions: conditions}}
	}
	unmet := metav1.Condition{Type: v1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: "Failed", Message: "no"}
	ready := metav1.Condition{Type: v1.ConditionReady, Status: metav1.ConditionFalse, Message: "why"}
	for name, test := range map[string]struct {
		image      *v1.ISCSICdrom
		unreadable bool
		want       int
	}{
		"an error":                    {image(v1.PhaseError, ready), false, 0},
		"an unmet condition":          {image(v1.PhaseReady, unmet), false, 0},
		"a config that is not read":   {image(v1.PhaseReady), true, 0},
		"no upload yet":               {image(v1.PhasePending, ready), false, 1},
		"nothing that the server set": {image(""), false, 1},
		"ready":                       {image(v1.PhaseReady), false, 2},
	} {
		ref := model.Ref{Namespace: test.image.Namespace, Name: test.image.Name}
		row := rowOf(test.image, map[model.Ref][]live.Cell{ref: {{Unreadable: test.unreadable}}})
		if got := row.rank(); got != test.want {
			t.Errorf("%s has the rank %d, want %d", name, got, test.want)
		}
	}
	got := rowOf(image(v1.PhaseReady, unmet), nil).Problems
	if !slices.Equal(got, []string{"UpToDate is False (Failed): no"}) {
		t.Errorf("the faults are %q", got)
	}
}
