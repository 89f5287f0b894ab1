package rendering

import (
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// BenchmarkRender is a request of a known host for a template of 5 KB that has been
// rendered for it: by one host, and by 10,000 in turn.
func BenchmarkRender(b *testing.B) {
	config := kickstart("# {{ .Name }}\n" + strings.Repeat("# 0123456789abcdef\n", 270))
	config.UID = "5a1c6f0e-6c1b-4f0e-9d7a-1b2c3d4e5f60"
	for _, bench := range []struct {
		name  string
		hosts int
	}{{"one host", 1}, {"10000 hosts", 10_000}} {
		b.Run(bench.name, func(b *testing.B) {
			c := New(Options{})
			defer c.Close()
			hosts := make([]*model.Host, bench.hosts)
			for n := range hosts {
				h := node(n)
				h.UID, h.Labels = strings.Repeat("0", 30)+h.Name, map[string]string{"role": "worker", "rack": "r1"}
				h.IPs = append(h.IPs, addr("10.0.0.1"))
				h.MACs = append(h.MACs, ofOneCard(n).MAC)
				hosts[n] = h
				if _, err := c.Render(config, h, nil, decide.Asker{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if _, err := c.Render(config, hosts[n%len(hosts)], nil, decide.Asker{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
