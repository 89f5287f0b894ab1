package decide

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// losing decides while the store has lost some objects.
func losing(inv *snapshot.Inventory, lost Lost) *Decider {
	return New(Options{Inventory: inv, Lost: lostObjects(lost)})
}

type lostObjects Lost

func (l lostObjects) Lost() Lost { return Lost(l) }

// A machine gets no final answer that an object which the store has lost could have
// changed; every other machine gets its own.
func TestLostObjectsHoldUpOnlyWhatTheyCouldHaveChanged(t *testing.T) {
	var l lab
	l.host("rack-a", "known", "52:54:00:00:00:01", "192.0.2.1", "role", "worker")
	l.host("rack-b", "plain", "52:54:00:00:00:02", "192.0.2.2")
	l.host("rack-a", "own", "52:54:00:00:00:03", "192.0.2.3")
	l.config("rack-a", "worker", v1.TypeIgnition,
		v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "worker"}})
	l.config("default", "everybody", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
	l.config("rack-a", "named", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchMACs: []string{"52:54:00:00:00:03"}})
	inv := l.inventory(t)
	known := ask{from: "192.0.2.1", mac: "52:54:00:00:00:01"}
	plain := ask{from: "192.0.2.2"}
	own := ask{from: "192.0.2.3"}
	stranger := ask{from: "192.0.2.99"}
	config := func(namespace, name, selector string) []LostConfig {
		lost := LostConfig{Ref: snapshot.Ref{Namespace: namespace, Name: name}}
		if selector != "" {
			lost.Outline = snapshot.ReadOutline(namespace+"/"+name, snapshot.Outline([]byte(
				`{"metadata":{"creationTimestamp":"2025-01-01T00:00:00Z"},"spec":{"type":"ignition","config":"{}","selector":`+
					selector+`}}`)))
			if lost.Outline == nil {
				t.Fatal("the outline cannot be read")
			}
		}
		return []LostConfig{lost}
	}
	for name, c := range map[string]struct {
		lost   Lost
		ask    ask
		status int
	}{
		"a host is lost, and a stranger may be it":                {Lost{Hosts: []string{"x/y"}}, stranger, 503},
		"a host is lost, and another one is known":                {Lost{Hosts: []string{"x/y"}}, known, 200},
		"a host is lost, and another one gets the config for all": {Lost{Hosts: []string{"x/y"}}, plain, 200},
		"a host is lost, and its card asks with another's address": {Lost{Hosts: []string{"x/y"}}, ask{from: "192.0.2.2",
			mac: "52:54:00:00:00:99"}, 503},
		"a config of another namespace, one of its own is chosen": {Lost{Configs: config("rack-b", "y", "")}, known, 200},
		"a config of its own namespace":                           {Lost{Configs: config("rack-a", "y", "")}, known, 503},
		"a config of its own namespace, the one by MAC is chosen": {Lost{Configs: config("rack-a", "y", "")}, own, 200},
		"a config, and the one for all is chosen":                 {Lost{Configs: config("rack-a", "y", "")}, plain, 503},
		"a config, and a stranger asks": {Lost{Configs: config("rack-a", "y", "")}, stranger,
			503},
		"a config for another machine, and the one for all is chosen": {Lost{Configs: config("rack-a", "y",
			`{"matchMACs":["52:54:00:00:00:77"]}`)}, plain, 200},
		"a config for another machine, and a stranger asks": {Lost{Configs: config("rack-a", "y",
			`{"matchMACs":["52:54:00:00:00:77"]}`)}, stranger, 200},
		"its own config, and the one for all is chosen": {Lost{Configs: config("rack-a", "y",
			`{"matchMACs":["52:54:00:00:00:02"]}`)}, plain, 503},
		"an older config for all": {Lost{Configs: config("default", "y",
			`{"default":true}`)}, plain, 503},
		"a config for all, and one by labels is chosen": {Lost{Configs: config("default", "y",
			`{"default":true}`)}, known, 200},
		"an image that no host boots, and the one for all is given": {Lost{Images: []string{"rack-a/y"}}, plain, 200},
		"a namespace": {Lost{Namespaces: []string{"rack-a"}}, known, 200},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(Options{Inventory: inv})
			if dec := d.Config(c.ask.request(t)); dec.Err != nil {
				t.Fatalf("with everything there: %v", dec.Err)
			}
			dec := losing(inv, c.lost).Config(c.ask.request(t))
			status := 200
			if dec.Err != nil {
				status = dec.Err.Kind.Status()
			}
			if status != c.status {
				t.Errorf("%d (%v), want %d", status, dec.Err, c.status)
			}
			if dec := losing(inv, Lost{}).Config(c.ask.request(t)); dec.Err != nil {
				t.Errorf("with nothing lost: %v", dec.Err)
			}
		})
	}
}

