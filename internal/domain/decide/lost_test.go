package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/store/snapshot/labtest"
)

// losing decides while the store has lost some objects.
func losing(inv *snapshot.Inventory, lost Losses) *Decider {
	return New(Options{Inventory: inv, Lost: lostObjects(lost)})
}

type lostObjects Losses

func (l lostObjects) Lost() Losses { return Losses(l) }

// kindsOfLosses are those that a store may lose.
var kindsOfLosses = map[string]Losses{
	"hosts": {Hosts: true}, "configs": {Configs: true}, "images": {Images: true}, "namespaces": {Namespaces: true},
}

// lossRack has a machine for each way to be matched.
func lossRack(t *testing.T) (inv *snapshot.Inventory, machines map[string]ask) {
	t.Helper()
	var l lab
	role := map[string]string{"role": "worker"}
	l.Host("rack-a", "card", "52:54:00:00:00:01", "192.0.2.1", "role", "worker")
	l.Host("rack-a", "plain", "52:54:00:00:00:02", "192.0.2.2")
	l.Host("rack-a", "own", "52:54:00:00:00:03", "192.0.2.3")
	l.Host("rack-b", "foreign", "52:54:00:00:00:04", "192.0.2.4")
	l.Host("rack-a", "role", "52:54:00:00:00:05", "192.0.2.5", "role", "db")
	l.Host("gone", "orphan", "52:54:00:00:00:06", "192.0.2.6")
	l.Config("rack-a", "worker", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchLabels: role})
	l.Config("default", "everybody", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
	l.Config("rack-a", "own", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchMACs: []string{"52:54:00:00:00:03"}})
	l.Config("rack-a", "foreign", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchMACs: []string{"52:54:00:00:00:04"}})
	l.Config("gone", "orphan", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchMACs: []string{"52:54:00:00:00:06"}})
	db := l.Config("rack-a", "db", v1.TypeIgnition, v1.IgnitionConfigSelector{})
	db.Labels = map[string]string{v1.LabelRole: "db"}
	inv = l.Inventory(t)
	for _, name := range []string{"rack-a", "rack-b", "default"} {
		labtest.Mark(inv, name, "island", "false")
	}
	return inv, map[string]ask{
		"by MAC, config by labels":                   {From: "192.0.2.1", MAC: "52:54:00:00:00:01"},
		"by MAC, config for all":                     {From: "192.0.2.2", MAC: "52:54:00:00:00:02"},
		"by address, config for all":                 {From: "192.0.2.2"},
		"by MAC, config by MAC":                      {From: "192.0.2.3", MAC: "52:54:00:00:00:03"},
		"by address, config by MAC":                  {From: "192.0.2.3"},
		"by MAC, config by MAC of another namespace": {From: "192.0.2.4", MAC: "52:54:00:00:00:04"},
		"by MAC, config by role":                     {From: "192.0.2.5", MAC: "52:54:00:00:00:05", Role: "db"},
		"by MAC, its namespace is not there":         {From: "192.0.2.6", MAC: "52:54:00:00:00:06"},
		"a stranger":                                 {From: "192.0.2.99"},
	}
}

// TestLossesHoldUpAllThatNothingSettles: while the store has lost objects of a kind, a machine gets no config that one
// of them could have changed. A MAC address settles which host it is, and a MAC address or role which config it
// receives; all others ask again.
func TestLossesHoldUpAllThatNothingSettles(t *testing.T) {
	inv, machines := lossRack(t)
	served := map[string][]string{ // the kinds of which some may be lost
		"by MAC, config by labels":                   {"hosts"},
		"by MAC, config for all":                     {"hosts"},
		"by address, config for all":                 {},
		"by MAC, config by MAC":                      {"hosts", "configs", "images", "namespaces"},
		"by address, config by MAC":                  {"configs", "images", "namespaces"},
		"by MAC, config by MAC of another namespace": {"hosts", "configs", "images"},
		"by MAC, config by role":                     {"hosts", "configs", "images", "namespaces"},
		"by MAC, its namespace is not there":         {"hosts", "configs", "images"},
		"a stranger":                                 {},
	}
	for name, machine := range machines {
		if dec := losing(inv, Losses{}).Config(machine.Request(t)); dec.Err != nil {
			t.Errorf("%s, with nothing lost: %v", name, dec.Err)
		}
		for kind, lost := range kindsOfLosses {
			dec := losing(inv, lost).Config(machine.Request(t))
			if want := slices.Contains(served[name], kind); (dec.Err == nil) != want {
				t.Errorf("%s, %s are lost: %v, want it served: %v", name, kind, dec.Err, want)
			}
			if dec.Err != nil && (dec.Err.Kind.Status() != 503 || !strings.Contains(dec.Err.Sentence, "the store has lost "+kind)) {
				t.Errorf("%s, %s are lost: %d %v", name, kind, dec.Err.Kind.Status(), dec.Err)
			}
		}
	}
}

// TestLostLimits: a host whose namespace is lost is not served without the limits that the namespace may have had.
func TestLostLimits(t *testing.T) {
	inv, machines := lossRack(t)
	orphan := machines["by MAC, its namespace is not there"]
	d := losing(inv, Losses{Namespaces: true})
	if dec := d.Config(orphan.Request(t)); dec.Err == nil || dec.Err.Kind.Status() != 503 {
		t.Errorf("without its namespace: %v", dec.Err)
	}
	labtest.Mark(inv, "gone", "island", "false")
	if dec := d.Config(orphan.Request(t)); dec.Err != nil {
		t.Errorf("with its namespace: %v", dec.Err)
	}
}

