package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sel = v1.IgnitionConfigSelector

const (
	macA = "ac:1f:6b:8a:a7:9c" // of g10/builder1
	macB = "ac:1f:6b:8a:a7:9d" // of g10/server1
	macC = "ac:1f:6b:8a:a7:9e" // of g11/nat1
	macD = "ac:1f:6b:8a:a7:9f" // of g10/macOnly
	macX = "02:00:00:00:00:99" // of no host

	uuidA = "4c4c4544-0042-3510-8056-b4c04f4e3132"
	uuidX = "4c4c4544-0042-3510-8056-b4c04f4e3199"

	v34 = "application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1"
	v33 = "application/vnd.coreos.ignition+json;version=3.3.0, */*;q=0.1"
)

// story is the specification's: a builder, its target, a server's kickstart;
// and hosts that are harder to recognise.
func story() *lab {
	l := &lab{}
	a := l.host("g10", "builder1", macA, "192.168.10.10", "role", "builder")
	a.Spec.SystemUUID = uuidA
	a.Spec.Hostname = "builder1.lab"
	a.Spec.NICs = []v1.NIC{{MAC: "ac:1f:6b:8a:a7:aa", IP: "192.168.20.10", Hostname: "builder1-mgmt"}}
	l.host("g10", "server1", macB, "192.168.10.11", "role", "server")
	c := l.host("g11", "nat1", macC, "10.1.0.1")
	c.Spec.BootSources = []string{"172.16.0.0/24", "192.168.10.0/24"}
	l.host("g10", "maconly", macD, "", "role", "builder")
	l.config("g10", "coreos-builder", "ignition", sel{MatchLabels: map[string]string{"role": "builder"}})
	l.config("g10", "builder-target", "ignition", sel{})
	l.config("g10", "fedora-server", "kickstart", sel{MatchLabels: map[string]string{"role": "server"}})
	return l
}

func storyAnd(change func(*lab)) func() *lab {
	return func() *lab { l := story(); change(l); return l }
}

var (
	trust       = Policy{Claims: identity.Trust}
	deny        = Policy{Claims: identity.Deny}
	enforce     = Policy{Neighbors: identity.NeighborsEnforce}
	withDefault = storyAnd(func(l *lab) { l.config("default", "fallback", "ignition", sel{Default: true}) })
	withMAC     = storyAnd(func(l *lab) { l.config("g11", "by-mac", "ignition", sel{MatchMACs: []string{macX}}) })
	withOwnMAC  = storyAnd(func(l *lab) { l.config("g10", "by-mac", "ignition", sel{MatchMACs: []string{macX}}) })
	withNAT     = storyAnd(func(l *lab) {
		l.host("g11", "nat2", "ac:1f:6b:8a:a7:a0", "10.1.0.2").Spec.BootSources = []string{"172.16.0.0/24"}
		l.config("g11", "nat-config", "ignition", sel{MatchHostnames: []string{"nat1"}})
	})
)

