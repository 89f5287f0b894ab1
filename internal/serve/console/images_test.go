package console

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
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
		row  imageRow
		want int
	}{
		"an error":                    {imageRow{ISCSICdrom: image(v1.PhaseError, ready)}, 0},
		"an unmet condition":          {imageRow{ISCSICdrom: image(v1.PhaseReady, unmet)}, 0},
		"a config that is not read":   {imageRow{ISCSICdrom: image(v1.PhaseReady), Booted: live.Booted{Unreadable: 1}}, 0},
		"no upload yet":               {imageRow{ISCSICdrom: image(v1.PhasePending, ready)}, 1},
		"nothing that the server set": {imageRow{ISCSICdrom: image("")}, 1},
		"ready":                       {imageRow{ISCSICdrom: image(v1.PhaseReady)}, 2},
	} {
		test.row.Problems = imageFaults(test.row.ISCSICdrom)
		if got := test.row.rank(); got != test.want {
			t.Errorf("%s has the rank %d, want %d", name, got, test.want)
		}
	}
	if got := imageFaults(image(v1.PhaseReady, unmet)); !slices.Equal(got, []string{"UpToDate is False (Failed): no"}) {
		t.Errorf("the faults are %q", got)
	}
}

// TestEditLeavesOtherFields: a form that is sent as it was shown changes nothing, and fields that it does not have
// stay.
func TestEditLeavesOtherFields(t *testing.T) {
	isMenu, without := false, false
	for name, spec := range map[string]v1.ISCSICdromSpec{
		"upload":   {CHAP: &v1.CHAP{SecretName: "login"}, AllowedInitiators: []string{"iqn.1"}, Menu: &isMenu},
		"url":      {URL: "https://h/a.iso", SHA256: "ab", KernelArgs: []string{"a=b", "c d"}, DefaultKernelArgs: &without},
		"file":     {ISOFile: "a.iso", Description: "d", Version: "1", Access: v1.AccessHosts, Transport: v1.TransportHTTP},
		"stream":   {Stream: &v1.StreamImage{Name: "stable", Format: v1.FormatPXE, Update: v1.UpdateFollow, Release: "43"}},
		"external": {External: &v1.ExternalTarget{Portal: "192.0.2.1", IQN: "iqn.2"}, IgnitionConfig: "base"},
	} {
		t.Run(name, func(t *testing.T) {
			image := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Namespace: "rack-a", Name: "a"}, Spec: spec}
			fields := fieldsOfImage(image.Spec)
			get := func(name string) string { return fields[name] }
			patch := func() string { return jsonText(imageEdit(image, get).Request.Body.(map[string]any)["spec"]) }
			if got := patch(); got != "{}" {
				t.Errorf("the patch is %s", got)
			}
			fields["version"] = "2"
			if got := patch(); got != `{"version":"2"}` {
				t.Errorf("the patch is %s", got)
			}
			if c := imageEdit(image, get); c.Request.Resource != kinds.ISCSICdroms || len(c.Apply) != 1 {
				t.Errorf("the change is %+v", c)
			}
		})
	}
}
