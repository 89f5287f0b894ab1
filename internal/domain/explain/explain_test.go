package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/snapshot/labtest"
)

// TestExplanation compares explanations with golden files, which the test of their text
// reads as well; with UPDATE_GOLDEN=1 it writes them.
func TestExplanation(t *testing.T) {
	rich := labtest.StoryAnd(func(l *lab) {
		l.Config("g10", "rack7", "ignition", sel{MatchLabels: map[string]string{"role": "builder", "rack": "7"}})
		l.Config("g10", "second", "ignition", sel{MatchLabels: map[string]string{"role": "builder"}})
		l.Config("g10", "net", "ignition", sel{MatchIPs: []string{"192.168.0.0/16"}, MatchMACs: []string{labtest.MACX}})
		l.Config("a", "by-mac", "ignition", sel{MatchMACs: []string{labtest.MACA}})
		l.Config("default", "fallback", "ignition", sel{Default: true}).Generation = 2
	})
	for _, c := range []struct {
		name   string
		policy decide.Policy
		lab    func() *lab
		ask    ask
	}{
		{"known", decide.Policy{}, rich, ask{From: "192.168.10.10", Neighbor: labtest.MACX, MAC: labtest.MACA, Accept: labtest.V34}},
		{"role", decide.Policy{}, rich, ask{From: "127.0.0.1", Believed: true, MAC: labtest.MACA, Role: "builder"}},
		{"unknown", decide.Policy{}, rich, ask{From: "10.9.9.9", Hostname: "nobody"}},
		{"isolated", decide.Policy{}, rich, ask{From: "192.168.10.11", Accept: labtest.V34}},
		{"refused", decide.Policy{}, rich, ask{From: "10.9.9.9", MAC: labtest.MACA}},
		{"kickstart", decide.Policy{}, labtest.Story, ask{From: "192.168.10.11"}},
		{"image", decide.Policy{Claims: identity.Deny}, labtest.WithImage("live", "live-config"), ask{From: "192.168.10.40"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := c.lab().Inventory(t)
			if c.name == "isolated" {
				labtest.Mark(inv, "default", "isolated", "true")
			}
			d := decide.New(decide.Options{Inventory: inv, Policy: c.policy})
			compareGolden(t, c.name, Explain(d, c.ask.Request(t)))
		})
	}
	for name, query := range map[string]string{
		"machine":  "ip=192.168.66.6&mac=" + labtest.MACA,
		"named":    "host=server1",
		"curl":     "host=server1&accept=*/*",
		"maconly":  "host=g10/maconly&role=builder",
		"believed": "as=believed&ip=192.168.66.6&mac=" + labtest.MACA,
		"sources":  "host=g10/behind",
		"moved":    "host=g10/moved",
	} {
		t.Run(name, func(t *testing.T) {
			in, fault := ParseInquiry(query)
			if fault != nil {
				t.Fatal(fault)
			}
			l := labtest.Story()
			l.Host("g10", "behind", "52:54:00:00:00:77", "", "role", "builder").Spec.BootSources = []string{"203.0.113.0/28"}
			in.AddressesOf, in.Locate = moved(l.Host("g10", "moved", "52:54:00:00:00:78", ""))
			got, fault := Inquire(decide.New(decide.Options{Inventory: l.Inventory(t)}), in)
			if fault != nil {
				t.Fatal(fault)
			}
			compareGolden(t, name, got)
		})
	}
}

// moved returns a network in which a host without an address has two entries in the
// neighbour table: that of its former address, and that of its address.
func moved(h *v1.BareMetalHost) (addressesOf func(netaddr.MAC) []netip.Addr, locate func(netip.Addr) identity.Caller) {
	addresses := []netip.Addr{netip.MustParseAddr("192.168.10.88"), netip.MustParseAddr("192.168.10.99")}
	mac, _ := netaddr.ParseMAC(h.Spec.BootMACAddress)
	addressesOf = func(of netaddr.MAC) []netip.Addr {
		if of != mac {
			return nil
		}
		return addresses
	}
	return addressesOf, func(addr netip.Addr) identity.Caller {
		caller := identity.Caller{Addr: addr}
		if slices.Contains(addresses, addr) {
			caller.MAC = mac
		}
		return caller
	}
}

// compareGolden compares an explanation with a golden file.
func compareGolden(t *testing.T, name string, e *Explanation) {
	t.Helper()
	got, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".json")
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestExplainTokens: the machine is taken to have the token as far as its script has it.
func TestExplainTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		state, image string
		status       int
		token        bool
	}{
		"it boots its image":         {"", "live", 200, true},
		"it has received its config": {v1.StateProvisioning, "live", 200, false},
		"it boots its disk":          {v1.StateProvisioned, "live", 403, false},
		"it has nothing to boot":     {"", "", 403, false},
	} {
		var l lab
		object := l.Host("g10", "server1", "ac:1f:6b:8a:a7:9c", "192.0.2.10")
		yes := true
		object.Spec.Provisioning, object.Spec.Image = &v1.Provisioning{Token: &yes}, tt.image
		object.Status.State = tt.state
		l.Config("g10", "base", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
		l.Image("g10", "live", "")
		l.Images[0].Status = v1.ISCSICdromStatus{Phase: v1.PhaseReady}
		d := decide.New(decide.Options{Inventory: l.Inventory(t), Tokens: boottoken.NewKey([]byte("key of the test"))})
		e, failure := Inquire(d, &Inquiry{Type: decide.Ignition, At: labtest.Epoch, Host: "server1", Namespace: "g10"})
		if failure != nil || e.Status != tt.status || e.Boot.Token != tt.token ||
			strings.HasPrefix(e.Identity, "refused") {
			t.Errorf("%s: %v, %d, token %t, identity %s", name, failure, e.Status, e.Boot.Token, e.Identity)
		}
	}
}

// TestExplainShowsOtherMAC: an explanation has the address that the machine claims, whether or not a host has it.
func TestExplainShowsOtherMAC(t *testing.T) {
	const (
		portA = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2"
		portB = "80:00:02:09:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f3"
	)
	l := labtest.WithNAT()
	nat1 := l.Hosts[2]
	nat1.Spec.NICs = append(nat1.Spec.NICs, v1.NIC{MAC: portA})
	d := decide.New(decide.Options{Inventory: l.Inventory(t)})
	for port, want := range map[string]string{portA: "g11/nat1 mac", portB: " "} {
		in, malformed := ParseInquiry("from=172.16.0.9&mac=" + port)
		if malformed != nil {
			t.Fatal(malformed)
		}
		e, err := Inquire(d, in)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.Host, " ", e.FoundBy); got != want || e.Client.OtherMAC != port {
			t.Errorf("%s: found %q, shown %q; want %q", port, got, e.Client.OtherMAC, want)
		}
	}
}
