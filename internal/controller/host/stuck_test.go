package host

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// TestAStuckBootIsAnAlarm: a boot without a further step for the timeout is a condition of its host with the step, an
// event and a metric, which end by themselves when it goes on.
func TestAStuckBootIsAnAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		host := r.add("server1")
		r.observe("server1", "52:54:00:00:00:01")
		alarm := NewAlarm(AlarmOptions{
			Boots: r.Tracker, Inventory: r.inventory, Statuses: r.statuses, Timeout: 30 * time.Minute, Keep: time.Hour,
			Ready: func() bool { return true }, Registerer: prometheus.NewRegistry(),
		})
		condition := func() *metav1.Condition {
			alarm.look(time.Now())
			pass(time.Second)
			status := r.host("server1").Status
			unmet := model.Conditions(0)
			if meta.IsStatusConditionFalse(status.Conditions, v1.ConditionBootProgressing) {
				unmet = model.BootProgressing
			}
			r.observeUnmet("server1", unmet)
			return meta.FindStatusCondition(status.Conditions, v1.ConditionBootProgressing)
		}
		r.ScriptServed(host, "image g10/live", false, nil)
		pass(29 * time.Minute)
		if c := condition(); c != nil {
			t.Fatalf("after 29 minutes: %+v", c)
		}
		pass(2 * time.Minute)
		c := condition()
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "BootStuck" || alarm.stuck.Load() != 1 {
			t.Fatalf("after 31 minutes: %+v", c)
		}
		if want := "boot server1.1 has reached the step Script at"; len(c.Message) < len(want) || c.Message[:len(want)] != want {
			t.Errorf("%s", c.Message)
		}
		pass(time.Minute)
		if r.allEvents()["BootStuck g10/server1"] == nil {
			t.Error("there is no event")
		}
		r.Served(host, config, hash, nil)
		if c := condition(); c == nil || c.Status != metav1.ConditionTrue || alarm.stuck.Load() != 0 {
			t.Fatalf("after another step: %+v", c)
		}
		if err := r.Complete(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if c := condition(); c.Status != metav1.ConditionTrue {
			t.Errorf("after the end: %+v", c)
		}
	})
}

// observeUnmet puts a host with conditions that are False into the inventory.
func (r *rig) observeUnmet(name string, unmet model.Conditions) {
	conditions := ""
	if unmet&model.BootProgressing != 0 {
		conditions = `{"type":"BootProgressing","status":"False"}`
	}
	r.inventory.Hosts().Put(kvstore.Item{Key: "g10/" + name, Revision: 2, Value: []byte(`{"metadata":{"uid":"uid-` + name +
		`"},"status":{"conditions":[` + conditions + `]}}`)})
}

// TestBootsOfHostsThatAreGoneAreRemoved: the newest boot of a host is kept, and that of a host that is gone for a time.
func TestBootsOfHostsThatAreGoneAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		here, gone := r.add("here"), r.add("gone")
		r.observe("here", "52:54:00:00:00:01")
		for _, host := range []*model.Host{here, gone} {
			r.ScriptServed(host, "image g10/live", false, nil)
		}
		pass(2 * time.Second)
		isGone := func(ref model.Ref, _ string) bool { return ref == gone.Ref }
		r.Remove(isGone, time.Now().Add(-time.Hour))
		pass(2 * time.Second)
		if r.bucket.Stored(gone.Ref) == nil {
			t.Error("it was removed at once")
		}
		pass(time.Hour)
		r.Remove(isGone, time.Now().Add(-time.Hour))
		pass(2 * time.Second)
		if r.bucket.Stored(gone.Ref) != nil || r.bucket.Stored(here.Ref) == nil {
			t.Errorf("gone: %v, here: %v", r.bucket.Stored(gone.Ref), r.bucket.Stored(here.Ref))
		}
		r.ScriptServed(gone, "image g10/live", false, nil)
		pass(2 * time.Second)
		if r.bucket.Stored(gone.Ref) == nil {
			t.Error("a boot after the removal is not stored")
		}
	})
}

// TestBootsOfMachinesThatAreNotListedAreRemoved: the boot of an unknown machine is kept as long as the machine is
// listed, also where the server ended before it could remove it.
func TestBootsOfMachinesThatAreNotListedAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		alarm := NewAlarm(AlarmOptions{
			Boots: r.Tracker, Inventory: r.inventory, Keep: 90 * 24 * time.Hour,
			IsListed: func(machine string) bool { return machine == "listed" },
		})
		for _, machine := range []string{"listed", "gone"} {
			r.ScriptServed(model.Stranger(machine), "menu", false, nil)
		}
		has := func(machine string) bool {
			pass(time.Minute)
			return r.bucket.Stored(model.Stranger(machine).Ref) != nil
		}
		if alarm.remove(time.Now()); !has("listed") || !has("gone") {
			t.Error("a boot is removed before its machine can be listed")
		}
		pass(time.Hour)
		if alarm.remove(time.Now()); !has("listed") || has("gone") {
			t.Errorf("after an hour: the listed one %t, the other one %t", has("listed"), has("gone"))
		}
	})
}
