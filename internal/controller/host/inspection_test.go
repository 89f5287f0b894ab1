package host

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

// TestInspections: a report changes the status of its host alone, is written when it says
// something new, and at most every ten seconds.
func TestInspections(t *testing.T) {
	store := newMemory()
	stored := func() *v1.BareMetalHost { return store.objects["/baremetalhosts/rack/node"].(*v1.BareMetalHost) }
	store.objects["/baremetalhosts/rack/node"] = &v1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Namespace: "rack", UID: "u1"},
		Status:     v1.BareMetalHostStatus{State: v1.StateProvisioned, BootCount: 3},
	}
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	i := NewInspections(store)
	i.now = func() time.Time { return now }
	ref := model.Ref{Namespace: "rack", Name: "node"}
	report := func(uid string, ram int64) error {
		return i.Report(t.Context(), &model.Host{Ref: ref, UID: uid}, &v1.HardwareDetails{RAMMebibytes: ram})
	}
	if err := report("u1", 1024); err != nil {
		t.Fatal(err)
	}
	s := stored().Status
	if s.Hardware.RAMMebibytes != 1024 || !s.Inspected.Time.Equal(now) || s.State != v1.StateProvisioned ||
		s.BootCount != 3 {
		t.Errorf("%+v", s)
	}
	now = now.Add(9 * time.Second)
	if err := report("u1", 1024); err != nil || !stored().Status.Inspected.Time.Equal(s.Inspected.Time) {
		t.Errorf("a report of the same changes nothing: %v, %v", err, stored().Status.Inspected)
	}
	if err := report("u1", 2048); !errors.Is(err, ErrTooSoon) || stored().Status.Hardware.RAMMebibytes != 1024 {
		t.Errorf("other hardware nine seconds later: %v", err)
	}
	now = now.Add(time.Second)
	if err := report("u1", 2048); err != nil || stored().Status.Hardware.RAMMebibytes != 2048 {
		t.Errorf("other hardware ten seconds later: %v", err)
	}
	now = now.Add(-time.Hour)
	if err := report("u1", 4096); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
	if err := report("u2", 1); !errors.Is(err, ErrGone) {
		t.Errorf("a host of the same name: %v", err)
	}
	delete(store.objects, "/baremetalhosts/rack/node")
	if err := report("u1", 1); !errors.Is(err, ErrGone) {
		t.Errorf("a host that is deleted: %v", err)
	}
	away := errors.New("away")
	store.fail(away)
	if err := report("u1", 1); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
}