// TestContract has a case for each sentence of the contract's "Serving".
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy Policy
		// isolated has all namespaces but default islands.
		isolated bool
		lab      func() *lab
		ask      ask
		want     string
		notices  []string
		says     string // part of the client's sentence
	}{
		// Who asks.
		{name: "a host by its address", ask: ask{from: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a host by a further card's address", ask: ask{from: "192.168.20.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a host known by MAC alone, through the neighbour table", ask: ask{from: "192.168.10.77", neighbor: macD},
			want: "200; host g10/maconly by neighbor; config g10/coreos-builder by labels"},
		{name: "neighbours off: it is not found", policy: Policy{Neighbors: identity.NeighborsOff},
			ask:  ask{from: "192.168.10.77", neighbor: macD},
			want: "404; host -; config -", notices: []string{"UnknownHost"}},
		{name: "the address goes before the neighbour", ask: ask{from: "192.168.10.10", neighbor: macB},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"NeighborMismatch g10/builder1"}},
		{name: "a contradicting neighbour, enforced", policy: enforce, ask: ask{from: "192.168.10.10", neighbor: macX},
			want: "403; host g10/builder1 by address; config -", notices: []string{"NeighborMismatch g10/builder1"},
			says: "add it to the host's spec.nics"},
		{name: "an agreeing neighbour, enforced", policy: enforce, ask: ask{from: "192.168.10.10",
			neighbor: "ac:1f:6b:8a:a7:aa"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "no entry is no contradiction", policy: enforce, ask: ask{from: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "an entry that has changed", ask: ask{from: "192.168.10.10", neighbor: macA, former: macX},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"NeighborChanged g10/builder1"}},
		{name: "an entry that has changed, enforced", policy: enforce, ask: ask{from: "192.168.10.10", neighbor: macA,
			former: macX},
			want: "403; host g10/builder1 by address; config -", notices: []string{"NeighborChanged g10/builder1"},
			says: "connect again in a minute"},
		{name: "an entry that has changed, of a host found by it, enforced", policy: enforce, ask: ask{from: "192.168.10.77",
			neighbor: macD, former: macX},
			want: "403; host g10/maconly by neighbor; config -", notices: []string{"NeighborChanged g10/maconly"}},
		{name: "an entry that has changed to another machine's", ask: ask{from: "192.168.10.10", neighbor: macX,
			former: macA},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"NeighborMismatch g10/builder1"}},
		{name: "an entry that has changed, of no host", policy: enforce, ask: ask{from: "192.168.66.6", neighbor: macX,
			former: macA},
			want: "404; host -; config -", notices: []string{"UnknownHost"}},
		{name: "an entry that has changed, neighbours off", policy: Policy{Neighbors: identity.NeighborsOff},
			ask:  ask{from: "192.168.10.10", neighbor: macA, former: macX},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a host without known MACs, whose entry has changed", policy: enforce,
			lab: storyAnd(func(l *lab) { l.host("g10", "iponly", "", "192.168.10.30", "role", "builder") }),
			ask: ask{from: "192.168.10.30", neighbor: macX, former: macA}, want: "403; host g10/iponly by address; config -",
			notices: []string{"NeighborChanged g10/iponly"}},
		{name: "a host without known MACs is not contradicted", policy: enforce,
			lab:  storyAnd(func(l *lab) { l.host("g10", "iponly", "", "192.168.10.30", "role", "builder") }),
			ask:  ask{from: "192.168.10.30", neighbor: macX},
			want: "200; host g10/iponly by address; config g10/coreos-builder by labels"},

		// Claims, verified.
		{name: "verify: the ip claim equals the client", ask: ask{from: "192.168.10.10", ip: "192.168.10.10"},
			want: "200; host g10/builder1 by ip; config g10/coreos-builder by labels"},
		{name: "verify: another ip", ask: ask{from: "192.168.10.99", ip: "192.168.10.10"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"},
			says: "not the address of this client"},
		{name: "verify: another ip, of nobody, is on the client's host", ask: ask{from: "192.168.10.10", ip: "192.168.10.99"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: another ip, of nobody, from nobody", ask: ask{from: "192.168.10.98", ip: "192.168.10.99"},
			want: "403; host -; config -", notices: []string{"ClaimRefused"}},
		{name: "verify: a true mac", ask: ask{from: "192.168.10.10", mac: macA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "verify: a true uuid", ask: ask{from: "192.168.10.10", uuid: uuidA},
			want: "200; host g10/builder1 by uuid; config g10/coreos-builder by labels"},
		{name: "verify: a true hostname, short", ask: ask{from: "192.168.10.10", hostname: "builder1"},
			want: "200; host g10/builder1 by hostname; config g10/coreos-builder by labels"},
		{name: "verify: the first of mac, ip, uuid, hostname", ask: ask{from: "192.168.10.10", hostname: "builder1",
			uuid: uuidA, ip: "192.168.10.10"},
			want: "200; host g10/builder1 by ip; config g10/coreos-builder by labels"},
		{name: "verify: an unknown client claims a host's mac", ask: ask{from: "192.168.66.6", mac: macA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}, says: "spec.bootSources"},
		{name: "verify: an unknown client claims a host's uuid", ask: ask{from: "192.168.66.6", uuid: uuidA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: an unknown client claims a host's name", ask: ask{from: "192.168.66.6", hostname: "builder1-mgmt"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: a host claims another's mac", ask: ask{from: "192.168.10.11", mac: macA},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/builder1"}},
		{name: "verify: a host claims another's hostname", ask: ask{from: "192.168.10.11", mac: macB, hostname: "builder1"},
			want: "403; host g10/server1 by mac; config -", notices: []string{"ClaimRefused g10/builder1"},
			says: "is not that of host g10/server1"},
		{name: "verify: a bootSource is a place to claim from", lab: withNAT, ask: ask{from: "172.16.0.9", mac: macC},
			want: "200; host g11/nat1 by mac; config g11/nat-config by hostname"},
		{name: "verify: but not for who is another host", ask: ask{from: "192.168.10.10", mac: macC},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}},
		{name: "verify: nor for who is another host by its neighbour entry", lab: withNAT, ask: ask{from: "172.16.0.9",
			neighbor: macD, mac: macC},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}},
		{name: "verify: nor on-link with another MAC", lab: withNAT, ask: ask{from: "172.16.0.9", neighbor: macX,
			hostname: "nat1"},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}, says: "is no NAT"},
		{name: "verify: nor with another MAC where the neighbour entry is the one claimed", lab: withNAT,
			ask:  ask{from: "172.16.0.9", neighbor: macX, mac: macC},
			want: "403; host -; config -", notices: []string{"ClaimRefused g11/nat1"}, says: "is no NAT"},
		{name: "verify: but on-link with its own MAC", lab: withNAT, ask: ask{from: "172.16.0.9", neighbor: macC,
			hostname: "nat1"},
			want: "200; host g11/nat1 by hostname; config g11/nat-config by hostname"},
		{name: "verify: or where its MACs are not known", lab: storyAnd(func(l *lab) {
			l.host("g11", "nat3", "", "10.1.0.3", "role", "builder").Spec.BootSources = []string{"172.16.0.0/24"}
		}), ask: ask{from: "172.16.0.9", neighbor: macX, hostname: "nat3"},
			want: "200; host g11/nat3 by hostname; config g10/coreos-builder by labels"},
		{name: "verify: or where the neighbour table is not used", lab: withNAT,
			policy: Policy{Neighbors: identity.NeighborsOff},
			ask:    ask{from: "172.16.0.9", neighbor: macX, hostname: "nat1"},
			want:   "200; host g11/nat1 by hostname; config g11/nat-config by hostname"},
		{name: "verify: nobody is two hosts", lab: withNAT, ask: ask{from: "172.16.0.9", mac: macC, hostname: "nat2"},
			want: "403; host g11/nat1 by mac; config -", notices: []string{"ClaimRefused g11/nat2"}},
		{name: "a bootSource alone finds nobody", lab: withNAT, ask: ask{from: "172.16.0.9"},
			want: "404; host -; config -", notices: []string{"UnknownHost"}},
		{name: "verify: no known address, and the neighbour entry agrees", ask: ask{from: "192.168.10.77", neighbor: macD,
			hostname: "maconly"},
			want: "200; host g10/maconly by hostname; config g10/coreos-builder by labels"},
		{name: "verify: no known address, and no neighbour entry", ask: ask{from: "192.168.10.77", mac: macD},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/maconly"}},
		{name: "verify: no known address, and another neighbour entry", ask: ask{from: "192.168.10.77", neighbor: macX,
			mac: macD},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/maconly"}},
		{name: "verify: no known address, from another host's", ask: ask{from: "192.168.10.11", neighbor: macD, mac: macD},
			want: "403; host -; config -", notices: []string{"ClaimRefused g10/maconly"}},
		{name: "verify: a claim that names nobody is ignored", lab: withMAC, ask: ask{from: "192.168.66.6", mac: macX,
			hostname: "nobody", uuid: uuidX},
			want: "404; host -; config -", notices: []string{"ClaimIgnored", "ClaimIgnored", "ClaimIgnored", "UnknownHost"},
			says: "; claims ignored, since no BareMetalHost has them: mac " + macX + ", uuid " + uuidX + ", hostname nobody"},
		{name: "a 404 of a known host names the claims that were ignored", ask: ask{endpoint: Kickstart,
			from: "192.168.10.10", hostname: "localhost"},
			want: "404; host g10/builder1 by address; config -", notices: []string{"ClaimIgnored g10/builder1", "NoConfig g10/builder1"},
			says: "; claims ignored, since no BareMetalHost has them: hostname localhost"},
		{name: "a 404 says that claims are denied", policy: deny, ask: ask{from: "192.168.66.6", mac: macA},
			want: "404; host -; config -", notices: []string{"UnknownHost"},
			says: "; claims ignored by the server's --identity-claims=deny: mac " + macA},
		{name: "a 404 names the MAC that the server knows", ask: ask{from: "192.168.66.6", neighbor: macX},
			want: "404; host -; config -", notices: []string{"UnknownHost"},
			says: "matches 192.168.66.6 (" + macX + "), which is no known host"},
		{name: "verify: also of a known host", ask: ask{from: "192.168.10.10", hostname: "localhost"},
			want:    "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"ClaimIgnored g10/builder1"}},
		{name: "verify: an unknown client's neighbour entry is a fact", lab: withMAC, ask: ask{from: "192.168.66.6",
			neighbor: macX},
			want: "200; host -; config g11/by-mac by mac", notices: []string{"UnknownHost"}},
		{name: "verify: and a mac claim equal to it holds", lab: withMAC, ask: ask{from: "192.168.66.6", neighbor: macX,
			mac: macX},
			want: "200; host -; config g11/by-mac by mac", notices: []string{"UnknownHost"}},
		{name: "verify: a host's own role", ask: ask{from: "192.168.10.10", role: "builder"},
			want: "200; host g10/builder1 by address; config g10/builder-target by role"},
		{name: "verify: another role", ask: ask{from: "192.168.10.11", role: "builder"},
			want: "403; host g10/server1 by address; config -", notices: []string{"ClaimRefused g10/server1"},
			says: "set the label"},
		{name: "verify: an unknown client may not claim a role", ask: ask{from: "192.168.66.6", role: "builder"},
			want: "403; host -; config -", notices: []string{"UnknownHost", "ClaimRefused"},
			says: "an unknown machine may not claim a role; create a BareMetalHost with the address 192.168.66.6 and the label" +
				" role=builder, or leave the parameter role out"},

		// Claims, believed or ignored.
		{name: "trust: another host's mac", policy: trust, ask: ask{from: "192.168.66.6", mac: macA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "trust: mac goes before ip", policy: trust, ask: ask{from: "192.168.66.6", ip: "192.168.10.11", mac: macA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "trust: what names nobody is a fact", policy: trust, lab: withMAC, ask: ask{from: "192.168.66.6", mac: macX},
			want: "200; host -; config g11/by-mac by mac", notices: []string{"UnknownHost"}},
		{name: "trust: a hostname of nobody is a fact", policy: trust,
			lab: storyAnd(func(l *lab) { l.config("g11", "by-name", "ignition", sel{MatchHostnames: []string{"New1.lab"}}) }),
			ask: ask{from: "192.168.66.6", hostname: "new1"}, want: "200; host -; config g11/by-name by hostname",
			notices: []string{"UnknownHost"}},
		{name: "trust: any role", policy: trust, ask: ask{from: "192.168.66.6", role: "builder"},
			want: "200; host -; config g10/builder-target by role", notices: []string{"UnknownHost"}},
		{name: "trust: an ip claim stands in for the address", policy: trust,
			lab: storyAnd(func(l *lab) { l.config("g11", "by-ip", "ignition", sel{MatchIPs: []string{"10.7.0.0/16"}}) }),
			ask: ask{from: "192.168.10.10", ip: "10.7.0.1", neighbor: macA}, want: "200; host -; config g11/by-ip by ip",
			notices: []string{"UnknownHost"}},
		{name: "deny: all claims are ignored", policy: deny, ask: ask{from: "192.168.10.10", mac: macB, ip: "192.168.10.11",
			hostname: "server1", uuid: uuidX, role: "x"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a believed caller is believed under verify", ask: ask{from: "127.0.0.1", believed: true, mac: macA,
			role: "builder"},
			want: "200; host g10/builder1 by mac; config g10/builder-target by role"},
		{name: "a believed caller is believed under deny", policy: deny, ask: ask{from: "127.0.0.1", believed: true,
			ip: "192.168.10.10"},
			want: "200; host g10/builder1 by ip; config g10/coreos-builder by labels"},
		{name: "a believed caller's own neighbour entry changes nothing", policy: enforce, ask: ask{from: "192.168.66.6",
			neighbor: macX, former: macB, believed: true, mac: macA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "a believed caller's own neighbour entry contradicts nothing", policy: enforce, ask: ask{from: "192.168.66.6",
			neighbor: macX, believed: true, mac: macA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "a believed caller that claims nothing is its address", ask: ask{from: "192.168.10.10", believed: true},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},

		// Which host.
		{name: "nobody: claims and address alone", lab: withDefault, ask: ask{from: "192.168.66.6"},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},
		{name: "two hosts with one IP: the older wins", lab: storyAnd(func(l *lab) {
			l.host("a", "twin", macX,
				"192.168.10.10")
		}), ask: ask{from: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "two hosts with one IP: the younger by its mac", lab: storyAnd(func(l *lab) {
			l.host("g10", "twin", macX,
				"192.168.10.10", "role", "builder")
		}),
			ask: ask{from: "192.168.10.10", mac: macX}, want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC: each is itself at its address", lab: storyAnd(func(l *lab) {
			l.host("g10", "twin",
				macA, "192.168.10.12", "role", "builder")
		}),
			ask: ask{from: "192.168.10.12", mac: macA}, want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC, believed: the older", lab: storyAnd(func(l *lab) {
			l.host("g10", "twin", macA,
				"192.168.10.12")
		}),
			ask:  ask{from: "127.0.0.1", believed: true, mac: macA},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC, believed: the younger with its own address", lab: storyAnd(func(l *lab) {
			l.host("g10", "twin", macA, "192.168.10.12", "role", "builder")
		}), ask: ask{from: "127.0.0.1", believed: true, mac: macA, ip: "192.168.10.12"},
			want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "two hosts with one MAC, trusted: the younger from its own address", policy: trust,
			lab:  storyAnd(func(l *lab) { l.host("g10", "twin", macA, "192.168.10.12", "role", "builder") }),
			ask:  ask{from: "192.168.10.12", mac: macA},
			want: "200; host g10/twin by mac; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: no foreign MAC", lab: withOwnMAC,
			ask:  ask{from: "127.0.0.1", believed: true, mac: macX, hostname: "builder1"},
			want: "200; host g10/builder1 by hostname; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: also found by its address", policy: trust, lab: withOwnMAC,
			ask:  ask{from: "192.168.10.10", mac: macX},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: no foreign hostname", policy: trust,
			lab:  storyAnd(func(l *lab) { l.config("g10", "by-name", "ignition", sel{MatchHostnames: []string{"other"}}) }),
			ask:  ask{from: "192.168.66.6", mac: macA, hostname: "other"},
			want: "200; host g10/builder1 by mac; config g10/coreos-builder by labels"},
		{name: "a found host has its own facts only: ignored claims neither", lab: withOwnMAC, ask: ask{from: "192.168.10.10",
			mac: macX}, want: "200; host g10/builder1 by address; config g10/coreos-builder by labels",
			notices: []string{"ClaimIgnored g10/builder1"}},
		{name: "two of one namespace are served under isolation", isolated: true, lab: storyAnd(func(l *lab) {
			l.host("g10",
				"twin", macX, "192.168.10.10")
		}),
			ask: ask{from: "192.168.10.10"}, want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "between two islands: the older asks again", isolated: true,
			lab: storyAnd(func(l *lab) { l.host("a", "twin", macX, "192.168.10.10") }),
			ask: ask{from: "192.168.10.10"}, want: "503; host g10/builder1 by address; config -",
			notices: []string{"DuplicateIdentity g10/builder1", "DuplicateIdentity a/twin"}, says: "shares IP 192.168.10.10"},
		{name: "between two islands: so does the younger", isolated: true,
			lab: storyAnd(func(l *lab) { l.host("a", "twin", macA, "") }),
			ask: ask{from: "192.168.66.6", neighbor: macA}, want: "503; host g10/builder1 by neighbor; config -",
			notices: []string{"DuplicateIdentity g10/builder1", "DuplicateIdentity a/twin"}, says: "shares MAC " + macA},
		{name: "between two islands: the own address wins", isolated: true,
			lab: storyAnd(func(l *lab) { l.host("a", "twin", macA, "192.168.10.12") }),
			ask: ask{from: "192.168.10.12"}, want: "404; host a/twin by address; config -",
			notices: []string{"NoConfig a/twin"}, says: "no ignition config matches host a/twin"},

		// Which config.
		{name: "/kickstart gives kickstart alone", ask: ask{endpoint: Kickstart, from: "192.168.10.11"},
			want: "200; host g10/server1 by address; config g10/fedora-server by labels"},
		{name: "/kickstart never gives ignition", ask: ask{endpoint: Kickstart, from: "192.168.10.10"},
			want: "404; host g10/builder1 by address; config -", notices: []string{"NoConfig g10/builder1"},
			says: "no kickstart config matches host g10/builder1"},
		{name: "/ignition gives kickstart where no ignition matches", ask: ask{from: "192.168.10.11", accept: "*/*"},
			want: "200; host g10/server1 by address; config g10/fedora-server by labels"},
		{name: "but not to who names an Ignition type", ask: ask{from: "192.168.10.11", accept: v34},
			want: "404; host g10/server1 by address; config -", notices: []string{"NoConfig g10/server1"},
			says: "default: true"},
		{name: "and not where an ignition default matches", lab: withDefault, ask: ask{from: "192.168.10.11"},
			want: "200; host g10/server1 by address; config default/fallback by default"},
		{name: "a role in the other namespaces goes before the own tiers", policy: trust,
			lab: storyAnd(func(l *lab) { l.config("zz", "edge", "ignition", sel{}) }), ask: ask{from: "192.168.10.10",
				role: "edge"},
			want: "200; host g10/builder1 by address; config zz/edge by role"},
		{name: "a role without a config overlays the label", policy: trust,
			lab: storyAnd(func(l *lab) {
				l.config("g10", "gpu", "ignition", sel{MatchLabels: map[string]string{"role": "gpu"}})
			}), ask: ask{from: "192.168.10.10", role: "gpu"},
			want: "200; host g10/builder1 by address; config g10/gpu by labels"},
		{name: "the image's config goes before defaults", lab: withImage("live", "live-config"),
			ask:  ask{from: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/live-config by image"},
		{name: "an image elsewhere", lab: withImage("g11/live", "live-config"), ask: ask{from: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/fallback by default"},
		{name: "an image elsewhere that names a config here", lab: withImage("g11/live", "g10/live-config"),
			ask:  ask{from: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/live-config by image"},
		{name: "isolated, an image elsewhere counts for nothing", isolated: true, lab: withImage("g11/live",
			"g10/live-config"), ask: ask{from: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/fallback by default"},
		{name: "localboot is no image", lab: withImage("localboot", "live-config"), ask: ask{from: "192.168.10.40"},
			want: "200; host g10/booter by address; config g10/fallback by default"},
		{name: "isolated: a known host gets nothing from others", isolated: true, lab: withDefault,
			ask:  ask{from: "10.1.0.1"},
			want: "404; host g11/nat1 by address; config -", notices: []string{"NoConfig g11/nat1"}},
		{name: "isolated: an unknown one gets the default of default", isolated: true, lab: withDefault,
			ask:  ask{from: "192.168.66.6"},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},
		{name: "isolated: not by its MAC", isolated: true, lab: withMAC, ask: ask{from: "192.168.66.6", neighbor: macX},
			want: "404; host -; config -", notices: []string{"UnknownHost"}, says: "in a namespace that is no island"},
		{name: "isolated and trusted: not by role or claims", isolated: true, policy: trust,
			lab: withDefault, ask: ask{from: "192.168.66.6", role: "builder", mac: macX},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},

		// The answer.
		{name: "the client's own version", ask: ask{from: "192.168.10.10", accept: v34},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "an older client", ask: ask{from: "192.168.10.10", accept: v33},
			want: "406; host g10/builder1 by address; config g10/coreos-builder by labels", says: "3.4.0"},
		{name: "any type will do where none names a version", ask: ask{from: "192.168.10.10", accept: "*/*"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "/kickstart does not negotiate", ask: ask{endpoint: Kickstart, from: "192.168.10.11", accept: "text/html"},
			want: "200; host g10/server1 by address; config g10/fedora-server by labels"},
		{name: "raw does not negotiate", ask: ask{from: "192.168.10.10", accept: v33, raw: true},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a config that never compiled", lab: storyAnd(func(l *lab) { l.configs[0].Compiled = nil }),
			ask:  ask{from: "192.168.10.10"},
			want: "503; host g10/builder1 by address; config g10/coreos-builder by labels",
			says: "config g10/coreos-builder has no compiled result of type ignition; correct the error that its status or " +
				"glowplug validate names, and"},
		{name: "a config that is being compiled", lab: storyAnd(func(l *lab) {
			l.configs[0].Compiled, l.configs[0].Status.Phase = nil, v1.PhasePending
		}), ask: ask{from: "192.168.10.10"},
			want: "503; host g10/builder1 by address; config g10/coreos-builder by labels",
			says: "config g10/coreos-builder is still being compiled, and this machine is served when it asks again"},
		{name: "its source may still be had", lab: storyAnd(func(l *lab) { l.configs[0].Compiled = nil }),
			ask:  ask{from: "192.168.10.10", raw: true},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "an empty artifact is never served", lab: storyAnd(func(l *lab) { l.configs[0].Compiled.Artifact = []byte{} }),
			ask:  ask{from: "192.168.10.10"},
			want: "503; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "a newer source that does not compile", lab: storyAnd(func(l *lab) { l.configs[0].Generation = 2 }),
			ask:  ask{from: "192.168.10.10"},
			want: "200; host g10/builder1 by address; config g10/coreos-builder by labels"},
		{name: "no config at all", lab: func() *lab { return &lab{} }, ask: ask{from: "192.168.66.6"},
			want: "404; host -; config -", notices: []string{"UnknownHost"}, says: "create a BareMetalHost"},
		{name: "a client without an address", lab: withDefault, ask: ask{},
			want: "200; host -; config default/fallback by default", notices: []string{"UnknownHost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := c.lab
			if make == nil {
				make = story
			}
			inv := make().inventory(t)
			if c.isolated {
				mark(inv, "default", "isolated", "true")
			}
			d := New(Options{Inventory: inv, Policy: c.policy})
			req := c.ask.request(t)
			dec := d.Config(req)
			if got := outcome(&dec); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := notices(dec.Notices); !slices.Equal(got, c.notices) {
				t.Errorf("notices %q, want %q", got, c.notices)
			}
			checkSentence(t, &dec, c.says)
			checkExplanation(t, d.Explain(req), &dec, len(make().configs))
		})
	}
}

// withImage adds a host that boots an image which names a config, and a default.
func withImage(image, config string) func() *lab {
	return storyAnd(func(l *lab) {
		l.host("g10", "booter", "", "192.168.10.40").Spec.Image = image
		l.config("g10", "fallback", "ignition", sel{Default: true})
		l.config("g10", "live-config", "ignition", sel{})
		l.image("g10", "live", config)
		l.image("g11", "live", config)
		l.image("g10", "localboot", config)
	})
}

// checkSentence has an error be one sentence that says so much.
func checkSentence(t *testing.T, d *ConfigDecision, says string) {
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
func checkExplanation(t *testing.T, e *Explanation, d *ConfigDecision, configs int) {
	t.Helper()
	if explained(e) != outcome(d) || !slices.Equal(explainedNotices(e), notices(d.Notices)) {
		t.Errorf("explained %s %q\ndecided   %s %q", explained(e), explainedNotices(e), outcome(d), notices(d.Notices))
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
		if won != (c.Outcome == OutcomeWinner) || won && (i != 0 || c.Tier != e.Winner.Tier) {
			t.Errorf("candidate %d %+v beside the winner %+v", i, c, e.Winner)
		}
		if c.Reason == "" || c.Type == "" || (c.Tier != "") != (c.Outcome == OutcomeWinner || c.Outcome == OutcomeLost) {
			t.Errorf("candidate %+v says too little", c)
		}
	}
	data, err := json.Marshal(e)
	if err != nil || !json.Valid(data) {
		t.Errorf("no JSON: %v", err)
	}
}
