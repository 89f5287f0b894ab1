package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// checked is a Checker over an inventory with the configs g10/worker (role: worker) and
// g10/broken (role: broken, never compiled) and the images g10/live (ready), g10/new
// (pending) and g10/late.
func checked(t *testing.T) (*Checker, *snapshot.Inventory) {
	t.Helper()
	inv := snapshot.New(snapshot.Options{})
	put := func(o kvstore.Observer, key, value string) {
		o.Put(kvstore.Item{Key: key, Revision: 2, Value: []byte(value)})
	}
	put(inv.Configs(), "g10/worker", `{"metadata":{"generation":1},"spec":{"type":"ignition",`+
		`"selector":{"matchLabels":{"role":"worker"}}},"status":{"phase":"Ready"},`+
		`"compiled":{"artifact":"e30=","hash":"sha256:a","ignitionVersion":"3.4.0","generation":1}}`)
	put(inv.Configs(), "g10/broken", `{"metadata":{"generation":1},"spec":{"type":"ignition",`+
		`"selector":{"matchLabels":{"role":"broken"}}},"status":{"phase":"Error"}}`)
	put(inv.Images(), "g10/live", `{"status":{"phase":"Ready"}}`)
	put(inv.Images(), "g10/late", `{"status":{"phase":"Error","errorMessage":"the disk is full"}}`)
	put(inv.Images(), "g10/new", `{"status":{"phase":"Pending"}}`)
	return NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv}), Journal: &diary{},
		Ready: func() bool { return true },
	}), inv
}

func newHost(name, role, image string) *v1.BareMetalHost {
	return &v1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "g10", Name: name, Generation: 3, Labels: map[string]string{"role": role},
		},
		Spec: v1.BareMetalHostSpec{Image: image, BootMACAddress: "52:54:00:00:00:01"},
	}
}

// TestConditionsAreAlwaysPresent: each condition, True or False with the reason, before the
// host has ever booted, and of the generation that is read.
func TestConditionsAreAlwaysPresent(t *testing.T) {
	c, _ := checked(t)
	for _, step := range []struct {
		host *v1.BareMetalHost
		// want has the reason of each condition, with "-" in front where it is False.
		want string
	}{
		{newHost("a", "worker", "live"), "Ready Unique Matched Ready Readable"},
		{newHost("a", "worker", ""), "Ready Unique Matched LocalBoot Readable"},
		{newHost("a", "worker", "localboot"), "Ready Unique Matched LocalBoot Readable"},
		{newHost("a", "nobody", "live"), "-NoConfig Unique -NoConfig Ready Readable"},
		{newHost("a", "broken", "live"), "-NotCompiled Unique -NotCompiled Ready Readable"},
		{newHost("a", "worker", "gone"), "-ImageMissing Unique Matched -ImageMissing Readable"},
		{newHost("a", "worker", "new"), "-ImagePending Unique Matched -ImagePending Readable"},
		{newHost("a", "worker", "late"), "-ImageUnavailable Unique Matched -ImageUnavailable Readable"},
	} {
		c.Complete(step.host)
		var got []string
		for _, name := range []string{
			v1.ConditionReady, v1.ConditionIdentityUnique, v1.ConditionConfigMatched, v1.ConditionImageReady,
			v1.ConditionConfigReadable,
		} {
			condition := meta.FindStatusCondition(step.host.Status.Conditions, name)
			if condition == nil || condition.ObservedGeneration != 3 || condition.Message == "" {
				t.Fatalf("%s: %+v", name, condition)
			}
			reason := condition.Reason
			if condition.Status == metav1.ConditionFalse {
				reason = "-" + reason
			}
			got = append(got, reason)
		}
		if text := strings.Join(got, " "); text != step.want {
			t.Errorf("%v with image %q: %s; want %s", step.host.Labels, step.host.Spec.Image, text, step.want)
		}
	}
}

// lost are the lost objects of a store.
type lost decide.Losses

func (l lost) Lost() decide.Losses { return decide.Losses(l) }

// TestConditionsOfADamagedStore: without the bucket of the configs neither a stored nor a new
// host is said to lack one.
func TestConditionsOfADamagedStore(t *testing.T) {
	inv := snapshot.New(snapshot.Options{})
	c := NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv, Lost: lost{Configs: true}}),
	})
	for what, complete := range map[string]func(*v1.BareMetalHost){"stored": c.Complete, "applied": c.Admit} {
		h := newHost("a", "worker", "")
		complete(h)
		found := meta.FindStatusCondition(h.Status.Conditions, v1.ConditionConfigMatched)
		if found == nil || found.Reason != "ConfigLost" || !strings.Contains(found.Message, "the store has lost objects, and with them perhaps the config") {
			t.Errorf("%s: %+v", what, found)
		}
		if ready := meta.FindStatusCondition(h.Status.Conditions, v1.ConditionReady); ready != nil &&
			(ready.Status != metav1.ConditionFalse || ready.Reason != "ConfigLost" || ready.Message != found.Message) {
			t.Errorf("%s: %+v", what, ready)
		}
	}
	h := newHost("a", "worker", "")
	if warnings := c.HostWarnings(inv.View(), h, nil); len(warnings) > 0 {
		t.Errorf("a write has the warnings %q", warnings)
	}
	if config := c.ConfigOf(h); config != "" {
		t.Errorf("it receives the config %s", config)
	}
}

