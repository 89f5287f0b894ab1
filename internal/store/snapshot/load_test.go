package snapshot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// hostItem is a host of about 700 bytes as the API stores it, managedFields
// and all.
func hostItem(i int) kvstore.Item {
	value := fmt.Sprintf(`{"kind":"BareMetalHost","apiVersion":"v1","metadata":{"name":"host%d","namespace":"ns%d","uid":"4c4c4544-0042-3510-8056-%012x","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"rack":"r%d","role":"server"},"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:rack":{},"f:role":{}}},"f:spec":{"f:bootMACAddress":{},"f:hostname":{},"f:ip":{},"f:systemUUID":{}}}}]},"spec":{"bootMACAddress":"02:00:00:%02x:%02x:%02x","ip":"10.%d.%d.%d","hostname":"host%d.site.example","systemUUID":"4c4c4544-0042-3510-8056-%012x"},"status":{"state":"Available"}}`,
		i, i%50, i, i%2000, i>>16, i>>8&255, i&255, i>>16, i>>8&255, i&255, i, i+1)
	return kvstore.Item{Key: fmt.Sprintf("ns%d/host%d", i%50, i), Revision: uint64(i + 2), Value: []byte(value)}
}

// configItem is a config of 5 KB source and 5 KB compiled.
func configItem(i int) kvstore.Item {
	source := strings.Repeat("variant: fcos\nversion: 1.5.0\n", 173)
	artifact := strings.Repeat(`{"ignition":{"version":"3.4.0"}}`, 157)
	quoted, _ := json.Marshal(source)
	value := fmt.Sprintf(`{"kind":"IgnitionConfig","apiVersion":"v1","metadata":{"name":"c%d","namespace":"ns%d","uid":"4c4c4544-0042-3510-8056-%012x","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:config":{},"f:format":{},"f:selector":{"f:matchLabels":{}},"f:type":{}}}}]},"spec":{"type":"ignition","format":"butane","config":%s,"selector":{"matchLabels":{"rack":"r%d","role":"server"}}},"status":{"phase":"Ready","compiledSize":5024,"configHash":"sha256:%064x"},"compiled":{"artifact":%q,"hash":"sha256:%064x","ignitionVersion":"3.4.0","generation":1}}`,
		i, i%50, i, quoted, i, i, base64.StdEncoding.EncodeToString([]byte(artifact)), i)
	return kvstore.Item{Key: fmt.Sprintf("ns%d/c%d", i%50, i), Revision: uint64(i + 2), Value: []byte(value)}
}

func items(n int, one func(int) kvstore.Item) []kvstore.Item {
	out := make([]kvstore.Item, n)
	for i := range out {
		out[i] = one(i)
	}
	return out
}

// BenchmarkLoad reads a large site: the time is that of a start, and the memory
// is what stays beside the stored values.
func BenchmarkLoad(b *testing.B) {
	hosts, configs := items(100_000, hostItem), items(10_000, configItem)
	b.Logf("a host has %d bytes, a config %d", len(hosts[0].Value), len(configs[0].Value))
	for b.Loop() {
		before := heap()
		inv := New(Options{})
		inv.Hosts().Load(hosts)
		inv.Configs().Load(configs)
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		if s := inv.Stats(); s.Hosts.Objects != 100_000 || s.Configs.Objects != 10_000 {
			b.Fatalf("%+v", s)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkPutHost(b *testing.B) {
	inv := New(Options{})
	hosts := inv.Hosts()
	all := items(100_000, hostItem)
	hosts.Load(all)
	i := 0
	for b.Loop() {
		hosts.Put(all[i%len(all)])
		i++
	}
}

// BenchmarkUpdateServed measures, among a hundred thousand hosts that are asked for all
// the time, how long an update takes until a View has it.
func BenchmarkUpdateServed(b *testing.B) {
	inv := New(Options{})
	hosts := inv.Hosts()
	all := items(100_000, hostItem)
	hosts.Load(all)
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				inv.View().Host(model.Stored{Key: all[i%len(all)].Key}.Ref())
			}
		}
	})
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		update := all[i%len(all)]
		update.Revision = uint64(len(all) + i)
		began := time.Now()
		hosts.Put(update)
		if inv.View().Host(model.Stored{Key: update.Key}.Ref()).Revision != update.Revision {
			b.Fatal("an update that was put is not served")
		}
		took = append(took, time.Since(began))
	}
	close(done)
	readers.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

func BenchmarkDecode(b *testing.B) {
	host, config := hostItem(1), configItem(1)
	b.Run("host", func(b *testing.B) {
		in := model.NewInterner()
		b.ReportAllocs()
		b.SetBytes(int64(len(host.Value)))
		for b.Loop() {
			if _, err := model.Hosts.Decode(model.Stored(host), in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("config", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(config.Value)))
		for b.Loop() {
			if _, err := model.Configs.Decode(model.Stored(config), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
