package model

import (
	"encoding/json"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
)

// TestCards: each card has the address and the name that the spec gives to it, and no card that of another one.
func TestCards(t *testing.T) {
	const boot, data, bare = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"
	nics := []v1.NIC{{MAC: data, IP: "10.0.0.2", Hostname: "data"}, {MAC: bare}}
	for name, c := range map[string]struct {
		spec v1.BareMetalHostSpec
		want map[string]string // of a hardware address
	}{
		"each has its own": {v1.BareMetalHostSpec{BootMACAddress: boot, IP: "10.0.0.1", Hostname: "n", NICs: nics},
			map[string]string{boot: "10.0.0.1 n", data: "10.0.0.2 data", bare: "invalid IP n", "52:54:00:00:00:09": "10.0.0.1 n"}},
		"no boot card": {v1.BareMetalHostSpec{IP: "10.0.0.1", Hostname: "n", NICs: nics},
			map[string]string{data: "10.0.0.2 data", bare: "10.0.0.1 n"}},
		"no address": {v1.BareMetalHostSpec{BootMACAddress: boot, Hostname: "n", NICs: nics},
			map[string]string{boot: "invalid IP n", data: "10.0.0.2 data"}},
	} {
		value, err := json.Marshal(&v1.BareMetalHost{Spec: c.spec})
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := decodeHost(Stored{Key: "rack/n", Revision: 1, Value: value}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for mac, want := range c.want {
			m, err := netaddr.ParseMAC(mac)
			if err != nil {
				t.Fatal(err)
			}
			card := decoded.CardOf(m)
			if got := card.IP.String() + " " + card.Hostname; got != want {
				t.Errorf("%s: %s has %s, want %s", name, mac, got, want)
			}
		}
	}
}