// TestWarningsOfADamagedStore: a write of a host with an image that the store may have lost has the
// warning that its condition has; a host without an image has none.
func TestWarningsOfADamagedStore(t *testing.T) {
	inv := snapshot.New(snapshot.Options{})
	c := NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv, Lost: lost{Images: true}}),
	})
	h := newHost("a", "worker", "live")
	warnings := c.HostWarnings(inv.View(), h, nil)
	c.Complete(h)
	ready := meta.FindStatusCondition(h.Status.Conditions, v1.ConditionImageReady)
	if ready == nil || !slices.Equal(warnings, []string{"spec.image: " + ready.Message}) ||
		strings.Contains(ready.Message, "exist") {
		t.Errorf("warnings %q, condition %+v", warnings, ready)
	}
	if warnings := c.HostWarnings(inv.View(), newHost("a", "worker", ""), nil); len(warnings) > 0 {
		t.Errorf("a host without an image has the warnings %q", warnings)
	}
}

// TestConditionsFollowTheSpec: what a client reads right after an edit is of the edit, though
// the stored condition is older.
func TestConditionsFollowTheSpec(t *testing.T) {
	c, _ := checked(t)
	h := newHost("a", "nobody", "")
	c.Admit(h)
	if got := h.Status.Conditions; len(got) != 1 || got[0].Type != v1.ConditionConfigMatched ||
		got[0].Status != metav1.ConditionFalse {
		t.Fatalf("stored with a new host: %+v", got)
	}
	h.Labels["role"] = "worker"
	c.Complete(h)
	if !meta.IsStatusConditionTrue(h.Status.Conditions, v1.ConditionReady) {
		t.Errorf("%+v", h.Status.Conditions)
	}
	healthy := newHost("b", "worker", "live")
	if c.Admit(healthy); len(healthy.Status.Conditions) > 0 {
		t.Errorf("stored with a healthy host: %+v", healthy.Status.Conditions)
	}
}

