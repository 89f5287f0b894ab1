package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// TestExplanation compares explanations with golden files, which the test of their text
// reads as well; with UPDATE_GOLDEN=1 it writes them.
func TestExplanation(t *testing.T) {
	rich := storyAnd(func(l *lab) {
		l.config("g10", "rack7", "ignition", sel{MatchLabels: map[string]string{"role": "builder", "rack": "7"}})
		l.config("g10", "second", "ignition", sel{MatchLabels: map[string]string{"role": "builder"}})
		l.config("g10", "net", "ignition", sel{MatchIPs: []string{"192.168.0.0/16"}, MatchMACs: []string{macX}})
		l.config("a", "by-mac", "ignition", sel{MatchMACs: []string{macA}})
		l.config("default", "fallback", "ignition", sel{Default: true}).Generation = 2
	})
	for _, c := range []struct {
		name   string
		policy Policy
		lab    func() *lab
		ask    ask
	}{
		{"known", Policy{}, rich, ask{from: "192.168.10.10", neighbor: macX, mac: macA, accept: v34}},
		{"role", Policy{}, rich, ask{from: "127.0.0.1", believed: true, mac: macA, role: "builder"}},
		{"unknown", Policy{}, rich, ask{from: "10.9.9.9", hostname: "nobody"}},
		{"isolated", Policy{}, rich, ask{from: "192.168.10.11", accept: v34}},
		{"refused", Policy{}, rich, ask{from: "10.9.9.9", mac: macA}},
		{"kickstart", Policy{}, story, ask{from: "192.168.10.11"}},
		{"image", Policy{Claims: identity.Deny}, withImage("live", "live-config"), ask{from: "192.168.10.40"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := c.lab().inventory(t)
			if c.name == "isolated" {
				mark(inv, "default", "isolated", "true")
			}
			d := New(Options{Inventory: inv, Policy: c.policy})
			compareGolden(t, c.name, d.Explain(c.ask.request(t)))
		})
	}
	for name, query := range map[string]string{
		"machine":  "ip=192.168.66.6&mac=" + macA,
		"named":    "host=server1",
		"curl":     "host=server1&accept=*/*",
		"maconly":  "host=g10/maconly&role=builder",
		"believed": "as=believed&ip=192.168.66.6&mac=" + macA,
		"sources":  "host=g10/behind",
		"moved":    "host=g10/moved",
	} {
		t.Run(name, func(t *testing.T) {
			in, fault := ParseInquiry(query)
			if fault != nil {
				t.Fatal(fault)
			}
			l := story()
			l.host("g10", "behind", "52:54:00:00:00:77", "", "role", "builder").Spec.BootSources = []string{"203.0.113.0/28"}
			in.AddressesOf, in.Locate = moved(l.host("g10", "moved", "52:54:00:00:00:78", ""))
			got, fault := New(Options{Inventory: l.inventory(t)}).Inquire(in)
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
	file := filepath.Join("testdata", "explain", name+".json")
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

// TestExplainAgreesWithDecide asks at random: the decision comes from the
// index, the order of the candidates from the plain evaluation.
func TestExplainAgreesWithDecide(t *testing.T) {
	statuses := map[int]int{}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		maybe := func(values ...string) string {
			if r.IntN(2) == 0 {
				return ""
			}
			return values[r.IntN(len(values))]
		}
		ns := func() string { return []string{"default", "g10", "g11"}[r.IntN(3)] }
		l := &lab{}
		for i := range r.IntN(8) {
			h := l.host(ns(), fmt.Sprint("h", i), maybe(macA, macB, macC), maybe("10.0.0.1", "10.0.0.2", "10.0.0.3"))
			h.Spec.Labels = map[string]string{"role": maybe("builder", "server")}
			h.Spec.Hostname, h.Spec.SystemUUID = maybe("n1.lab", "n2.lab", "n1.other"), maybe(uuidA, uuidX)
			h.Spec.Image = maybe("live", "g11/live")
			if r.IntN(3) == 0 {
				h.Spec.BootSources = []string{"10.0.0.0/30"}
			}
		}
		for i := range r.IntN(10) {
			s := sel{Default: r.IntN(5) == 0}
			if v := maybe(macA, macX); v != "" {
				s.MatchMACs = []string{v}
			}
			if v := maybe("10.0.0.1", "10.0.0.0/24"); v != "" && r.IntN(2) == 0 {
				s.MatchIPs = []string{v}
			}
			if v := maybe("n1", "n2.lab"); v != "" && r.IntN(2) == 0 {
				s.MatchHostnames = []string{v}
			}
			if v := maybe("builder", "server"); v != "" && r.IntN(2) == 0 {
				s.MatchLabels = map[string]string{"role": v}
			}
			if r.IntN(4) == 0 {
				s = sel{}
			}
			name := maybe("builder", "builder-target", "server")
			if name == "" || r.IntN(2) == 0 {
				name = fmt.Sprint("c", i)
			}
			l.config(ns(), name, []string{v1.TypeIgnition, v1.TypeKickstart}[r.IntN(2)], s)
		}
		unique := map[string]*v1.IgnitionConfig{}
		for _, c := range l.configs {
			unique[c.Namespace+"/"+c.Name] = c
		}
		l.configs = l.configs[:0]
		for _, c := range unique {
			l.configs = append(l.configs, c)
		}
		l.image("g10", "live", maybe("c1", "g11/c2"))
		l.image("g11", "live", maybe("c1", "g10/c2"))
		inv := l.inventory(t)
		for range r.IntN(4) {
			mark(inv, maybe("g10", "g11", "default"), "island", "true")
		}
		for range 40 {
			d := New(Options{Inventory: inv, Policy: Policy{
				Claims: identity.Mode(r.IntN(3)), Neighbors: identity.NeighborMode(r.IntN(3)),
			}})
			req := ask{
				endpoint: maybe(Ignition, Kickstart), from: maybe("10.0.0.1", "10.0.0.2", "10.0.0.9"), neighbor: maybe(macA, macB,
					macX), former: maybe(macX),
				believed: r.IntN(4) == 0, mac: maybe(macA, macB, macX), ip: maybe("10.0.0.1", "10.0.0.2"), hostname: maybe("n1",
					"n2.lab", "n9"),
				uuid: maybe(uuidA, uuidX), role: maybe("builder", "server"), accept: maybe(v33, v34, "*/*"), raw: r.IntN(5) == 0,
			}.request(t)
			dec := d.Config(req)
			e := d.Explain(req)
			checkExplanation(t, e, &dec, len(l.configs))
			checkSentence(t, &dec, "")
			if t.Failed() {
				t.Fatalf("seed %d: %+v", seed, req)
			}
			statuses[e.Status]++
		}
	}
	for _, status := range []int{200, 403, 404, 406} {
		if statuses[status] < 100 {
			t.Errorf("status %d was met %d times only: the test proves little", status, statuses[status])
		}
	}
}
