package wording

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/plan"
)

// TestHostStatusText has the text of a host that needs attention, and of one that does not.
func TestHostStatusText(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	quiet := &Status{
		Host: "rack/a", State: "Provisioned", LastSeen: at(2 * time.Hour), LastBoot: at(3 * time.Hour), BootCount: 2,
		Boots: &explain.Boot{Local: true, Reason: "it is provisioned"},
		Gets: &explain.Winner{
			Config: "rack/worker", Tier: "labels", IgnitionVersion: "3.4.0", Hash: "sha256:" + strings.Repeat("ab", 32),
		},
		Answer: 200, LastConfig: "rack/worker", LastConfigHash: "sha256:" + strings.Repeat("ab", 32), Disks: 2,
		Inspected: at(time.Hour), Plan: plan.Safe,
	}
	if got := quiet.Text(now); got != `host:       rack/a
state:      Provisioned, last seen 120m ago
booted:     2 times, last 3h ago
boots now:  its disk: it is provisioned
gets now:   rack/worker by labels, spec 3.4.0, abababababab
got last:   rack/worker, abababababab
disks:      2 disks, reported 60m ago
plan:       Ignition destroys no data

Nothing needs attention.
` {
		t.Errorf("got\n%s", got)
	}
	loud := StatusOf(&v1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "rack"},
		Status: v1.BareMetalHostStatus{State: v1.StateError, LastConfig: "rack/old", LastConfigHash: "sha256:11", Conditions: []metav1.Condition{
			{Type: v1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Shared", Message: "repeats"},
			{Type: v1.ConditionIdentityUnique, Status: metav1.ConditionFalse, Reason: "Shared", Message: "two hosts have its MAC\x1b[2J"},
			{Type: v1.ConditionImageReady, Status: metav1.ConditionTrue},
		}},
	})
	loud.Answer, loud.Changed = 404, true
	got := loud.Text(now)
	for _, want := range []string{
		"state:      Error\n", "boots now:  nothing\n", "gets now:   no config (404)\n",
		"got last:   rack/old, 11: it would get other bytes now\n", "disks:      unknown: the machine has not reported its hardware\n",
		"Needs attention:\n- the last boot failed: the machine got the reason why it cannot boot\n" +
			"- IdentityUnique is False (Shared): two hosts have its MAC\uFFFD[2J\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "repeats") {
		t.Errorf("Ready repeats another condition:\n%s", got)
	}
}

// TestStatusOfPastRequests: a request that was refused some time ago, such as a test with curl, needs no attention.
// Neither does the event of a condition that is True since, and that of a condition that is False is told by it. An
// alarm does.
func TestStatusOfPastRequests(t *testing.T) {
	now := time.Now()
	message := "m"
	event := func(reason string, age time.Duration) v1.Event {
		return v1.Event{Reason: reason, LastTimestamp: metav1.NewTime(now.Add(-age)), Message: message}
	}
	s := &Status{Host: "rack/a"}
	s.Attention = []string{"ConfigReadable is False (IgnitionStops): it stops"}
	mended := event("ImageUnavailable", 2*time.Minute)
	told := event("IgnitionStops", time.Minute)
	mended.Message, told.Message = "of before", "it stops"
	conditions := []metav1.Condition{{
		Type: v1.ConditionImageReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
	}}
	s.Warn([]v1.Event{
		event(decide.ReasonClaimRefused, time.Minute), told, event(decide.ReasonImageUnavailable, 30*time.Second), mended,
	}, conditions, now)
	message = "n"
	s.Warn([]v1.Event{
		event(decide.ReasonClaimRefused, 23*time.Minute), event(decide.ReasonNeighborMismatch, 23*time.Minute),
		event("DownloadFailed", time.Hour),
	}, conditions, now)
	want := `
Needs attention:
- ConfigReadable is False (IgnitionStops): it stops
- event ImageUnavailable, 30s ago: m
- event ClaimRefused, 60s ago: m
- event NeighborMismatch, 23m ago: n
- event DownloadFailed, 60m ago: n

Earlier warnings:
- event ImageUnavailable, 2m ago: of before
- event ClaimRefused, 23m ago: n
`
	if got := s.Text(now); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestOlderIgnitionGotNoOtherConfig: a machine whose Ignition reads an older spec was given other bytes than a current
// one would be. The line names both specs, and does not say that the config is another one now.
func TestOlderIgnitionGotNoOtherConfig(t *testing.T) {
	boot := &v1.Boot{Config: &v1.BootConfig{Name: "rack/worker", Hash: "sha256:33", Version: "3.3.0"}}
	s := &Status{
		LastConfig: "rack/worker", LastConfigHash: "sha256:33", Changed: true, LastBoots: []*Timeline{{Boot: boot}},
		Gets: &explain.Winner{Config: "rack/worker", Hash: "sha256:34", IgnitionVersion: "3.4.0"},
	}
	if got := s.gotText(); got != "rack/worker, 33: spec 3.3.0, and in spec 3.4.0 it would get other bytes" {
		t.Errorf("of another spec: %s", got)
	}
	boot.Config.Version = "3.4.0"
	if got := s.gotText(); got != "rack/worker, 33: it would get other bytes now" {
		t.Errorf("of the same spec: %s", got)
	}
}