// TestCheckerWritesWhatChanges: a host whose config goes gets one write for that, and one when
// it is back.
func TestCheckerWritesWhatChanges(t *testing.T) {
	c, inv := checked(t)
	log := &conditionLog{}
	c.opts.Journal = log
	put := func(unmet string) {
		inv.Hosts().Put(kvstore.Item{Key: "g10/a", Revision: 5, Value: []byte(
			`{"metadata":{"labels":{"role":"worker"}},"status":{"conditions":[` + unmet + `]}}`)})
	}
	check := func(want ...string) {
		t.Helper()
		for range 2 {
			if _, err := c.reconcile(t.Context(), model.Ref{Namespace: "g10", Name: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(log.all, want) {
			t.Errorf("%q, want %q", log.all, want)
		}
		log.all = nil
	}
	put("")
	check()
	inv.Configs().Delete("g10/worker", 6)
	check("ConfigMatched false")
	put(`{"type":"ConfigMatched","status":"False"}`)
	check()
	inv.Configs().Put(kvstore.Item{Key: "g10/other", Revision: 7, Value: []byte(
		`{"spec":{"type":"kickstart","selector":{"default":true}},"compiled":{"artifact":"e30="}}`)})
	check("ConfigMatched true")
}

// TestHostsOfAConfig: the number of hosts for each config, and the config of each host.
func TestHostsOfAConfig(t *testing.T) {
	c, inv := checked(t)
	for _, name := range []string{"a", "b", "c"} {
		inv.Hosts().Put(kvstore.Item{Key: "g10/" + name, Revision: 5, Value: []byte(
			`{"metadata":{"labels":{"role":"worker"}}}`)})
	}
	if n := c.HostsOf(model.Ref{Namespace: "g10", Name: "worker"}); n != 3 {
		t.Errorf("%d hosts", n)
	}
	if n := c.HostsOf(model.Ref{Namespace: "g10", Name: "broken"}); n != 0 {
		t.Errorf("%d hosts of a config for nobody", n)
	}
	if got := c.ConfigOf(newHost("a", "worker", "")); got != "g10/worker" {
		t.Errorf("%q", got)
	}
}

// conditionLog is the conditions that were written.
type conditionLog struct{ all []string }

func (l *conditionLog) Condition(_ *model.Host, c explain.Condition) {
	l.all = append(l.all, c.Type+map[bool]string{true: " true", false: " false"}[c.Met])
}

// TestHostThatNobodyCanBeIsNotReady: Ready is False for a host that no machine is recognised
// as, with what to set.
func TestHostThatNobodyCanBeIsNotReady(t *testing.T) {
	_, inv := checked(t)
	spec := func(mac, ip, source string) v1.BareMetalHostSpec {
		s := v1.BareMetalHostSpec{BootMACAddress: mac, IP: ip}
		if source != "" {
			s.BootSources = []string{source}
		}
		return s
	}
	const mac, ip, source = "52:54:00:00:00:01", "192.0.2.1", "192.0.2.0/24"
	off := decide.Policy{Neighbors: identity.NeighborsOff}
	for _, c := range []struct {
		name   string
		policy decide.Policy
		spec   v1.BareMetalHostSpec
		remedy string // "": it is Ready
	}{
		{"nothing", decide.Policy{}, spec("", "", ""), "set bootMACAddress, ip or bootSources"},
		{"MAC", decide.Policy{}, spec(mac, "", ""), ""},
		{"address", decide.Policy{}, spec("", ip, ""), ""},
		{"bootSources", decide.Policy{}, spec("", "", source), ""},
		{"all claims are believed", decide.Policy{Claims: identity.Trust}, spec("", "", ""), ""},
		{"MAC without the table", off, spec(mac, "", ""), "set ip or bootSources"},
		{"MAC and bootSources without the table", off, spec(mac, "", source), ""},
		{"bootSources without claims", decide.Policy{Claims: identity.Deny}, spec("", "", source), "set bootMACAddress or ip"},
		{"MAC without claims", decide.Policy{Claims: identity.Deny}, spec(mac, "", ""), ""},
		{"MAC without claims and table", decide.Policy{Claims: identity.Deny, Neighbors: identity.NeighborsOff},
			spec(mac, "", source), "set ip ("},
	} {
		checker := NewChecker(CheckerOptions{
			Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv, Policy: c.policy}), Journal: &diary{},
			Ready: func() bool { return true },
		})
		h := newHost("a", "worker", "")
		h.Spec = c.spec
		checker.Complete(h)
		got := meta.FindStatusCondition(h.Status.Conditions, v1.ConditionReady)
		if isReady := got.Status == metav1.ConditionTrue; isReady != (c.remedy == "") || !strings.Contains(got.Message, c.remedy) ||
			!isReady && got.Reason != "NotRecognised" {
			t.Errorf("%s: %+v; want %q", c.name, got, c.remedy)
		}
	}
}

// TestConditionsNameTheUnknownAddress: where a config with matchIPs can go before the one that
// is shown, ConfigMatched says so.
// TestTimeOfNotRecognised: Ready has the time of the write that took the last identity of a host,
// and of the one that gave it back.
func TestTimeOfNotRecognised(t *testing.T) {
	c, _ := checked(t)
	stored := newHost("a", "worker", "")
	created := time.Now().Add(-time.Hour).Truncate(time.Second)
	stored.CreationTimestamp = metav1.NewTime(created)
	readyOf := func() *metav1.Condition {
		read := stored.DeepCopy()
		c.Complete(read)
		for _, condition := range read.Status.Conditions {
			if condition.Type == conditionRecognised {
				t.Errorf("a client reads %+v", condition)
			}
		}
		return meta.FindStatusCondition(read.Status.Conditions, v1.ConditionReady)
	}
	c.Admit(stored)
	if ready := readyOf(); ready.Status != metav1.ConditionTrue || !ready.LastTransitionTime.Time.Equal(created) {
		t.Errorf("before: %+v", ready)
	}
	for _, step := range []struct {
		mac  string
		want metav1.ConditionStatus
	}{{"", metav1.ConditionFalse}, {"52:54:00:00:00:01", metav1.ConditionTrue}} {
		for i := range stored.Status.Conditions { // some time passes
			stored.Status.Conditions[i].LastTransitionTime = metav1.NewTime(created)
		}
		stored.Spec.BootMACAddress = step.mac
		c.Admit(stored)
		if ready := readyOf(); ready.Status != step.want || time.Since(ready.LastTransitionTime.Time) > time.Minute {
			t.Errorf("with the hardware address %q: %+v", step.mac, ready)
		}
	}
}

func TestConditionsNameTheUnknownAddress(t *testing.T) {
	c, inv := checked(t)
	message := func(role, ip string) string {
		h := newHost("a", role, "")
		h.Spec.IP = ip
		c.Complete(h)
		return meta.FindStatusCondition(h.Status.Conditions, v1.ConditionConfigMatched).Message
	}
	const hint = "; the host's spec has no address, so configs that match by matchIPs are not counted"
	if got := message("worker", ""); strings.Contains(got, hint) {
		t.Errorf("without such a config: %s", got)
	}
	inv.Configs().Put(kvstore.Item{Key: "g10/net", Revision: 7, Value: []byte(
		`{"spec":{"type":"ignition","selector":{"matchIPs":["192.0.2.0/24"]}},"compiled":{"artifact":"e30="}}`)})
	for _, role := range []string{"worker", "nobody"} {
		if got := message(role, ""); !strings.Contains(got, hint) {
			t.Errorf("%s: %s", role, got)
		}
		if got := message(role, "198.51.100.1"); strings.Contains(got, hint) {
			t.Errorf("%s with an address: %s", role, got)
		}
	}
}

// TestAPendingImageIsNoWarningEvent: the event of an image that is not ready yet is no warning, that of one with an
// error is.
func TestAPendingImageIsNoWarningEvent(t *testing.T) {
	c, inv := checked(t)
	for image, want := range map[string]string{"new": v1.EventNormal, "late": v1.EventWarning, "gone": v1.EventWarning} {
		found := explain.ImageReady(c.opts.Decider, inv.View(), model.HostFrom(newHost("a", "worker", image)))
		_, kind, reason, message := conditionEvent(model.Ref{}, "", conditionOf(&found, 1, time.Now()))
		if kind != want || reason != found.Reason || message != found.Message {
			t.Errorf("%s: %s %s %s", image, kind, reason, message)
		}
	}
}

// failing is a fake of the cache of renderings, which has the same outcome for all hosts.
type failing struct {
	reason string
	known  bool
}

func (f *failing) Render(*model.Config, *model.Host, *template.Facts, decide.Asker) (*model.Config,
	*fault.Error) {
	return nil, fault.New(fault.Unavailable, f.reason)
}

func (f *failing) Failure(*model.Config, *model.Host) (reason string, known bool) {
	return f.reason, f.known
}

// TestConditionOfAHostThatIsNotRendered: the host for which its template cannot be rendered has a condition with the
// reason, which outlasts a restart until the template is rendered.
func TestConditionOfAHostThatIsNotRendered(t *testing.T) {
	inv := snapshot.New(snapshot.Options{})
	cache, log := &failing{reason: "there is no rack", known: true}, &conditionLog{}
	c := NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv, Renderer: cache}), Journal: log,
		Ready: func() bool { return true },
	})
	inv.Configs().Put(kvstore.Item{Key: "g10/worker", Revision: 2, Value: []byte(`{"metadata":{"generation":1},"spec":{` +
		`"type":"ignition","selector":{"matchLabels":{"role":"worker"}}},"status":{"phase":"Ready"},` +
		`"compiled":{"artifact":"e30=","hash":"sha256:a","template":true,"generation":1}}`)})
	put := func(conditions string) {
		inv.Hosts().Put(kvstore.Item{Key: "g10/a", Revision: 5, Value: []byte(
			`{"metadata":{"labels":{"role":"worker"}},"status":{"conditions":[` + conditions + `]}}`)})
	}
	reconcile := func() string {
		t.Helper()
		if _, err := c.reconcile(t.Context(), model.Ref{Namespace: "g10", Name: "a"}); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(log.all, ", ")
		log.all = nil
		return said
	}
	put("")
	if got := reconcile(); got != "ConfigMatched false" {
		t.Errorf("the condition that is written: %q", got)
	}
	h := newHost("a", "worker", "")
	c.Complete(h)
	stored := meta.FindStatusCondition(h.Status.Conditions, v1.ConditionConfigMatched)
	if stored == nil || stored.Status != metav1.ConditionFalse || stored.Reason != explain.ReasonNotRendered ||
		!strings.Contains(stored.Message, "cannot be rendered for this host: there is no rack") {
		t.Fatalf("%+v", stored)
	}
	put(`{"type":"ConfigMatched","status":"False","reason":"NotRendered"}`)
	cache.reason, cache.known = "", false // after a restart
	if got := reconcile(); got != "" {
		t.Errorf("before the template is rendered again: %q", got)
	}
	if c.Complete(h); meta.IsStatusConditionTrue(h.Status.Conditions, v1.ConditionConfigMatched) {
		t.Error("the condition is True before the template is rendered again")
	}
	cache.known = true
	if got := reconcile(); got != "ConfigMatched true" {
		t.Errorf("after the template was rendered: %q", got)
	}
	if c.Complete(h); !meta.IsStatusConditionTrue(h.Status.Conditions, v1.ConditionConfigMatched) {
		t.Errorf("%+v", h.Status.Conditions)
	}
}