// Without the bucket of the images a host with an image gets no config that its image could
// have replaced, and neither an event nor a condition says that there is none.
func TestLostImagesHoldUpTheConfigsTheyCouldName(t *testing.T) {
	for name, c := range map[string]struct {
		lost     Lost
		selector *v1.IgnitionConfigSelector
		image    bool
		status   int
		reason   string
	}{
		"the config for all":        {Lost{AllImages: true}, &v1.IgnitionConfigSelector{Default: true}, true, 503, "Matched"},
		"none":                      {Lost{AllImages: true}, nil, true, 503, "ConfigLost"},
		"none, one image is lost":   {Lost{Images: []string{"rack-a/iso"}}, nil, true, 503, "ConfigLost"},
		"none, another one is":      {Lost{Images: []string{"rack-a/other"}}, nil, true, 404, "NoConfig"},
		"one that goes before it":   {Lost{AllImages: true}, &v1.IgnitionConfigSelector{MatchIPs: []string{"192.0.2.1"}}, true, 200, "Matched"},
		"none, without an image":    {Lost{AllImages: true}, nil, false, 404, "NoConfig"},
		"for all, without an image": {Lost{AllImages: true}, &v1.IgnitionConfigSelector{Default: true}, false, 200, "Matched"},
		"all configs are lost":      {Lost{AllConfigs: true}, nil, false, 503, "ConfigLost"},
	} {
		t.Run(name, func(t *testing.T) {
			var l lab
			h := l.host("rack-a", "node", "52:54:00:00:00:01", "192.0.2.1")
			if c.image {
				h.Spec.Image = "iso"
			}
			if c.selector != nil {
				l.config("rack-a", "config", v1.TypeIgnition, *c.selector)
			}
			d := losing(l.inventory(t), c.lost)
			dec := d.Config(ask{from: "192.0.2.1"}.request(t))
			status := 200
			if dec.Err != nil {
				status = dec.Err.Kind.Status()
			}
			view := d.opts.Inventory.View()
			matched := ConfigMatched(d, view, view.Host(snapshot.Ref{Namespace: "rack-a", Name: "node"}))
			noConfig := slices.ContainsFunc(dec.Notices, func(n Notice) bool { return n.Reason == ReasonNoConfig })
			if status != c.status || matched.Reason != c.reason || noConfig != (status == 404) {
				t.Errorf("%d %v, %+v, notices %v", status, dec.Err, matched, dec.Notices)
			}
		})
	}
}

// A condition names what is missing and the remedy. The events and the log name single objects;
// of a bucket that is missing as a whole the log alone says something.
func TestConfigLostSaysWhatIsMissing(t *testing.T) {
	var l lab
	l.host("rack-a", "node", "52:54:00:00:00:01", "192.0.2.1").Spec.Image = "iso"
	for want, lost := range map[string]Lost{
		"the server's store is damaged, and lacks the configs; restore the bucket that the log names; " +
			"until then the machine of this host gets 503": {AllConfigs: true},
		"the server's store is damaged, and lacks the image rack-a/iso of this machine, which may name its config; " +
			"restore the bucket that the log names; until then the machine of this host gets 503": {AllImages: true},
		"the store has lost objects, and with them perhaps the config of this host: its machine gets 503; " +
			"the events with the reason ObjectLost and the log of the server name them": {Images: []string{"rack-a/iso"}},
	} {
		d := losing(l.inventory(t), lost)
		view := d.opts.Inventory.View()
		got := ConfigMatched(d, view, view.Host(snapshot.Ref{Namespace: "rack-a", Name: "node"}))
		if got.Reason != "ConfigLost" || got.Met || got.Message != want {
			t.Errorf("%+v\nwant %s", got, want)
		}
	}
}

