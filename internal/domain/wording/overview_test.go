package wording

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// TestOverviewIsOneScreen: what is known of the servers, hosts, images and configs, and what needs attention.
func TestOverviewIsOneScreen(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	member := func(name string, s v1.MemberStatus) v1.Member {
		s.Version, s.Store, s.Started = "1.2.0", "NATS", ago(time.Hour)
		return v1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: s}
	}
	backup := ago(3 * time.Hour)
	o := &Overview{}
	o.AddMembers([]v1.Member{
		member("boot-1", v1.MemberStatus{State: v1.MemberReady, Address: "192.0.2.1", LastSeen: ago(3 * time.Second),
			Leads: []string{"backup", "members"}, LastBackup: &backup, DataFree: new(int64(60 << 30)), ImagesFree: new(int64(0))}),
		member("boot-2", v1.MemberStatus{State: v1.MemberMissing, Address: "192.0.2.2", LastSeen: ago(time.Hour)}),
		member("boot-3", v1.MemberStatus{State: v1.MemberNotReady, StoreLag: 7, Errors: []string{"nats: the NATS server is away"}}),
		member("boot-4", v1.MemberStatus{State: v1.MemberStopped, LastSeen: ago(2 * time.Hour)}),
	}, noon)
	hosts := make([]v1.BareMetalHost, 14)
	for i := range hosts {
		hosts[i].Namespace, hosts[i].Name = "rack-a", fmt.Sprintf("node-%02d", i)
		hosts[i].Status.State = v1.StateProvisioned
		if i > 1 {
			hosts[i].Status.State = v1.StateError
		}
	}
	hosts[0].Status.Conditions = []metav1.Condition{{Type: v1.ConditionBootProgressing, Status: metav1.ConditionFalse,
		Reason: "BootStuck", Message: "boot 7 takes no further step"}}
	o.AddHosts(hosts[:7])
	o.AddHosts(hosts[7:])
	o.AddImages(nil)
	o.AddConfigs([]v1.IgnitionConfig{{ObjectMeta: metav1.ObjectMeta{Namespace: "rack-a", Name: "worker"},
		Status: v1.IgnitionConfigStatus{Phase: v1.PhaseError, ErrorMessage: "line 3:1: unused \x1bkey"}}})
	o.Withhold("secrets", errors.New("ann may not"))
	o.End()
	want := `server boot-1:  Ready, 1.2.0, 192.0.2.1, started 60m ago, 60.0Gi free for data, nothing free for images, ` +
		`leads backup and members
server boot-2:  Missing, 1.2.0, 192.0.2.2, last seen 60m ago
server boot-3:  NotReady, 1.2.0, started 60m ago, 7 changes behind the store
server boot-4:  Stopped, 1.2.0, last seen 120m ago
store:          NATS, not ready
last backup:    3h ago
hosts:          14 in all, 12 Error, 2 Provisioned
images:         none
configs:        1 Error

Needs attention:
- server boot-2: missing, last seen 60m ago: start it, or if it is gone for good kubectl delete member boot-2
- server boot-3: not ready: nats: the NATS server is away
- host rack-a/node-00: BootProgressing is False (BootStuck): boot 7 takes no further step
`
	for i := 2; i < 11; i++ {
		want += fmt.Sprintf("- host rack-a/node-%02d: the last boot failed: the machine got the reason why it cannot boot\n", i)
	}
	want += "- config rack-a/worker: Error: line 3:1: unused \uFFFDkey\n- hosts: 3 more\n\nNot read:\n- secrets: ann may not\n"
	if got := o.Text(noon); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	empty := &Overview{}
	empty.AddHosts(nil)
	empty.End()
	if got, want := empty.Text(noon), "hosts:  none\n\nNothing needs attention.\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
