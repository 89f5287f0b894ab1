package decide_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot/labtest"
)

// TestExplainAgreesWithDecide asks at random: the decision comes from the
// index, the order of the candidates from the plain evaluation.
func TestExplainAgreesWithDecide(t *testing.T) {
	statuses := map[int]int{}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		maybe := func(values ...string) string {
			if r.IntN(2) == 0 {
				return ""
			}
			return values[r.IntN(len(values))]
		}
		ns := func() string { return []string{"default", "g10", "g11"}[r.IntN(3)] }
		l := &lab{}
		for i := range r.IntN(8) {
			h := l.Host(ns(), fmt.Sprint("h", i), maybe(labtest.MACA, labtest.MACB, labtest.MACC), maybe("10.0.0.1", "10.0.0.2", "10.0.0.3"))
			h.Spec.Labels = map[string]string{"role": maybe("builder", "server")}
			h.Spec.Hostname, h.Spec.SystemUUID = maybe("n1.lab", "n2.lab", "n1.other"), maybe(labtest.UUIDA, labtest.UUIDX)
			h.Spec.Image = maybe("live", "g11/live")
			if r.IntN(3) == 0 {
				h.Spec.BootSources = []string{"10.0.0.0/30"}
			}
		}
		for i := range r.IntN(10) {
			s := sel{Default: r.IntN(5) == 0}
			if v := maybe(labtest.MACA, labtest.MACX); v != "" {
				s.MatchMACs = []string{v}
			}
			if v := maybe("10.0.0.1", "10.0.0.0/24"); v != "" && r.IntN(2) == 0 {
				s.MatchIPs = []string{v}
			}
			if v := maybe("n1", "n2.lab"); v != "" && r.IntN(2) == 0 {
				s.MatchHostnames = []string{v}
			}
			if v := maybe("builder", "server"); v != "" && r.IntN(2) == 0 {
				s.MatchLabels = map[string]string{"role": v}
			}
			if r.IntN(4) == 0 {
				s = sel{}
			}
			name := maybe("builder", "builder-target", "server")
			if name == "" || r.IntN(2) == 0 {
				name = fmt.Sprint("c", i)
			}
			l.Config(ns(), name, []string{v1.TypeIgnition, v1.TypeKickstart}[r.IntN(2)], s)
		}
		unique := map[string]*v1.IgnitionConfig{}
		for _, c := range l.Configs {
			unique[c.Namespace+"/"+c.Name] = c
		}
		l.Configs = l.Configs[:0]
		for _, c := range unique {
			l.Configs = append(l.Configs, c)
		}
		l.Image("g10", "live", maybe("c1", "g11/c2"))
		l.Image("g11", "live", maybe("c1", "g10/c2"))
		inv := l.Inventory(t)
		for range r.IntN(4) {
			labtest.Mark(inv, maybe("g10", "g11", "default"), "island", "true")
		}
		for range 40 {
			d := decide.New(decide.Options{Inventory: inv, Policy: decide.Policy{
				Claims: identity.Mode(r.IntN(3)), Neighbors: identity.NeighborMode(r.IntN(3)),
			}})
			req := ask{
				Endpoint: maybe(decide.Ignition, decide.Kickstart), From: maybe("10.0.0.1", "10.0.0.2", "10.0.0.9"), Neighbor: maybe(labtest.MACA, labtest.MACB,
					labtest.MACX), Former: maybe(labtest.MACX),
				Believed: r.IntN(4) == 0, MAC: maybe(labtest.MACA, labtest.MACB, labtest.MACX), IP: maybe("10.0.0.1", "10.0.0.2"), Hostname: maybe("n1",
					"n2.lab", "n9"),
				UUID: maybe(labtest.UUIDA, labtest.UUIDX), Role: maybe("builder", "server"), Accept: maybe(labtest.V33, labtest.V34, "*/*"), Raw: r.IntN(5) == 0,
			}.Request(t)
			dec := d.Config(req)
			e := explain.Explain(d, req)
			checkExplanation(t, e, &dec, len(l.Configs))
			checkSentence(t, &dec, "")
			if t.Failed() {
				t.Fatalf("seed %d: %+v", seed, req)
			}
			statuses[e.Status]++
		}
	}
	for _, status := range []int{200, 403, 404, 406} {
		if statuses[status] < 100 {
			t.Errorf("status %d was met %d times only: the test proves little", status, statuses[status])
		}
	}
}

