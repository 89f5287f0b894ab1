package decide

import (
	"testing"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// TestAnyCardIdentifiesTheHost: a machine names all of its cards, and one that fits is enough.
func TestAnyCardIdentifiesTheHost(t *testing.T) {
	mac := func(s string) identity.Card {
		if netaddr.IsOtherMAC(s) {
			return identity.Card{OtherMAC: s}
		}
		m, err := netaddr.ParseMAC(s)
		if err != nil {
			t.Fatal(err)
		}
		return identity.Card{MAC: m}
	}
	const macY = "02:00:00:00:00:98"
	l := withNAT()
	withPort(l.Hosts, "nat1", portA)
	for _, c := range []struct {
		name    string
		policy  Policy
		ask     ask
		cards   []string
		want    string
		guesses int
	}{
		{"the second card, from a boot source", Policy{}, ask{From: "172.16.0.9"}, []string{macX, macC},
			"200; host g11/nat1 by mac; config g11/nat-config by hostname", 0},
		{"the second card, from its address", Policy{}, ask{From: "192.168.10.10"}, []string{macX, macA},
			"200; host g10/builder1 by mac; config g10/coreos-builder by labels", 0},
		{"of two hosts the own one", Policy{}, ask{From: "192.168.10.10"}, []string{macC, macA},
			"200; host g10/builder1 by mac; config g10/coreos-builder by labels", 0},
		{"trusted", trust, ask{From: "192.168.66.6"}, []string{macX, macA},
			"200; host g10/builder1 by mac; config g10/coreos-builder by labels", 0},
		{"of another host", Policy{}, ask{From: "192.168.66.6"}, []string{macX, macA}, "403; host -; config -", 0},
		{"of nobody: each is a guess", Policy{}, ask{From: "192.168.66.6"}, []string{macX, macY},
			"404; host -; config -", 2},
		{"a port of InfiniBand, beside a card of no host", Policy{}, ask{From: "172.16.0.9"}, []string{macX, portB, portA},
			"200; host g11/nat1 by mac; config g11/nat-config by hostname", 0},
		{"a port of InfiniBand of another host", Policy{}, ask{From: "192.168.66.6"}, []string{macX, portA},
			"403; host -; config -", 0},
		{"ports of nobody: each is a guess", Policy{}, ask{From: "192.168.66.6"}, []string{macX, portB},
			"404; host -; config -", 2},
		{"denied", deny, ask{From: "192.168.66.6"}, []string{macX, macA}, "404; host -; config -", 0},
	} {
		d := New(Options{Inventory: l.Inventory(t), Policy: c.policy})
		req := c.ask.Request(t)
		for _, card := range c.cards {
			req.Cards = append(req.Cards, mac(card))
		}
		req.Claims.MAC = req.Cards[0].MAC
		dec := d.Config(req)
		if got := outcome(&dec); got != c.want || len(dec.Unheld.Ignored) != c.guesses {
			t.Errorf("%s: %s, guesses %q; want %s, %d", c.name, got, dec.Unheld.Ignored, c.want, c.guesses)
		}
	}
	// A limited source has nothing looked up.
	d := New(Options{Inventory: withNAT().Inventory(t)})
	req := ask{From: "172.16.0.9"}.Request(t)
	req.Cards, req.ClaimLimit = []identity.Card{mac(macX), mac(macC)}, AllLimited
	if req.Claims.MAC = req.Cards[0].MAC; d.Config(req).Err != ClaimsLimited {
		t.Error("a limited source is answered")
	}
}
