package decide

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot/labtest"
)

// fleet is hosts and configs of every tier, as a large site has them.
func fleet(hosts, configs int) *lab {
	l := &lab{}
	for i := range hosts {
		h := l.Host(fmt.Sprintf("ns%d", i%50), fmt.Sprintf("host%d", i),
			fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255), fleetAddr(i).String(),
			"role", "server", "rack", fmt.Sprint(i%max(1, configs/5)))
		h.Spec.Hostname = fmt.Sprintf("host%d.site.example", i)
	}
	for i := range configs {
		s := v1.IgnitionConfigSelector{}
		switch n := configs - 1 - i; { // the last is the one by rack that the bench hits
		case n%5 == 0:
			s.MatchLabels = map[string]string{"role": "server", "rack": fmt.Sprint(n / 5)}
		case n%5 == 1:
			s.MatchMACs = []string{fmt.Sprintf("02:01:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)}
		case n%5 == 2:
			s.MatchIPs = []string{fmt.Sprintf("11.%d.%d.0/24", i>>8&255, i&255)}
		case n%5 == 3:
			s.MatchHostnames = []string{fmt.Sprintf("other%d", i)}
		}
		l.Config(fmt.Sprintf("ns%d", i%50), fmt.Sprintf("config%d", i), v1.TypeIgnition, s)
	}
	return l
}

func fleetAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// A decision for a host by its own facts allocates nothing; each fact that is not the
// host's own costs one allocation.
func TestDecideAllocations(t *testing.T) {
	l := story()
	many := l.Host("g10", "many", "02:00:00:00:01:00", "192.168.30.1", "role", "builder")
	for i := range 12 {
		many.Spec.NICs = append(many.Spec.NICs, v1.NIC{MAC: fmt.Sprintf("02:00:00:00:01:%02x", i+1),
			IP: fmt.Sprintf("192.168.30.%d", i+2)})
	}
	many.Spec.BootSources = []string{"172.16.5.0/24"}
	inv := l.Inventory(t)
	for _, c := range []struct {
		name   string
		policy Policy
		ask    ask
		most   float64
	}{
		{"by address", Policy{}, ask{From: "192.168.10.10", Accept: v34}, 0},
		{"by neighbour", Policy{}, ask{From: "192.168.10.77", Neighbor: macD, Accept: v34}, 1},
		{"by claims", Policy{}, ask{From: "192.168.10.10", MAC: macA, IP: "192.168.10.10", Hostname: "builder1", UUID: uuidA,
			Accept: v34}, 0},
		{"by role", Policy{}, ask{From: "192.168.10.10", Role: "builder", Accept: v34}, 0},
		{"of an island", Policy{}, ask{From: "192.168.10.10", Accept: v34}, 0},
		{"kickstart", Policy{}, ask{Endpoint: Kickstart, From: "192.168.10.11"}, 0},
		{"trusted", Policy{Claims: identity.Trust}, ask{From: "192.168.10.99", MAC: macA, Hostname: "nobody"}, 2},
		{"many cards, from a bootSource", Policy{}, ask{From: "172.16.5.5", MAC: "02:00:00:00:01:03", Accept: v34}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			labtest.Mark(inv, "g10", "island", strconv.FormatBool(c.name == "of an island"))
			d, req := New(Options{Inventory: inv, Policy: c.policy}), c.ask.Request(t)
			var dec ConfigDecision
			n := testing.AllocsPerRun(200, func() { dec = d.Config(req) })
			if dec.Err != nil || dec.Host == nil {
				t.Fatalf("%s: %v", outcome(&dec), dec.Err)
			}
			if n > c.most {
				t.Errorf("%v allocations, want at most %v", n, c.most)
			}
		})
	}
}

// BenchmarkDecide shows that the time for a known host does not depend on how
// many hosts and configs there are. All hosts ask in turn, as they do when the
// power comes back.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ hosts, configs int }{{1, 1}, {1_000, 100}, {100_000, 10_000}} {
		b.Run(fmt.Sprintf("hosts=%d/configs=%d", size.hosts, size.configs), func(b *testing.B) {
			d := New(Options{Inventory: fleet(size.hosts, size.configs).Inventory(b)})
			for _, spread := range []struct {
				name  string
				hosts int
			}{{"one", 1}, {"all", size.hosts}} {
				b.Run("asking="+spread.name, func(b *testing.B) {
					req := ask{From: "10.0.0.0", Accept: v34}.Request(b)
					b.ReportAllocs()
					i := 0
					for b.Loop() {
						req.Caller.Addr = fleetAddr(i)
						dec := d.Config(req)
						if dec.Err != nil || dec.Tier != match.Labels {
							b.Fatal(outcome(&dec), dec.Err)
						}
						if i++; i == spread.hosts {
							i = 0
						}
					}
				})
			}
		})
	}
}