// Nor does it boot what its own record, or its namespace's script, could have changed.
func TestLostObjectsHoldUpBootScripts(t *testing.T) {
	var l lab
	l.host("rack-a", "known", "52:54:00:00:00:01", "192.0.2.1").Spec.Image = "iso"
	l.host("rack-a", "disk", "52:54:00:00:00:02", "192.0.2.2").Spec.Image = v1.ImageLocalBoot
	l.host("rack-a", "done", "52:54:00:00:00:03", "192.0.2.3").Status.State = v1.StateProvisioned
	l.host("rack-a", "plain", "52:54:00:00:00:04", "192.0.2.4")
	l.image("rack-a", "iso", "")
	l.images[0].Status.Phase = v1.PhaseReady
	inv := l.inventory(t)
	stranger, known, disk := ask{from: "192.0.2.99"}, ask{from: "192.0.2.1"}, ask{from: "192.0.2.2"}
	done, plain := ask{from: "192.0.2.3"}, ask{from: "192.0.2.4"}
	ask := func(a ask, lost Lost) bool {
		return losing(inv, lost).Boot(a.request(t)).Err == nil
	}
	hosts := []string{"x/y"}
	if ask(stranger, Lost{Hosts: hosts}) || !ask(known, Lost{Hosts: hosts}) {
		t.Error("with a lost host a stranger boots, or a known host does not")
	}
	if ask(known, Lost{Namespaces: []string{"rack-a"}}) || !ask(known, Lost{Namespaces: []string{"rack-b"}}) {
		t.Error("a host boots without the script of its namespace, or waits for another's")
	}
	for _, lost := range []Lost{{Namespaces: []string{"rack-a"}}, {AllNamespaces: true}} {
		if !ask(disk, lost) || !ask(done, lost) {
			t.Error("a host that boots its disk waits for the script of its namespace")
		}
		if ask(plain, lost) {
			t.Error("a host boots its disk without the script of its namespace")
		}
	}
	b := losing(inv, Lost{AllNamespaces: true}).Boot(known.request(t))
	if b.Err == nil || len(b.Notices) != 1 || b.Notices[0].Reason != ReasonScriptUnavailable ||
		b.Notices[0].Message != b.Err.Sentence {
		t.Errorf("%v, notices %+v", b.Err, b.Notices)
	}
	known.mac = "52:54:00:00:00:99" // it may be the lost host
	b = losing(inv, Lost{Hosts: hosts}).Boot(known.request(t))
	if said := notices(b.Notices); b.Err == nil || !slices.Contains(said, ReasonScriptUnavailable+" rack-a/known") {
		t.Errorf("%v, notices %q", b.Err, said)
	}
}

// TestLostLimits: a host whose namespace is lost, and which had limits, is not served without them.
func TestLostLimits(t *testing.T) {
	var l lab
	l.host("rack-a", "limited", "52:54:00:00:00:01", "192.0.2.1").Status.Provisioning =
		&v1.ProvisioningStatus{Opened: metav1.NewTime(epoch), Fetches: 1}
	l.host("rack-a", "free", "52:54:00:00:00:02", "192.0.2.2")
	l.config("rack-a", "base", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
	inv := l.inventory(t)
	for name, c := range map[string]struct {
		lost   Lost
		ask    ask
		status int
	}{
		"its namespace":                    {Lost{Namespaces: []string{"rack-a"}}, ask{from: "192.0.2.1"}, 503},
		"all namespaces":                   {Lost{AllNamespaces: true}, ask{from: "192.0.2.1"}, 503},
		"another namespace":                {Lost{Namespaces: []string{"rack-b"}}, ask{from: "192.0.2.1"}, 200},
		"the namespace of one without any": {Lost{Namespaces: []string{"rack-a"}}, ask{from: "192.0.2.2"}, 200},
		"its namespace, for an operator": {Lost{Namespaces: []string{"rack-a"}}, ask{believed: true,
			ip: "192.0.2.1"}, 200},
	} {
		dec := losing(inv, c.lost).Config(c.ask.request(t))
		status := statusOK
		if dec.Err != nil {
			status = dec.Err.Kind.Status()
		}
		if status != c.status {
			t.Errorf("%s: %d, want %d: %v", name, status, c.status, dec.Err)
		}
	}
}
