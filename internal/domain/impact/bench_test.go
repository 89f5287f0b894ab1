package impact_test

import (
	"fmt"
	"runtime"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot"
)

// fleet is the hosts and configs of a large site: each config by rack is for some ten hosts, and
// the default for a tenth of all.
func fleet(hosts, configs int) *world {
	w := newWorld()
	for i := range hosts {
		h := &v1.BareMetalHost{}
		h.Namespace, h.Name = fmt.Sprintf("ns%d", i%50), fmt.Sprintf("host%d", i)
		h.Spec.IP = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		h.Spec.BootMACAddress = fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)
		h.Spec.Labels = map[string]string{"role": "server", "rack": fmt.Sprint(i % (configs + configs/10))}
		w.hosts[h.Namespace+"/"+h.Name] = h
	}
	for i := range configs {
		c := benchConfig(fmt.Sprintf("config%d", i), fmt.Sprintf("/etc/%d", i))
		c.Spec.Selector.MatchLabels = map[string]string{"role": "server", "rack": fmt.Sprint(i)}
		w.configs[c.Namespace+"/"+c.Name] = c
	}
	c := benchConfig("default", "/etc/default")
	c.Spec.Selector.Default = true
	w.configs["ns0/default"] = c
	return w
}

func benchConfig(name, path string) *v1.IgnitionConfig {
	c := &v1.IgnitionConfig{}
	c.Namespace, c.Name, c.Generation = "ns0", name, 1
	c.Spec.Type, c.Spec.Format = v1.TypeIgnition, v1.TypeIgnition
	text := []byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"` + path + `"}]}}`)
	c.Compiled = &v1.Compiled{Artifact: text, Hash: hashOf(text), IgnitionVersion: "3.4.0", Generation: 1}
	return c
}

// sharing returns hosts that all have one hardware address, and what changes one of them.
func sharing(t testing.TB, hosts int) (*decide.Decider, *snapshot.Inventory, *model.Changes) {
	w := fleet(hosts, 10)
	for _, h := range w.hosts {
		h.Spec.BootMACAddress = "02:00:00:00:00:01"
	}
	inv := snapshot.New(snapshot.Options{})
	w.load(t, inv)
	host := w.hosts["ns7/host7"].DeepCopy()
	host.Spec.Labels["rack"] = "1"
	changes := newChanges()
	changes.Hosts[model.Ref{Namespace: "ns7", Name: "host7"}] = model.HostFrom(host)
	return decide.New(decide.Options{Inventory: inv}), inv, changes
}

// BenchmarkSharedAddress is the impact of one of 400 hosts that share an address.
func BenchmarkSharedAddress(b *testing.B) {
	d, inv, changes := sharing(b, 400)
	for b.Loop() {
		if _, err := impact.New(b.Context(), impact.Options{Decider: d, Before: inv.View(), Changes: changes}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSharedAddressIsNotQuadratic: what the prediction of a write of a host takes grows with the
// number of hosts that share its address, not with its square.
func TestSharedAddressIsNotQuadratic(t *testing.T) {
	bytesFor := func(hosts int) uint64 {
		d, inv, changes := sharing(t, hosts)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := impact.New(t.Context(), impact.Options{Decider: d, Before: inv.View(), Changes: changes}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := bytesFor(100), bytesFor(800)
	if many > 16*few {
		t.Errorf("%d bytes for 100 hosts, %d for 800", few, many)
	}
	t.Logf("%d bytes for 100 hosts, %d for 800", few, many)
}

// BenchmarkImpact is the impact of one changed object over 100,000 hosts and 10,000 configs.
func BenchmarkImpact(b *testing.B) {
	w := fleet(100_000, 10_000)
	inv := snapshot.New(snapshot.Options{})
	w.load(b, inv)
	d := decide.New(decide.Options{Inventory: inv})
	changed := func(c *v1.IgnitionConfig, change func(*v1.IgnitionConfig)) *model.Changes {
		c = c.DeepCopy()
		change(c)
		all := newChanges()
		all.Configs[model.Ref{Namespace: c.Namespace, Name: c.Name}] = model.ConfigFrom(c)
		return all
	}
	contents := func(c *v1.IgnitionConfig) { c.Compiled = benchConfig(c.Name, "/etc/other").Compiled }
	host := w.hosts["ns7/host7"].DeepCopy()
	host.Spec.Labels["rack"] = "1"
	ofHost := newChanges()
	ofHost.Hosts[model.Ref{Namespace: "ns7", Name: "host7"}] = model.HostFrom(host)
	for _, c := range []struct {
		name    string
		changes *model.Changes
	}{
		{"contents-of-a-config", changed(w.configs["ns0/config7"], contents)},
		{"contents-of-the-default", changed(w.configs["ns0/default"], contents)},
		{"new-config-for-all", changed(benchConfig("new", "/etc/new"), func(c *v1.IgnitionConfig) {
			c.Spec.Selector.MatchIPs = []string{"10.0.0.0/8"}
		})},
		{"a-host", ofHost},
	} {
		b.Run(c.name, func(b *testing.B) {
			changed := 0
			for b.Loop() {
				result, err := impact.New(b.Context(), impact.Options{Decider: d, Before: inv.View(), Changes: c.changes})
				if err != nil {
					b.Fatal(err)
				}
				changed = result.Changed
			}
			b.ReportMetric(float64(changed), "hosts")
		})
	}
}
