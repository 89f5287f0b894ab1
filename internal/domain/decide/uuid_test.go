package decide

import (
	"net/netip"
	"slices"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
)

// TestUUIDOfAnotherBoard: boards of one model may share a UUID, which a host has as its systemUUID. The MAC
// of another board contradicts it: then it identifies nobody, and is no refused claim.
func TestUUIDOfAnotherBoard(t *testing.T) {
	iponly := storyAnd(func(l *lab) { l.host("g10", "iponly", "", "192.168.10.30", "role", "builder") })
	nomac := storyAnd(func(l *lab) {
		l.host("g10", "nomac", "", "192.168.10.31", "role", "builder").Spec.SystemUUID = uuidX
	})
	moved := storyAnd(func(l *lab) { l.hosts[0].Spec.BootSources = []string{"192.168.66.0/24"} })
	const ignored, unknown = "ClaimIgnored", "UnknownHost"
	for _, c := range []struct {
		name    string
		policy  Policy
		lab     func() *lab
		ask     ask
		want    string
		notices []string
		says    string
	}{
		{name: "an unknown board by its claimed mac", ask: ask{from: "192.168.66.6", mac: macX, uuid: uuidA},
			want: "404; host -; config -", notices: []string{ignored, ignored, unknown},
			says: "has other hardware addresses than this machine: mac " + macX + ", uuid " + uuidA},
		{name: "an unknown board by its neighbour entry", ask: ask{from: "192.168.66.6", neighbor: macX, uuid: uuidA},
			want: "404; host -; config -", notices: []string{ignored, unknown}},
		{name: "an unknown board by both", ask: ask{from: "192.168.66.6", neighbor: macX, mac: macX, uuid: uuidA},
			want: "404; host -; config -", notices: []string{ignored, unknown}},
		{name: "an unknown board gets the default config", lab: withDefault,
			ask:  ask{from: "192.168.66.6", mac: macX, uuid: uuidA},
			want: "200; host -; config default/fallback by default", notices: []string{ignored, ignored, unknown}},
		{name: "a host by its mac", ask: ask{from: "192.168.10.11", mac: macB, uuid: uuidA},
			want:    "200; host g10/server1 by mac; config g10/fedora-server by labels",
			notices: []string{ignored + " g10/server1"}},
		{name: "a host by its neighbour entry", ask: ask{from: "192.168.10.77", neighbor: macD, uuid: uuidA},
			want:    "200; host g10/maconly by neighbor; config g10/coreos-builder by labels",
			notices: []string{ignored + " g10/maconly"}},
		{name: "a host behind NAT by its mac", lab: withNAT, ask: ask{from: "172.16.0.9", mac: macC, uuid: uuidA},
			want:    "200; host g11/nat1 by mac; config g11/nat-config by hostname",
			notices: []string{ignored + " g11/nat1"}},
		{name: "a host without known MACs by its address", lab: iponly,
			ask:     ask{from: "192.168.10.30", neighbor: macX, uuid: uuidA},
			want:    "200; host g10/iponly by address; config g10/coreos-builder by labels",
			notices: []string{ignored + " g10/iponly"}},
		{name: "trust", policy: trust, ask: ask{from: "192.168.66.6", mac: macX, uuid: uuidA},
			want: "404; host -; config -", notices: []string{unknown}},
		{name: "a believed caller", ask: ask{from: "127.0.0.1", believed: true, mac: macX, uuid: uuidA},
			want: "404; host -; config -"},
		{name: "enforced", policy: enforce, ask: ask{from: "192.168.66.6", neighbor: macX, uuid: uuidA},
			want: "404; host -; config -", notices: []string{ignored, unknown}},

		// The MAC does not contradict.
		{name: "no MAC is known", ask: ask{from: "192.168.66.6", uuid: uuidA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "from a boot source", lab: moved, ask: ask{from: "192.168.66.6", uuid: uuidA},
			want: "200; host g10/builder1 by uuid; config g10/coreos-builder by labels"},
		{name: "no MAC is known, trusted", policy: trust, ask: ask{from: "192.168.66.6", uuid: uuidA},
			want: "200; host g10/builder1 by uuid; config g10/coreos-builder by labels"},
		{name: "trusted, behind a router on the network", policy: trust,
			ask:     ask{from: "192.168.66.6", neighbor: macX, uuid: uuidA},
			want:    "200; host g10/builder1 by uuid; config g10/coreos-builder by labels",
			notices: []string{"NeighborMismatch g10/builder1"}},
		{name: "the host has no MAC", lab: nomac, policy: trust, ask: ask{from: "192.168.66.6", mac: macX, uuid: uuidX},
			want: "200; host g10/nomac by uuid; config g10/coreos-builder by labels"},
		{name: "the host itself, with a further card", ask: ask{from: "192.168.10.10", mac: macX, uuid: uuidA},
			want:    "200; host g10/builder1 by uuid; config g10/coreos-builder by labels",
			notices: []string{ignored + " g10/builder1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := c.lab
			if make == nil {
				make = story
			}
			l := make()
			d := New(Options{Inventory: l.inventory(t), Policy: c.policy})
			req := c.ask.request(t)
			dec := d.Config(req)
			if got := outcome(&dec); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := notices(dec.Notices); !slices.Equal(got, c.notices) {
				t.Errorf("notices %q, want %q", got, c.notices)
			}
			checkSentence(t, &dec, c.says)
			checkExplanation(t, d.Explain(req), &dec, len(l.configs))
		})
	}
}

// TestFactoryUUIDOfTwoHosts: with one UUID on two hosts each is found by its MAC, and the UUID decides nothing.
func TestFactoryUUIDOfTwoHosts(t *testing.T) {
	const factory = "03000200-0400-0500-0006-000700080009"
	l := &lab{}
	for i, mac := range []string{macA, macB} {
		l.host("default", []string{"board-1", "board-2"}[i], mac, "", "role", "worker").Spec =
			v1.BareMetalHostSpec{BootMACAddress: mac, SystemUUID: factory, BootSources: []string{"10.0.0.0/8"}}
	}
	for _, policy := range []Policy{{}, trust} {
		d := New(Options{Inventory: l.inventory(t), Policy: policy})
		for query, want := range map[string]string{
			"uuid=" + factory + "&mac=" + macA: "default/board-1",
			"uuid=" + factory + "&mac=" + macB: "default/board-2",
			"uuid=" + factory + "&mac=" + macX: "",
			"uuid=" + factory:                  "",
		} {
			claims, failure := identity.ParseClaims(query)
			if failure != nil {
				t.Fatalf("%s: %v", query, failure)
			}
			dec := d.Config(&Request{Type: Ignition, Claims: claims, Caller: identity.Caller{Addr: netip.MustParseAddr("10.1.1.1")}})
			got := ""
			if dec.Host != nil {
				got = dec.Host.Ref.String()
			}
			if got != want || dec.Unheld.Refused {
				t.Errorf("%v, %s: found %q, refused %v; want %q", policy, query, got, dec.Unheld.Refused, want)
			}
		}
	}
}
