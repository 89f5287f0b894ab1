package decide

import (
	"testing"

	v1 "glowplug/api/v1"
)

// Addresses of InfiniBand: portA and portB are those of ports, and guidA is a GUID.
const (
	portA = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2"
	portB = "80:00:02:09:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f3"
	guidA = "00:02:c9:03:00:31:78:f2"
)

// withPort gives hosts with a name a further card.
func withPort(hosts []*v1.BareMetalHost, name, mac string) {
	for _, h := range hosts {
		if h.Name == name {
			h.Spec.NICs = append(h.Spec.NICs, v1.NIC{MAC: mac})
		}
	}
}

// TestOtherMACIdentifiesItsHost: a hardware address that is none of Ethernet finds the host whose nics have exactly
// it, by the rules for a MAC; one of no host is neither malformed nor refused, and identifies nobody.
func TestOtherMACIdentifiesItsHost(t *testing.T) {
	const nat1, builder1 = "200; host g11/nat1 by mac; config g11/nat-config by hostname",
		"200; host g10/builder1 by address; config g10/coreos-builder by labels"
	for _, c := range []struct {
		name   string
		policy Policy
		port   string // of nat1
		limit  Limit
		ask    ask
		want   string
		reason string // of the only event about a claim
	}{
		{"from a boot source", Policy{}, portA, 0, ask{From: "172.16.0.9", OtherMAC: portA}, nat1, ""},
		{"a GUID", Policy{}, guidA, 0, ask{From: "172.16.0.9", OtherMAC: guidA}, nat1, ""},
		{"beside a MAC of no host", Policy{}, portA, 0, ask{From: "172.16.0.9", MAC: macX, OtherMAC: portA}, nat1,
			ReasonClaimIgnored},
		{"trusted", trust, portA, 0, ask{From: "192.168.66.6", OtherMAC: portA}, nat1, ""},
		{"believed", Policy{}, portA, 0, ask{From: "192.168.66.6", OtherMAC: portA, Believed: true}, nat1, ""},
		{"denied", deny, portA, 0, ask{From: "172.16.0.9", OtherMAC: portA}, "404; host -; config -", ""},
		{"from elsewhere", Policy{}, portA, 0, ask{From: "192.168.66.6", OtherMAC: portA}, "403; host -; config -",
			ReasonClaimRefused},
		{"by another host", Policy{}, portA, 0, ask{From: "192.168.10.10", OtherMAC: portA}, "403; host -; config -",
			ReasonClaimRefused},
		{"on-link with an Ethernet address of another machine", Policy{}, portA, 0,
			ask{From: "172.16.0.9", Neighbor: macX, OtherMAC: portA}, "403; host -; config -", ReasonClaimRefused},
		{"the end of an address alone", Policy{}, portA, 0, ask{From: "172.16.0.9", OtherMAC: guidA},
			"404; host -; config -", ReasonClaimIgnored},
		{"of nobody, by a known host", Policy{}, portA, 0, ask{From: "192.168.10.10", OtherMAC: portB}, builder1,
			ReasonClaimIgnored},
		{"where no host has any", Policy{}, "", 0, ask{From: "172.16.0.9", OtherMAC: portA}, "404; host -; config -", ""},
		{"where no host has any, by a known host", Policy{}, "", 0, ask{From: "192.168.10.10", OtherMAC: portA},
			builder1, ""},
		{"where no host has any, by a limited host", Policy{}, "", AllLimited,
			ask{From: "192.168.10.10", OtherMAC: portA}, builder1, ""},
		{"a limited source", Policy{}, portA, AllLimited, ask{From: "172.16.0.9", OtherMAC: portA},
			"503; host -; config -", ""},
	} {
		l := withNAT()
		for _, h := range l.Hosts {
			if h.Name == "nat1" {
				h.Spec.BootMACAddress = ""
			}
		}
		if c.port != "" {
			withPort(l.Hosts, "nat1", c.port)
		}
		req := c.ask.Request(t)
		req.ClaimLimit = c.limit
		dec := New(Options{Inventory: l.Inventory(t), Policy: c.policy}).Config(req)
		reason, guesses := "", len(dec.Unheld.Ignored)
		for _, n := range dec.Notices {
			if n.Reason == ReasonClaimRefused || n.Reason == ReasonClaimIgnored {
				reason += n.Reason
			}
		}
		if got := outcome(&dec); got != c.want || reason != c.reason || (guesses > 0) != (reason == ReasonClaimIgnored) {
			t.Errorf("%s: %s, %q, %d guesses; want %s, %q", c.name, got, reason, guesses, c.want, c.reason)
		}
	}
}

// TestOtherMACBesideAMAC: the guesses of a machine behind NAT are counted by the claim that identifies it.
func TestOtherMACBesideAMAC(t *testing.T) {
	l := withNAT()
	withPort(l.Hosts, "nat1", portA)
	dec := New(Options{Inventory: l.Inventory(t)}).Config(
		ask{From: "172.16.0.9", MAC: macC, OtherMAC: portB}.Request(t))
	if got := dec.Unheld.Beside; dec.Host == nil || got != "mac "+macC || len(dec.Unheld.Ignored) != 1 {
		t.Errorf("%s, identified by %q, ignored %q", outcome(&dec), got, dec.Unheld.Ignored)
	}
}