// TestLossesHoldUpBoots: nor does a machine boot what a lost object could have changed.
func TestLossesHoldUpBoots(t *testing.T) {
	var l lab
	l.Host("rack-a", "imaged", "52:54:00:00:00:01", "192.0.2.1").Spec.Image = "iso"
	l.Host("rack-a", "disk", "52:54:00:00:00:02", "192.0.2.2").Spec.Image = v1.ImageLocalBoot
	l.Host("rack-a", "done", "52:54:00:00:00:03", "192.0.2.3").Status.State = v1.StateProvisioned
	l.Host("rack-a", "plain", "52:54:00:00:00:04", "192.0.2.4")
	l.Host("rack-a", "missing", "52:54:00:00:00:05", "192.0.2.5").Spec.Image = "gone"
	l.Host("rack-a", "abroad", "52:54:00:00:00:06", "192.0.2.6").Spec.Image = "rack-b/iso"
	l.Image("rack-a", "iso", "")
	l.Image("rack-b", "iso", "")
	for _, image := range l.Images {
		image.Status.Phase = v1.PhaseReady
	}
	inv := l.Inventory(t)
	here := l.Inventory(t)
	labtest.Mark(here, "rack-a", "island", "false")
	card := func(n string) ask { return ask{From: "192.0.2." + n, MAC: "52:54:00:00:00:0" + n} }
	for name, c := range map[string]struct {
		machine ask
		inv     *snapshot.Inventory
		served  []string
	}{
		"a stranger":                        {ask{From: "192.0.2.99"}, here, []string{"configs"}},
		"by address":                        {ask{From: "192.0.2.1"}, here, []string{"configs"}},
		"by MAC":                            {card("1"), here, []string{"hosts", "configs", "images", "namespaces"}},
		"by MAC, without its namespace":     {card("1"), inv, []string{"hosts", "configs", "images"}},
		"its disk":                          {card("2"), inv, []string{"hosts", "configs", "images", "namespaces"}},
		"its disk, since it is provisioned": {card("3"), inv, []string{"hosts", "configs", "images", "namespaces"}},
		"its disk, without an image":        {card("4"), here, []string{"hosts", "configs", "images", "namespaces"}},
		"its disk, perhaps":                 {card("4"), inv, []string{"hosts", "configs", "images"}},
		"an image that is not there":        {card("5"), here, nil},
		"an image of another namespace":     {card("6"), here, []string{"hosts", "configs", "images"}},
	} {
		for kind, lost := range kindsOfLosses {
			b := losing(c.inv, lost).Boot(c.machine.Request(t))
			if want := slices.Contains(c.served, kind); (b.Err == nil) != want {
				t.Errorf("%s, %s are lost: %v, want it booted: %v", name, kind, b.Err, want)
			}
			if b.Err != nil && b.Host != nil && len(b.Notices) == 0 {
				t.Errorf("%s, %s are lost: nobody is told of %v", name, kind, b.Err)
			}
		}
	}
	b := losing(here, Losses{Images: true}).Boot(card("5").Request(t))
	if b.Err == nil || !strings.Contains(b.Err.Sentence, "lacks the image rack-a/gone") {
		t.Errorf("of an image that may be lost it is said: %v", b.Err)
	}
	i := losing(here, Losses{Images: true}).Image(card("5").Request(t), model.Ref{Namespace: "rack-a", Name: "gone"}, false)
	if i.Err == nil || i.Err.Kind.Status() != 503 {
		t.Errorf("an image that may be lost: %v", i.Err)
	}
}

// TestALostBootHoldsUpItsHost: the machine of a host whose newest boot is lost gets no script, since it may be
// provisioned, and no config where that is limited. Its config is served otherwise, and no other machine waits.
func TestALostBootHoldsUpItsHost(t *testing.T) {
	var l lab
	l.Host("rack-a", "lost", "52:54:00:00:00:01", "192.0.2.1")
	limited := l.Host("rack-a", "limited", "52:54:00:00:00:02", "192.0.2.2")
	limited.Spec.Provisioning = &v1.Provisioning{Window: &metav1.Duration{Duration: time.Hour}}
	l.Host("rack-a", "other", "52:54:00:00:00:03", "192.0.2.3")
	l.Config("default", "everybody", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
	d := losing(l.Inventory(t), Losses{Boots: []string{"rack-a/lost", "rack-a/limited"}})
	for name, c := range map[string]struct {
		from           string
		script, config bool
	}{
		"lost": {"192.0.2.1", false, true}, "limited": {"192.0.2.2", false, false}, "other": {"192.0.2.3", true, true},
	} {
		req := ask{From: c.from}.Request(t)
		if dec := d.Config(req); (dec.Err == nil) != c.config {
			t.Errorf("%s: the config: %v", name, dec.Err)
		}
		req.Type = IPXE
		if b := d.Boot(req); (b.Err == nil) != c.script {
			t.Errorf("%s: the script: %v", name, b.Err)
		} else if b.Err != nil && !strings.Contains(b.Err.Sentence, "set status.state of the host") {
			t.Errorf("%s: %s", name, b.Err.Sentence)
		}
	}
}
