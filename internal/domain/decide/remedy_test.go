package decide

import (
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
)

// TestRemediesOfClaims follows the advice of each 403 about a claim to the letter: the same
// request is then answered with the config of the claimed host, with every policy, and no event
// says that the network shows another machine.
func TestRemediesOfClaims(t *testing.T) {
	nic := func(host *v1.BareMetalHost, mac, ip string) {
		host.Spec.NICs = append(host.Spec.NICs, v1.NIC{MAC: mac, IP: ip})
	}
	for _, c := range []struct {
		name string
		// own and claimed are hosts; the client claims the UUID of the second one.
		own, claimed func(*v1.BareMetalHost)
		ask          ask
		says         string
		follow       func(own, claimed *v1.BareMetalHost)
	}{
		{"no known machine: spec.ip", nil, nil, ask{From: "172.16.0.9"},
			"that of a host which does not boot from 172.16.0.9; leave the parameter out," +
				" or add this address to the host's spec.ip or spec.bootSources",
			func(_, h *v1.BareMetalHost) { h.Spec.IP = "172.16.0.9" }},
		{"no known machine: spec.bootSources", nil, nil, ask{From: "172.16.0.9"},
			"; leave the parameter out, or add this address to the host's spec.ip or spec.bootSources",
			func(_, h *v1.BareMetalHost) { h.Spec.BootSources = []string{"172.16.0.9"} }},
		{"a host by its address", func(own *v1.BareMetalHost) { own.Spec.IP = "172.16.0.9" }, nil, ask{From: "172.16.0.9"},
			"not that of host g10/own, which this client is by its address; leave the parameter out," +
				" or move 172.16.0.9 to the host with this hostname",
			func(own, h *v1.BareMetalHost) { own.Spec.IP, h.Spec.IP = "", "172.16.0.9" }},
		{"a host by its address and hardware address", func(own *v1.BareMetalHost) {
			own.Spec.IP, own.Spec.BootMACAddress = "172.16.0.9", macX
		}, nil, ask{From: "172.16.0.9", Neighbor: macX},
			"; leave the parameter out, or move 172.16.0.9 and the hardware address " + macX + " to the host with this hostname",
			func(own, h *v1.BareMetalHost) {
				own.Spec.IP, own.Spec.BootMACAddress = "", ""
				nic(h, macX, "172.16.0.9")
			}},
		{"a host by its hardware address", func(own *v1.BareMetalHost) { own.Spec.BootMACAddress = macX },
			func(h *v1.BareMetalHost) { h.Spec.BootSources = []string{"172.16.0.0/24"} },
			ask{From: "172.16.0.9", Neighbor: macX},
			"not that of host g10/own, which this client is by its hardware address; leave the parameter out," +
				" or move " + macX + " to the host with this hostname",
			func(own, h *v1.BareMetalHost) {
				own.Spec.BootMACAddress = ""
				nic(h, macX, "")
			}},
		{"on the server's network", nil, nil, ask{From: "172.16.0.9", Neighbor: macX},
			"that of a host which has other hardware addresses than this client, which is on the server's own network and so" +
				" is no NAT; leave the parameter out, or add " + macX + " to the spec.nics of the host if this is its machine",
			func(_, h *v1.BareMetalHost) { nic(h, macX, "") }},
		{"on the server's network, in its bootSources", nil,
			func(h *v1.BareMetalHost) { h.Spec.BootSources = []string{"172.16.0.0/24"} },
			ask{From: "172.16.0.9", Neighbor: macX}, "; leave the parameter out, or add " + macX + " to the spec.nics",
			func(_, h *v1.BareMetalHost) { nic(h, macX, "") }},
	} {
		for _, policy := range []Policy{{}, enforce} {
			l := &lab{}
			own, claimed := l.Host("g10", "own", "", ""), l.Host("g10", "claimed", macA, "10.1.0.1")
			l.Config("g10", "claimed", "ignition", sel{MatchHostnames: []string{"claimed"}})
			if c.own != nil {
				c.own(own)
			}
			if c.claimed != nil {
				c.claimed(claimed)
			}
			c.ask.Hostname = "claimed"
			d := New(Options{Inventory: l.Inventory(t), Policy: policy})
			dec := d.Config(c.ask.Request(t))
			if dec.Err == nil || !strings.Contains(dec.Err.Sentence, c.says) {
				t.Errorf("%s: got  %v\nwant %s", c.name, dec.Err, c.says)
			}
			silent := c.ask
			silent.Hostname = ""
			if dec = d.Config(silent.Request(t)); dec.Err != nil && dec.Err.Kind == fault.Refused {
				t.Errorf("%s, without the parameter: %v", c.name, dec.Err)
			}
			c.follow(own, claimed)
			dec = New(Options{Inventory: l.Inventory(t), Policy: policy}).Config(c.ask.Request(t))
			if got := outcome(&dec); got != "200; host g10/claimed by hostname; config g10/claimed by hostname" ||
				len(dec.Notices) > 0 {
				t.Errorf("%s, after the advice was followed: %s, notices %q", c.name, got, notices(dec.Notices))
			}
		}
	}
}