// TestAScriptIsAWayToBoot: a host that has a script and no image boots like one that has an image: until it is
// provisioned, within its window, and with a token. Whatever says what it boots names the script.
func TestAScriptIsAWayToBoot(t *testing.T) {
	for name, annotation := range map[string]string{"its own": "", "that of its namespace": "glowplug.dev/ipxe"} {
		var l lab
		h := l.Host("g10", "node", "52:54:00:00:00:01", "192.168.10.1")
		yes := true
		h.Spec.Provisioning = &v1.Provisioning{Token: &yes}
		if annotation == "" {
			h.Spec.IPXE = "boot"
		}
		l.Config("g10", "base", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
		for state, boots := range map[string]bool{"": true, v1.StateBooting: true, v1.StateProvisioned: false} {
			h.Status.State = state
			inv := l.Inventory(t)
			inv.Namespaces().Load(nil)
			inv.Namespaces().Put(labtest.Item("g10", `{"metadata":{"name":"g10","annotations":{"`+annotation+`":"boot"}}}`))
			d := decide.New(decide.Options{Inventory: inv, Tokens: decide.BootKey})
			b := d.Boot(ask{Endpoint: decide.IPXE, From: "192.168.10.1"}.Request(t))
			if b.Local == boots || (b.Script == "boot") != boots || b.Err != nil {
				t.Errorf("%s, state %q: %+v", name, state, b)
			}
			e, failure := explain.Inquire(d, &explain.Inquiry{Type: decide.Ignition, At: labtest.Epoch, Host: "node", Namespace: "g10"})
			if failure != nil || e.Boot.Script != boots || e.Boot.Token != boots ||
				boots && strings.Contains(e.Boot.ScriptName(), "namespace") != (annotation != "") {
				t.Errorf("%s, state %q: explained as %+v", name, state, e.Boot)
			}
			if advice := explain.AdviseHost(d, inv.View().Hosts()[0]); len(advice) > 0 {
				t.Errorf("%s: %v", name, advice)
			}
		}
	}
}

// TestAPendingImageIsNoError: an image that is not ready yet is told from one that is in Error or missing. The machine
// has to wait for all of them.
func TestAPendingImageIsNoError(t *testing.T) {
	l := decide.Rack()
	l.Images[3].Status.ErrorMessage = "its SHA-256 is being computed"
	inv := l.Inventory(t)
	d := decide.New(decide.Options{Inventory: inv})
	for n, c := range map[int]struct {
		awaits          bool
		reason, message string
	}{
		1:  {false, "Ready", "image g10/live can be booted"},
		10: {false, "ImageMissing", "there is no image g10/missing; create the ISCSICdrom or correct the host's spec.image"},
		11: {true, "ImagePending", "image g10/pending is not ready yet: its SHA-256 is being computed"},
		12: {false, "ImageUnavailable", "image g10/broken cannot be booted: no ISO 9660 image"},
	} {
		b := d.Boot(ask{Endpoint: decide.IPXE, From: fmt.Sprintf("192.168.10.%d", n)}.Request(t))
		if b.Awaits != c.awaits || (b.Err == nil) != (n == 1) {
			t.Errorf("h%d: awaits its image: %t, %v", n, b.Awaits, b.Err)
		}
		if got := explain.ImageReady(d, inv.View(), b.Host); got.Reason != c.reason || got.Message != c.message {
			t.Errorf("h%d: %+v", n, got)
		}
	}
}

// An image that cannot be had with a host's own kernel arguments is not booted: the
// host is told why, instead of a script behind which there is nothing.
func TestImageThatCannotBeHad(t *testing.T) {
	var tried []string
	refusal := fault.New(fault.NoMatch, "/boot/grub/grub.cfg: the argument cannot be written")
	images := tryImages(func(image *model.Image, args []string) error {
		tried = append(tried, strings.TrimSpace(image.Ref.String()+" "+strings.Join(args, " ")))
		if len(args) > 0 {
			return fmt.Errorf("trying: %w", refusal)
		}
		return nil
	})
	d := decide.New(decide.Options{Inventory: decide.Rack().Inventory(t), Images: images})
	for n, want := range map[int]string{
		1: "g10/live", 2: "", 6: "", 12: "", 13: "", 14: "default/rescue", 15: "", 16: "g10/live a=1",
		// disks, others' targets and what is not ready are not tried
	} {
		tried = nil
		r := ask{Endpoint: decide.IPXE, From: fmt.Sprintf("192.168.10.%d", n)}.Request(t)
		b := d.Boot(r)
		if got := strings.Join(tried, ", "); got != want {
			t.Errorf("h%d: tried %q; want %q", n, got, want)
		}
		if failed := b.Err != nil && n != 12; failed != (n == 16) {
			t.Errorf("h%d: %v", n, b.Err)
		}
		if n != 16 {
			continue
		}
		if b.Err.Kind != fault.Unavailable || b.Err.Sentence != refusal.Sentence || b.Image == nil ||
			refusal.Kind != fault.NoMatch {
			t.Errorf("%+v", b)
		}
		want := decide.Notice{
			Reason: decide.ReasonImageUnavailable, Host: b.Host, Key: "g10/live " + refusal.Sentence, Message: refusal.Sentence,
		}
		if len(b.Notices) != 1 || b.Notices[0] != want {
			t.Errorf("notices %+v", b.Notices)
		}
		if e := explain.Explain(d, ask{Endpoint: decide.Ignition, From: "192.168.10.16"}.Request(t)); e.Boot == nil ||
			e.Boot.Error != refusal.Sentence {
			t.Errorf("explained as %+v", e.Boot)
		}
	}
}

// tryImages is a function that tries images.
type tryImages func(image *model.Image, args []string) error

func (f tryImages) Prepare(image *model.Image, args []string, _ string) error {
	return f(image, args)
}

// TestConfigsOutsideTheWindow: the decision refuses the config, a boot shows why, and a believed caller,
// who is no machine, receives it.
func TestConfigsOutsideTheWindow(t *testing.T) {
	var l lab
	h := l.Host("g10", "server1", "ac:1f:6b:8a:a7:9c", "192.0.2.10")
	h.Spec.IPXE = "#!ipxe\nexit\n"
	l.Config("g10", "base", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
	h.Spec.Provisioning = &v1.Provisioning{Window: &metav1.Duration{Duration: time.Hour}}
	d := decide.New(decide.Options{Inventory: l.Inventory(t)})
	req := ask{From: "192.0.2.10"}.Request(t)
	for at, isOpen := range map[time.Duration]bool{0: true, time.Hour: true, time.Hour + time.Second: false} {
		req.At = labtest.Epoch.Add(at)
		dec := d.Config(req)
		if (dec.Err == nil) != isOpen {
			t.Errorf("after %s: %v", at, dec.Err)
		}
		if isOpen {
			continue
		}
		if dec.Err.Kind.Status() != 403 || len(dec.Notices) != 1 || dec.Notices[0].Reason != decide.ReasonWindowClosed {
			t.Errorf("%v, %v", dec.Err, dec.Notices)
		}
		boot := *req
		boot.Type = decide.IPXE
		b := d.Boot(&boot)
		if b.Err == nil || b.Err.Kind.Status() != 503 || !strings.Contains(b.Err.Sentence, v1.AnnotationRearm) {
			t.Errorf("boots: %v", b.Err)
		}
		if len(b.Err.Sentence) > 160 {
			t.Errorf("too long for a script: %s", b.Err.Sentence)
		}
		boot.Type = decide.Complete
		if b := d.Boot(&boot); b.Err != nil {
			t.Errorf("a report is refused: %v", b.Err)
		}
		req.Caller.Believed = true
		if dec := d.Config(req); dec.Err != nil {
			t.Errorf("a believed caller: %v", dec.Err)
		}
		req.Caller.Believed = false
		if e := explain.Explain(d, req); e.Status != 403 ||
			strings.HasPrefix(e.Identity, "refused") ||
			!strings.Contains(e.Error, "provisioning window of 1h0m0s ended at") {
			t.Errorf("explain: %d %s", e.Status, e.Error)
		}
	}
}

// TestLossesHoldUpHostsWithoutAConfig: without a config a host gets no final 404, and neither an event nor a condition
// says that there is none.
func TestLossesHoldUpHostsWithoutAConfig(t *testing.T) {
	for kind, lost := range decide.KindsOfLosses {
		var l lab
		l.Host("rack-a", "node", "52:54:00:00:00:01", "192.0.2.1")
		d := decide.Losing(l.Inventory(t), lost)
		dec := d.Config(ask{From: "192.0.2.1", MAC: "52:54:00:00:00:01"}.Request(t))
		status, reason := 503, "ConfigLost"
		if lost.Hosts { // the host is there
			status, reason = 404, "NoConfig"
		}
		view := d.View()
		matched := explain.ConfigMatched(d, view, view.Host(model.Ref{Namespace: "rack-a", Name: "node"}))
		noConfig := slices.ContainsFunc(dec.Notices, func(n decide.Notice) bool { return n.Reason == decide.ReasonNoConfig })
		if dec.Err == nil || dec.Err.Kind.Status() != status || matched.Met || matched.Reason != reason ||
			noConfig != (status == 404) {
			t.Errorf("%s: %v, %+v, notices %v", kind, dec.Err, matched, dec.Notices)
		}
	}
}
