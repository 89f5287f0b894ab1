package decide_test

import (
	"net/netip"
	"slices"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/identity"
	"glowplug/internal/store/snapshot/labtest"
)

// TestUUIDOfAnotherBoard: boards of one model may share a UUID, which a host has as its systemUUID. The MAC
// of another board contradicts it: then it identifies nobody, and is no refused claim.
func TestUUIDOfAnotherBoard(t *testing.T) {
	iponly := labtest.StoryAnd(func(l *lab) { l.Host("g10", "iponly", "", "192.168.10.30", "role", "builder") })
	nomac := labtest.StoryAnd(func(l *lab) {
		l.Host("g10", "nomac", "", "192.168.10.31", "role", "builder").Spec.SystemUUID = labtest.UUIDX
	})
	moved := labtest.StoryAnd(func(l *lab) { l.Hosts[0].Spec.BootSources = []string{"192.168.66.0/24"} })
	const ignored, unknown = "ClaimIgnored", "UnknownHost"
	for _, c := range []struct {
		name    string
		policy  decide.Policy
		lab     func() *lab
		ask     ask
		want    string
		notices []string
		says    string
	}{
		{name: "an unknown board by its claimed mac", ask: ask{From: "192.168.66.6", MAC: labtest.MACX, UUID: labtest.UUIDA},
			want: "404; host -; config -", notices: []string{ignored, ignored, unknown},
			says: "has other hardware addresses than this machine: mac " + labtest.MACX + ", uuid " + labtest.UUIDA},
		{name: "an unknown board by its neighbour entry", ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX, UUID: labtest.UUIDA},
			want: "404; host -; config -", notices: []string{ignored, unknown}},
		{name: "an unknown board by both", ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX, MAC: labtest.MACX, UUID: labtest.UUIDA},
			want: "404; host -; config -", notices: []string{ignored, unknown}},
		{name: "an unknown board gets the default config", lab: withDefault,
			ask:  ask{From: "192.168.66.6", MAC: labtest.MACX, UUID: labtest.UUIDA},
			want: "200; host -; config default/fallback by default", notices: []string{ignored, ignored, unknown}},
		{name: "a host by its mac", ask: ask{From: "192.168.10.11", MAC: labtest.MACB, UUID: labtest.UUIDA},
			want:    "200; host g10/server1 by mac; config g10/fedora-server by labels",
			notices: []string{ignored + " g10/server1"}},
		{name: "a host by its neighbour entry", ask: ask{From: "192.168.10.77", Neighbor: labtest.MACD, UUID: labtest.UUIDA},
			want:    "200; host g10/maconly by neighbor; config g10/coreos-builder by labels",
			notices: []string{ignored + " g10/maconly"}},
		{name: "a host behind NAT by its mac", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9", MAC: labtest.MACC, UUID: labtest.UUIDA},
			want:    "200; host g11/nat1 by mac; config g11/nat-config by hostname",
			notices: []string{ignored + " g11/nat1"}},
		{name: "a host without known MACs by its address", lab: iponly,
			ask:     ask{From: "192.168.10.30", Neighbor: labtest.MACX, UUID: labtest.UUIDA},
			want:    "200; host g10/iponly by address; config g10/coreos-builder by labels",
			notices: []string{ignored + " g10/iponly"}},
		{name: "trust", policy: decide.Trust, ask: ask{From: "192.168.66.6", MAC: labtest.MACX, UUID: labtest.UUIDA},
			want: "404; host -; config -", notices: []string{unknown}},
		{name: "a believed caller", ask: ask{From: "127.0.0.1", Believed: true, MAC: labtest.MACX, UUID: labtest.UUIDA},
			want: "404; host -; config -"},
		{name: "enforced", policy: decide.Enforce, ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX, UUID: labtest.UUIDA},
			want: "404; host -; config -", notices: []string{ignored, unknown}},

		// The MAC does not contradict.
		{name: "no MAC is known", ask: ask{From: "192.168.66.6", UUID: labtest.UUIDA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "from a boot source", lab: moved, ask: ask{From: "192.168.66.6", UUID: labtest.UUIDA},
			want: "200; host g10/builder1 by uuid; config g10/coreos-builder by labels"},
		{name: "no MAC is known, trusted", policy: decide.Trust, ask: ask{From: "192.168.66.6", UUID: labtest.UUIDA},
			want: "200; host g10/builder1 by uuid; config g10/coreos-builder by labels"},
		{name: "trusted, behind a router on the network", policy: decide.Trust,
			ask:     ask{From: "192.168.66.6", Neighbor: labtest.MACX, UUID: labtest.UUIDA},
			want:    "200; host g10/builder1 by uuid; config g10/coreos-builder by labels",
			notices: []string{"NeighborMismatch g10/builder1"}},
		{name: "the host has no MAC", lab: nomac, policy: decide.Trust, ask: ask{From: "192.168.66.6", MAC: labtest.MACX, UUID: labtest.UUIDX},
			want: "200; host g10/nomac by uuid; config g10/coreos-builder by labels"},
		{name: "the host itself, with a further card", ask: ask{From: "192.168.10.10", MAC: labtest.MACX, UUID: labtest.UUIDA},
			want:    "200; host g10/builder1 by uuid; config g10/coreos-builder by labels",
			notices: []string{ignored + " g10/builder1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := c.lab
			if make == nil {
				make = labtest.Story
			}
			l := make()
			d := decide.New(decide.Options{Inventory: l.Inventory(t), Policy: c.policy})
			req := c.ask.Request(t)
			dec := d.Config(req)
			if got := decide.Outcome(&dec); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := decide.ListNotices(dec.Notices); !slices.Equal(got, c.notices) {
				t.Errorf("notices %q, want %q", got, c.notices)
			}
			checkSentence(t, &dec, c.says)
			checkExplanation(t, explain.Explain(d, req), &dec, len(l.Configs))
		})
	}
}

// TestFactoryUUIDOfTwoHosts: with one UUID on two hosts each is found by its MAC, and the UUID decides nothing.
func TestFactoryUUIDOfTwoHosts(t *testing.T) {
	const factory = "03000200-0400-0500-0006-000700080009"
	l := &lab{}
	for i, mac := range []string{labtest.MACA, labtest.MACB} {
		l.Host("default", []string{"board-1", "board-2"}[i], mac, "", "role", "worker").Spec =
			v1.BareMetalHostSpec{BootMACAddress: mac, SystemUUID: factory, BootSources: []string{"10.0.0.0/8"}}
	}
	for _, policy := range []decide.Policy{{}, decide.Trust} {
		d := decide.New(decide.Options{Inventory: l.Inventory(t), Policy: policy})
		for query, want := range map[string]string{
			"uuid=" + factory + "&mac=" + labtest.MACA: "default/board-1",
			"uuid=" + factory + "&mac=" + labtest.MACB: "default/board-2",
			"uuid=" + factory + "&mac=" + labtest.MACX: "",
			"uuid=" + factory:                          "",
		} {
			claims, failure := identity.ParseClaims(query)
			if failure != nil {
				t.Fatalf("%s: %v", query, failure)
			}
			dec := d.Config(&decide.Request{Type: decide.Ignition, Claims: claims, Caller: identity.Caller{Addr: netip.MustParseAddr("10.1.1.1")}})
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