// TestBelievedCallerIsNoMachine: the question of an operator for a machine that gets 404 leaves
// no event that says that the machine has asked. The question of the machine does.
func TestBelievedCallerIsNoMachine(t *testing.T) {
	l := &lab{}
	l.Host("g10", "idle", macA, "192.168.10.10")
	d := New(Options{Inventory: l.Inventory(t)})
	for from, mac := range map[string]string{"192.168.10.10": macA, "192.168.10.66": macX} {
		for _, believed := range []bool{false, true} {
			a := ask{From: from, Neighbor: mac}
			if believed {
				a = ask{From: "127.0.0.1", MAC: mac, Believed: true}
			}
			dec := d.Config(a.Request(t))
			if dec.Err == nil || dec.Err.Kind != fault.NoMatch || (len(dec.Notices) == 0) != believed {
				t.Errorf("%+v: %v, notices %q", a, dec.Err, notices(dec.Notices))
			}
		}
	}
}

// TestRemediesWithoutAddress: an inquiry may be about a machine whose address is not known. The
// answer does not tell to create a host with it.
func TestRemediesWithoutAddress(t *testing.T) {
	l := story()
	l.Host("g10", "bare", "", "").Spec.Hostname = "bare"
	d := New(Options{Inventory: l.Inventory(t)})
	for _, c := range []struct {
		ask     ask
		says    string
		notices []string
	}{
		{ask{Role: "builder"}, "an unknown machine may not claim a role; name the address of the machine, as with --from of" +
			" glowplug explain, or leave the parameter role out", []string{"a machine whose address is not known asks" +
			" this server and is no known host; name the address of the machine, as with --from of glowplug explain"}},
		{ask{Role: "builder", Neighbor: macX}, "an unknown machine may not claim a role; create a BareMetalHost with the" +
			" hardware address " + macX + " and the label role=builder, or leave the parameter role out",
			[]string{"a machine with the hardware address " + macX + " asks this server and is no known host;" +
				" create a BareMetalHost with its hardware address"}},
		{ask{}, "no ignition config matches a machine whose address is not known; name the address of the machine, as with" +
			" --from of glowplug explain, or create a config with default: true", nil},
		{ask{Neighbor: macX}, "no ignition config matches a machine with the hardware address " + macX +
			", which is no known host; create a BareMetalHost with this hardware address, or a config with default: true", nil},
		{ask{Believed: true, MAC: macX}, "no ignition config matches a machine with the hardware address " + macX +
			", which is no known host; create a BareMetalHost with this hardware address, or a config with default: true", nil},
		{ask{Believed: true, From: "127.0.0.1", MAC: macX}, "no ignition config matches a machine with the hardware" +
			" address " + macX + ", which is no known host; create a BareMetalHost with this hardware address, or a config" +
			" with default: true", nil},
		{ask{Hostname: "bare"}, "the claimed hostname is that of a host, and no machine is recognised as this host:" +
			" set bootMACAddress, ip or bootSources", nil},
		{ask{MAC: macA}, "the claimed mac is that of a host, and it is not known where the machine asks from; leave the" +
			" parameter out, or name the address of the machine, as with --from of glowplug explain", nil},
	} {
		dec := d.Config(c.ask.Request(t))
		if dec.Err == nil || dec.Err.Sentence != c.says {
			t.Errorf("%+v: got  %v\nwant %s", c.ask, dec.Err, c.says)
		}
		for i, message := range c.notices {
			if dec.Notices[i].Message != message {
				t.Errorf("%+v: got  %s\nwant %s", c.ask, dec.Notices[i].Message, message)
			}
		}
	}
}
