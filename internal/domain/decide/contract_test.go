package decide_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/identity"
	"glowplug/internal/store/snapshot/labtest"
)

type (
	lab = labtest.Lab
	sel = v1.IgnitionConfigSelector
	ask = decide.Ask
)

var (
	withDefault = labtest.StoryAnd(func(l *lab) { l.Config("default", "fallback", "ignition", sel{Default: true}) })
	withMAC     = labtest.StoryAnd(func(l *lab) { l.Config("g11", "by-mac", "ignition", sel{MatchMACs: []string{labtest.MACX}}) })
	withOwnMAC  = labtest.StoryAnd(func(l *lab) { l.Config("g10", "by-mac", "ignition", sel{MatchMACs: []string{labtest.MACX}}) })
)

// TestContract has a case for each sentence of the contract's "Serving".
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy decide.Policy
		// isolated has all namespaces but default islands.
		isolated bool
		lab      func() *lab
		ask      ask
		want     string
		notices  []string
		says     string // part of the client's sentence
	}{
		// Who asks.
		{name: "a host by its address", ask: ask{From: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a host by a further card's address", ask: ask{From: "192.168.20.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a host known by MAC alone, through the neighbour table", ask: ask{From: "192.168.10.77", Neighbor: labtest.MACD},
			want: "200; host g10/maconly by neighbor; config g10/coreos-builder by labels"},
		{name: "neighbours off: it is not found", policy: decide.Policy{Neighbors: identity.NeighborsOff},
			ask:  ask{From: "192.168.10.77", Neighbor: labtest.MACD},
			want: "404; host -; config -", notices: []string{"UnknownHost"}},
		{name: "the address goes before the neighbour", ask: ask{From: "192.168.10.10", Neighbor: labtest.MACB},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"NeighborMismatch g10/builder1"}},
		{name: "a contradicting neighbour, enforced", policy: decide.Enforce, ask: ask{From: "192.168.10.10", Neighbor: labtest.MACX},
			want: "403; host g10/builder1 by address; config -", notices: []string{"NeighborMismatch g10/builder1"},
			says: "add it to the host's spec.nics"},
		{name: "an agreeing neighbour, enforced", policy: decide.Enforce, ask: ask{From: "192.168.10.10",
			Neighbor: "ac:1f:6b:8a:a7:aa"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "no entry is no contradiction", policy: decide.Enforce, ask: ask{From: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "an entry that has changed", ask: ask{From: "192.168.10.10", Neighbor: labtest.MACA, Former: labtest.MACX},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"NeighborChanged g10/builder1"}},
		{name: "an entry that has changed, enforced", policy: decide.Enforce, ask: ask{From: "192.168.10.10", Neighbor: labtest.MACA,
			Former: labtest.MACX},
			want: "403; host g10/builder1 by address; config -", notices: []string{"NeighborChanged g10/builder1"},
			says: "connect again in a minute"},
		{name: "an entry that has changed, of a host found by it, enforced", policy: decide.Enforce, ask: ask{From: "192.168.10.77",
			Neighbor: labtest.MACD, Former: labtest.MACX},
			want: "403; host g10/maconly by neighbor; config -", notices: []string{"NeighborChanged g10/maconly"}},
		{name: "an entry that has changed to another machine's", ask: ask{From: "192.168.10.10", Neighbor: labtest.MACX,
			Former: labtest.MACA},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"NeighborMismatch g10/builder1"}},
		{name: "an entry that has changed, of no host", policy: decide.Enforce, ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX,
			Former: labtest.MACA},
			want: "404; host -; config -", notices: []string{"UnknownHost"}},
		{name: "an entry that has changed, neighbours off", policy: decide.Policy{Neighbors: identity.NeighborsOff},
			ask:  ask{From: "192.168.10.10", Neighbor: labtest.MACA, Former: labtest.MACX},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a host without known MACs, whose entry has changed", policy: decide.Enforce,
			lab: labtest.StoryAnd(func(l *lab) { l.Host("g10", "iponly", "", "192.168.10.30", "role", "builder") }),
			ask: ask{From: "192.168.10.30", Neighbor: labtest.MACX, Former: labtest.MACA}, want: "403; host g10/iponly by address; config -",
			notices: []string{"NeighborChanged g10/iponly"}},
		{name: "a host without known MACs is not contradicted", policy: decide.Enforce,
			lab:  labtest.StoryAnd(func(l *lab) { l.Host("g10", "iponly", "", "192.168.10.30", "role", "builder") }),
			ask:  ask{From: "192.168.10.30", Neighbor: labtest.MACX},
			want: "200; host g10/iponly by address; config g10/coreos-builder by labels"},

		// Claims, verified.
		{name: "verify: the ip claim equals the client", ask: ask{From: "192.168.10.10", IP: "192.168.10.10"},
			want: "200; host g10/builder1 by ip; config g10/coreos-builder by labels"},
		{name: "verify: another ip", ask: ask{From: "192.168.10.99", IP: "192.168.10.10"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"},
			says: "not the address of this client"},
		{name: "verify: another ip, of nobody, is on the client's host", ask: ask{From: "192.168.10.10", IP: "192.168.10.99"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: another ip, of nobody, from nobody", ask: ask{From: "192.168.10.98", IP: "192.168.10.99"},
			want: "403; host -; config -", notices: []string{"ClaimRefused"}},
		{name: "verify: a true mac", ask: ask{From: "192.168.10.10", MAC: labtest.MACA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "verify: a true uuid", ask: ask{From: "192.168.10.10", UUID: labtest.UUIDA},
			want: "200; host g10/builder1 by uuid; config g10/coreos-builder by labels"},
		{name: "verify: a true hostname, short", ask: ask{From: "192.168.10.10", Hostname: "builder1"},
			want: "200; host g10/builder1 by hostname; config g10/coreos-builder by labels"},
		{name: "verify: the first of mac, ip, uuid, hostname", ask: ask{From: "192.168.10.10", Hostname: "builder1",
			UUID: labtest.UUIDA, IP: "192.168.10.10"},
			want: "200; host g10/builder1 by ip; config g10/coreos-builder by labels"},
		{name: "verify: an unknown client claims a host's mac", ask: ask{From: "192.168.66.6", MAC: labtest.MACA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}, says: "spec.bootSources"},
		{name: "verify: an unknown client claims a host's uuid", ask: ask{From: "192.168.66.6", UUID: labtest.UUIDA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: an unknown client claims a host's name", ask: ask{From: "192.168.66.6", Hostname: "builder1-mgmt"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: a host claims another's mac", ask: ask{From: "192.168.10.11", MAC: labtest.MACA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: a host claims another's hostname", ask: ask{From: "192.168.10.11", MAC: labtest.MACB, Hostname: "builder1"},
			want: "403; host g10/server1 by mac; config -", notices: []string{"ClaimRefused g10/builder1"},
			says: "is not that of host g10/server1"},
		{name: "verify: a bootSource is a place to claim from", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9", MAC: labtest.MACC},
			want: "200; host g11/nat1 by mac; config g11/nat-config by hostname"},
		{name: "verify: but not for who is another host", ask: ask{From: "192.168.10.10", MAC: labtest.MACC},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}},
		{name: "verify: nor for who is another host by its neighbour entry", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9",
			Neighbor: labtest.MACD, MAC: labtest.MACC},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}},
		{name: "verify: nor on-link with another MAC", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9", Neighbor: labtest.MACX,
			Hostname: "nat1"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}, says: "is no NAT"},
		{name: "verify: nor with another MAC where the neighbour entry is the one claimed", lab: labtest.WithNAT,
			ask:  ask{From: "172.16.0.9", Neighbor: labtest.MACX, MAC: labtest.MACC},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}, says: "is no NAT"},
		{name: "verify: but on-link with its own MAC", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9", Neighbor: labtest.MACC,
			Hostname: "nat1"},
			want: "200; host g11/nat1 by hostname; config g11/nat-config by hostname"},
		{name: "verify: or where its MACs are not known", lab: labtest.StoryAnd(func(l *lab) {
			l.Host("g11", "nat3", "", "10.1.0.3", "role", "builder").Spec.BootSources = []string{"172.16.0.0/24"}
		}), ask: ask{From: "172.16.0.9", Neighbor: labtest.MACX, Hostname: "nat3"},
			want: "200; host g11/nat3 by hostname; config g10/coreos-builder by labels"},
		{name: "verify: or where the neighbour table is not used", lab: labtest.WithNAT,
			policy: decide.Policy{Neighbors: identity.NeighborsOff},
			ask:    ask{From: "172.16.0.9", Neighbor: labtest.MACX, Hostname: "nat1"},
			want:   "200; host g11/nat1 by hostname; config g11/nat-config by hostname"},
		{name: "verify: nobody is two hosts", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9", MAC: labtest.MACC, Hostname: "nat2"},
			want: "403; host g11/nat1 by mac; config -", notices: []string{"ClaimRefused g11/nat2"}},
		{name: "a bootSource alone finds nobody", lab: labtest.WithNAT, ask: ask{From: "172.16.0.9"},
			want: "404; host -; config -", notices: []string{"UnknownHost"}},
		{name: "verify: no known address, and the neighbour entry agrees", ask: ask{From: "192.168.10.77", Neighbor: labtest.MACD,
			Hostname: "maconly"},
			want: "200; host g10/maconly by hostname; config g10/coreos-builder by labels"},
		{name: "verify: no known address, and no neighbour entry", ask: ask{From: "192.168.10.77", MAC: labtest.MACD},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/maconly"}},
		{name: "verify: no known address, and another neighbour entry", ask: ask{From: "192.168.10.77", Neighbor: labtest.MACX,
			MAC: labtest.MACD},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/maconly"}},
		{name: "verify: no known address, from another host's", ask: ask{From: "192.168.10.11", Neighbor: labtest.MACD, MAC: labtest.MACD},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/maconly"}},
		{name: "verify: a claim that names nobody is ignored", lab: withMAC, ask: ask{From: "192.168.66.6", MAC: labtest.MACX,
			Hostname: "nobody", UUID: labtest.UUIDX},
			want: "404; host -; config -", notices: []string{"ClaimIgnored", "ClaimIgnored", "ClaimIgnored", "UnknownHost"},
			says: "; claims ignored, since no BareMetalHost has them: mac " + labtest.MACX + ", uuid " + labtest.UUIDX + ", hostname nobody"},
		{name: "a 404 of a known host names the claims that were ignored", ask: ask{Endpoint: decide.Kickstart,
			From: "192.168.10.10", Hostname: "localhost"},
			want: "404; host g10/builder1 by address; config -", notices: []string{"ClaimIgnored g10/builder1", "NoConfig g10/builder1"},
			says: "; claims ignored, since no BareMetalHost has them: hostname localhost"},
		{name: "a 404 says that claims are denied", policy: decide.Deny, ask: ask{From: "192.168.66.6", MAC: labtest.MACA},
			want: "404; host -; config -", notices: []string{"UnknownHost"},
			says: "; claims ignored by the server's --identity-claims=deny: mac " + labtest.MACA},
		{name: "a 404 names the MAC that the server knows", ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX},
			want: "404; host -; config -", notices: []string{"UnknownHost"},
			says: "matches 192.168.66.6 (" + labtest.MACX + "), which is no known host"},
		{name: "verify: also of a known host", ask: ask{From: "192.168.10.10", Hostname: "localhost"},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"ClaimIgnored g10/builder1"}},
		{name: "verify: an unknown client's neighbour entry is a fact", lab: withMAC, ask: ask{From: "192.168.66.6",
			Neighbor: labtest.MACX},
			want: "200; host -; config g11/by-mac by mac", notices: []string{"UnknownHost"}},
		{name: "verify: and a mac claim equal to it holds", lab: withMAC, ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX,
			MAC: labtest.MACX},
			want: "200; host -; config g11/by-mac by mac", notices: []string{"UnknownHost"}},
		{name: "verify: a host's own role", ask: ask{From: "192.168.10.10", Role: "builder"},
			want: "200; host g10/builder1 by address; config g10/builder-target by role"},
		{name: "verify: another role", ask: ask{From: "192.168.10.11", Role: "builder"},
			want: "403; host g10/server1 by address; config -", notices: []string{"ClaimRefused g10/server1"},
			says: "set the label"},
		{name: "verify: an unknown client may not claim a role", ask: ask{From: "192.168.66.6", Role: "builder"},
			want: "403; host -; config -", notices: []string{"UnknownHost", "ClaimRefused"},
			says: "an unknown machine may not claim a role; create a BareMetalHost with the address 192.168.66.6 and the label" +
				" role=builder, or leave the parameter role out"},

		// Claims, believed or ignored.
		{name: "trust: another host's mac", policy: decide.Trust, ask: ask{From: "192.168.66.6", MAC: labtest.MACA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "trust: mac goes before ip", policy: decide.Trust, ask: ask{From: "192.168.66.6", IP: "192.168.10.11", MAC: labtest.MACA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "trust: what names nobody is a fact", policy: decide.Trust, lab: withMAC, ask: ask{From: "192.168.66.6", MAC: labtest.MACX},
			want: "200; host -; config g11/by-mac by mac", notices: []string{"UnknownHost"}},
		{name: "trust: a hostname of nobody is a fact", policy: decide.Trust,
			lab: labtest.StoryAnd(func(l *lab) { l.Config("g11", "by-name", "ignition", sel{MatchHostnames: []string{"New1.lab"}}) }),
			ask: ask{From: "192.168.66.6", Hostname: "new1"}, want: "200; host -; config g11/by-name by hostname",
			notices: []string{"UnknownHost"}},
		{name: "trust: any role", policy: decide.Trust, ask: ask{From: "192.168.66.6", Role: "builder"},
			want: "200; host -; config g10/builder-target by role", notices: []string{"UnknownHost"}},
		{name: "trust: an ip claim stands in for the address", policy: decide.Trust,
			lab: labtest.StoryAnd(func(l *lab) { l.Config("g11", "by-ip", "ignition", sel{MatchIPs: []string{"10.7.0.0/16"}}) }),
			ask: ask{From: "192.168.10.10", IP: "10.7.0.1", Neighbor: labtest.MACA}, want: "200; host -; config g11/by-ip by ip",
			notices: []string{"UnknownHost"}},
		{name: "deny: all claims are ignored", policy: decide.Deny, ask: ask{From: "192.168.10.10", MAC: labtest.MACB, IP: "192.168.10.11",
			Hostname: "server1", UUID: labtest.UUIDX, Role: "x"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a believed caller is believed under verify", ask: ask{From: "127.0.0.1", Believed: true, MAC: labtest.MACA,
			Role: "builder"},
			want: "200; host g10/builder1 by mac; config g10/builder-target by role"},
		{name: "a believed caller is believed under deny", policy: decide.Deny, ask: ask{From: "127.0.0.1", Believed: true,
			IP: "192.168.10.10"},
			want: "200; host g10/builder1 by ip; config g10/coreos-builder by labels"},
		{name: "a believed caller's own neighbour entry changes nothing", policy: decide.Enforce, ask: ask{From: "192.168.66.6",
			Neighbor: labtest.MACX, Former: labtest.MACB, Believed: true, MAC: labtest.MACA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "a believed caller's own neighbour entry contradicts nothing", policy: decide.Enforce, ask: ask{From: "192.168.66.6",
			Neighbor: labtest.MACX, Believed: true, MAC: labtest.MACA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "a believed caller that claims nothing is its address", ask: ask{From: "192.168.10.10", Believed: true},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},

		// Which host.
		{name: "nobody: claims and address alone", lab: withDefault, ask: ask{From: "192.168.66.6"},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},
		{name: "two hosts with one IP: the older wins", lab: labtest.StoryAnd(func(l *lab) {
			l.Host("a", "twin", labtest.MACX,
				"192.168.10.10")
		}), ask: ask{From: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "two hosts with one IP: the younger by its mac", lab: labtest.StoryAnd(func(l *lab) {
			l.Host("g10", "twin", labtest.MACX,
				"192.168.10.10", "role", "builder")
		}),
			ask: ask{From: "192.168.10.10", MAC: labtest.MACX}, want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC: each is itself at its address", lab: labtest.StoryAnd(func(l *lab) {
			l.Host("g10", "twin",
				labtest.MACA, "192.168.10.12", "role", "builder")
		}),
			ask: ask{From: "192.168.10.12", MAC: labtest.MACA}, want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC, believed: the older", lab: labtest.StoryAnd(func(l *lab) {
			l.Host("g10", "twin", labtest.MACA,
				"192.168.10.12")
		}),
			ask:  ask{From: "127.0.0.1", Believed: true, MAC: labtest.MACA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC, believed: the younger with its own address", lab: labtest.StoryAnd(func(l *lab) {
			l.Host("g10", "twin", labtest.MACA, "192.168.10.12", "role", "builder")
		}), ask: ask{From: "127.0.0.1", Believed: true, MAC: labtest.MACA, IP: "192.168.10.12"},
			want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC, trusted: the younger from its own address", policy: decide.Trust,
			lab:  labtest.StoryAnd(func(l *lab) { l.Host("g10", "twin", labtest.MACA, "192.168.10.12", "role", "builder") }),
			ask:  ask{From: "192.168.10.12", MAC: labtest.MACA},
			want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: no foreign MAC", lab: withOwnMAC,
			ask:  ask{From: "127.0.0.1", Believed: true, MAC: labtest.MACX, Hostname: "builder1"},
			want: "200; host g10/builder1 by hostname; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: also found by its address", policy: decide.Trust, lab: withOwnMAC,
			ask:  ask{From: "192.168.10.10", MAC: labtest.MACX},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: no foreign hostname", policy: decide.Trust,
			lab:  labtest.StoryAnd(func(l *lab) { l.Config("g10", "by-name", "ignition", sel{MatchHostnames: []string{"other"}}) }),
			ask:  ask{From: "192.168.66.6", MAC: labtest.MACA, Hostname: "other"},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: ignored claims neither", lab: withOwnMAC, ask: ask{From: "192.168.10.10",
			MAC: labtest.MACX}, want: "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"ClaimIgnored g10/builder1"}},
		{name: "two of one namespace are served under isolation", isolated: true, lab: labtest.StoryAnd(func(l *lab) {
			l.Host("g10",
				"twin", labtest.MACX, "192.168.10.10")
		}),
			ask: ask{From: "192.168.10.10"}, want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "between two islands: the older asks again", isolated: true,
			lab: labtest.StoryAnd(func(l *lab) { l.Host("a", "twin", labtest.MACX, "192.168.10.10") }),
			ask: ask{From: "192.168.10.10"}, want: "503; host g10/builder1 by address; config -",
			notices: []string{"DuplicateIdentity g10/builder1", "DuplicateIdentity a/twin"}, says: "shares IP 192.168.10.10"},
		{name: "between two islands: so does the younger", isolated: true,
			lab: labtest.StoryAnd(func(l *lab) { l.Host("a", "twin", labtest.MACA, "") }),
			ask: ask{From: "192.168.66.6", Neighbor: labtest.MACA}, want: "503; host g10/builder1 by neighbor; config -",
			notices: []string{"DuplicateIdentity g10/builder1", "DuplicateIdentity a/twin"}, says: "shares MAC " + labtest.MACA},
		{name: "between two islands: the own address wins", isolated: true,
			lab: labtest.StoryAnd(func(l *lab) { l.Host("a", "twin", labtest.MACA, "192.168.10.12") }),
			ask: ask{From: "192.168.10.12"}, want: "404; host a/twin by address; config -",
			notices: []string{"NoConfig a/twin"}, says: "no ignition config matches host a/twin"},

		// Which config.
		{name: "/kickstart gives kickstart alone", ask: ask{Endpoint: decide.Kickstart, From: "192.168.10.11"},
			want: "200; host g10/server1 by address; config g10/fedora-server by labels"},
		{name: "/kickstart never gives ignition", ask: ask{Endpoint: decide.Kickstart, From: "192.168.10.10"},
			want: "404; host g10/builder1 by address; config -", notices: []string{"NoConfig g10/builder1"},
			says: "no kickstart config matches host g10/builder1"},
		{name: "/ignition gives kickstart where no ignition matches", ask: ask{From: "192.168.10.11", Accept: "*/*"},
			want: "200; host g10/server1 by address; config g10/fedora-server by labels"},
		{name: "but not to who names an Ignition type", ask: ask{From: "192.168.10.11", Accept: labtest.V34},
			want: "404; host g10/server1 by address; config -", notices: []string{"NoConfig g10/server1"},
			says: "default: true"},
		{name: "and not where an ignition default matches", lab: withDefault, ask: ask{From: "192.168.10.11"},
			want: "200; host g10/server1 by address; config default/fallback by default"},
		{name: "a role in the other namespaces goes before the own tiers", policy: decide.Trust,
			lab: labtest.StoryAnd(func(l *lab) { l.Config("zz", "edge", "ignition", sel{}) }), ask: ask{From: "192.168.10.10",
				Role: "edge"},
			want: "200; host g10/builder1 by address; config zz/edge by role"},
		{name: "a role without a config overlays the label", policy: decide.Trust,
			lab: labtest.StoryAnd(func(l *lab) {
				l.Config("g10", "gpu", "ignition", sel{MatchLabels: map[string]string{"role": "gpu"}})
			}), ask: ask{From: "192.168.10.10", Role: "gpu"},
			want: "200; host g10/builder1 by address; config g10/gpu by labels"},
		{name: "the image's config goes before defaults", lab: labtest.WithImage("live", "live-config"),
			ask:  ask{From: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/live-config by image"},
		{name: "an image elsewhere", lab: labtest.WithImage("g11/live", "live-config"), ask: ask{From: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/fallback by default"},
		{name: "an image elsewhere that names a config here", lab: labtest.WithImage("g11/live", "g10/live-config"),
			ask:  ask{From: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/live-config by image"},
		{name: "isolated, an image elsewhere counts for nothing", isolated: true, lab: labtest.WithImage("g11/live",
			"g10/live-config"), ask: ask{From: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/fallback by default"},
		{name: "localboot is no image", lab: labtest.WithImage("localboot", "live-config"), ask: ask{From: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/fallback by default"},
		{name: "isolated: a known host gets nothing from others", isolated: true, lab: withDefault,
			ask:  ask{From: "10.1.0.1"},
			want: "404; host g11/nat1 by address; config -", notices: []string{"NoConfig g11/nat1"}},
		{name: "isolated: an unknown one gets the default of default", isolated: true, lab: withDefault,
			ask:  ask{From: "192.168.66.6"},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},
		{name: "isolated: not by its MAC", isolated: true, lab: withMAC, ask: ask{From: "192.168.66.6", Neighbor: labtest.MACX},
			want: "404; host -; config -", notices: []string{"UnknownHost"}, says: "in a namespace that is no island"},
		{name: "isolated and trusted: not by role or claims", isolated: true, policy: decide.Trust,
			lab: withDefault, ask: ask{From: "192.168.66.6", Role: "builder", MAC: labtest.MACX},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},

		// The answer.
		{name: "the client's own version", ask: ask{From: "192.168.10.10", Accept: labtest.V34},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "an older client", ask: ask{From: "192.168.10.10", Accept: labtest.V33},
			want: "406; host g10/builder1 by address; config g10/coreos-builder by labels", says: "3.4.0"},
		{name: "any type will do where none names a version", ask: ask{From: "192.168.10.10", Accept: "*/*"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "/kickstart does not negotiate", ask: ask{Endpoint: decide.Kickstart, From: "192.168.10.11", Accept: "text/html"},
			want: "200; host g10/server1 by address; config g10/fedora-server by labels"},
		{name: "raw does not negotiate", ask: ask{From: "192.168.10.10", Accept: labtest.V33, Raw: true},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a config that never compiled", lab: labtest.StoryAnd(func(l *lab) { l.Configs[0].Compiled = nil }),
			ask:  ask{From: "192.168.10.10"},
			want: "503; host g10/builder1 by address; config g10/coreos-builder by labels",
			says: "config g10/coreos-builder has no compiled result of type ignition; correct the error that its status or " +
				"glowplug validate names, and"},
		{name: "a config that is being compiled", lab: labtest.StoryAnd(func(l *lab) {
			l.Configs[0].Compiled, l.Configs[0].Status.Phase = nil, v1.PhasePending
		}), ask: ask{From: "192.168.10.10"},
			want: "503; host g10/builder1 by address; config g10/coreos-builder by labels",
			says: "config g10/coreos-builder is still being compiled, and this machine is served when it asks again"},
		{name: "its source may still be had", lab: labtest.StoryAnd(func(l *lab) { l.Configs[0].Compiled = nil }),
			ask:  ask{From: "192.168.10.10", Raw: true},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "an empty artifact is never served", lab: labtest.StoryAnd(func(l *lab) { l.Configs[0].Compiled.Artifact = []byte{} }),
			ask:  ask{From: "192.168.10.10"},
			want: "503; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a newer source that does not compile", lab: labtest.StoryAnd(func(l *lab) { l.Configs[0].Generation = 2 }),
			ask:  ask{From: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "no config at all", lab: func() *lab { return &lab{} }, ask: ask{From: "192.168.66.6"},
			want: "404; host -; config -", notices: []string{"UnknownHost"}, says: "create a BareMetalHost"},
		{name: "a client without an address", lab: withDefault, ask: ask{},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := c.lab
			if make == nil {
				make = labtest.Story
			}
			inv := make().Inventory(t)
			if c.isolated {
				labtest.Mark(inv, "default", "isolated", "true")
			}
			d := decide.New(decide.Options{Inventory: inv, Policy: c.policy})
			req := c.ask.Request(t)
			dec := d.Config(req)
			if got := decide.Outcome(&dec); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := decide.ListNotices(dec.Notices); !slices.Equal(got, c.notices) {
				t.Errorf("notices %q, want %q", got, c.notices)
			}
			checkSentence(t, &dec, c.says)
			checkExplanation(t, explain.Explain(d, req), &dec, len(make().Configs))
		})
	}
}

// checkSentence has an error be one sentence that says so much.
func checkSentence(t *testing.T, d *decide.ConfigDecision, says string) {
	t.Helper()
	if d.Err == nil {
		if says != "" {
			t.Errorf("no error, want one with %q", says)
		}
		return
	}
	s := d.Err.Sentence
	if !strings.Contains(s, says) {
		t.Errorf("the sentence %q does not say %q", s, says)
	}
	if s == "" || strings.ContainsAny(s, "\n\r") || strings.HasSuffix(s, ".") || strings.Contains(s, "source of") {
		t.Errorf("%q is no sentence for a client", s)
	}
}

// checkExplanation has the explanation agree with the decision, name every
// config, and be written as JSON.
func checkExplanation(t *testing.T, e *explain.Explanation, d *decide.ConfigDecision, configs int) {
	t.Helper()
	if explained(e) != decide.Outcome(d) || !slices.Equal(explainedNotices(e), decide.ListNotices(d.Notices)) {
		t.Errorf("explained %s %q\ndecided   %s %q", explained(e), explainedNotices(e), decide.Outcome(d), decide.ListNotices(d.Notices))
	}
	if d.Err != nil && e.Error != d.Err.Sentence {
		t.Errorf("explained error %q, want %q", e.Error, d.Err.Sentence)
	}
	refused := e.Status == 403 || e.Status == 503 && e.Winner == nil && strings.Contains(e.Error, "another island")
	if !refused && len(e.Candidates) != configs || refused && len(e.Candidates) != 0 {
		t.Errorf("%d candidates of %d configs", len(e.Candidates), configs)
	}
	for i, c := range e.Candidates {
		won := e.Winner != nil && c.Config == e.Winner.Config
		if won != (c.Outcome == explain.OutcomeWinner) || won && (i != 0 || c.Tier != e.Winner.Tier) {
			t.Errorf("candidate %d %+v beside the winner %+v", i, c, e.Winner)
		}
		if c.Reason == "" || c.Type == "" || (c.Tier != "") != (c.Outcome == explain.OutcomeWinner || c.Outcome == explain.OutcomeLost) {
			t.Errorf("candidate %+v says too little", c)
		}
	}
	data, err := json.Marshal(e)
	if err != nil || !json.Valid(data) {
		t.Errorf("no JSON: %v", err)
	}
}

// explained is the same of an explanation.
func explained(e *explain.Explanation) string {
	host, config := "-", "-"
	if e.Host != "" {
		host = e.Host + " by " + e.FoundBy
	}
	if e.Winner != nil {
		config = e.Winner.Config + " by " + e.Winner.Tier
	}
	return fmt.Sprintf("%d; host %s; config %s", e.Status, host, config)
}

func explainedNotices(e *explain.Explanation) []string {
	var out []string
	for _, n := range e.Notices {
		s := n.Reason
		if n.Host != "" {
			s += " " + n.Host
		}
		out = append(out, s)
	}
	return out
}
