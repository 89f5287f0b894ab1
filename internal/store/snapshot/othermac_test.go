package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// TestOtherMACsAreIndexed: a hardware address that is none of Ethernet finds its host as a MAC does, the older one of
// several, and two hosts with one are in conflict, also over islands.
func TestOtherMACsAreIndexed(t *testing.T) {
	const port = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2"
	host := func(namespace, name string, age int, mac string) *v1.BareMetalHost {
		h := hostObject(namespace, name, age, 0, 0)
		h.Spec.NICs = []v1.NIC{{MAC: mac}, {MAC: mac, IP: "10.9.9.9"}}
		return h
	}
	inv := New(Options{})
	hosts := inv.Hosts()
	find := func(want string) *model.Host {
		t.Helper()
		h, got := inv.View().HostByOtherMAC(port), ""
		if h != nil {
			got = h.Name
		}
		if got != want {
			t.Errorf("found %q, want %q", got, want)
		}
		return h
	}
	if find(""); inv.View().HasOtherMACs() {
		t.Error("an empty inventory has addresses")
	}
	young := host("b", "young", 1, strings.ToUpper(strings.ReplaceAll(port, ":", "-")))
	hosts.Put(item(t, 1, young))
	if h := find("young"); len(h.MACs) > 0 || !slices.Equal(h.OtherMACs(), []string{port}) || !h.HasMACs() ||
		h.Facts().NICs[0].MAC != port || inv.View().Shares(h) {
		t.Errorf("%+v %+v", h, h.More)
	}
	hosts.Put(item(t, 2, func() *v1.BareMetalHost {
		h := host("a", "old", 2, port)
		h.Spec.NICs = h.Spec.NICs[:1]
		return h
	}()))
	old, v := find("old"), inv.View()
	const conflict = "[shares MAC " + port + " with BareMetalHost a/old]"
	if got := fmt.Sprint(conflictsOf(v, young)); got != conflict || inv.Stats().Conflicting != 2 {
		t.Errorf("conflicts %s, %d hosts", got, inv.Stats().Conflicting)
	}
	if !v.Shares(old) || len(v.Sharers(old, model.Addresses{})) != 2 {
		t.Error("the two hosts do not share an address")
	}
	for _, namespace := range []string{"a", "b"} {
		inv.Namespaces().Put(kvstore.Item{Key: namespace, Revision: 3, Value: fmt.Appendf(nil,
			`{"metadata":{"name":%q,"annotations":{%q:"true"}}}`, namespace, v1.AnnotationIsland)})
	}
	v = inv.View()
	if c, shared := v.Rivals(old).First(); !shared || c.OtherMAC != port || v.Rivals(old).ByOtherMAC(port) == nil {
		t.Errorf("two islands share %+v, %v", c, shared)
	}
	hosts.Delete("a/old", 4)
	find("young")
	young.Spec.NICs = young.Spec.NICs[:0]
	hosts.Put(item(t, 5, young))
	if find(""); inv.View().HasOtherMACs() {
		t.Error("an address stays after its host has lost it")
	}
}
