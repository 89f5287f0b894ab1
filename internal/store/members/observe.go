package members

import (
	"encoding/json"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// Load, Put and Delete observe the bucket.
func (b *Book) Load(items []kvstore.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.members
	b.members, b.loaded = map[string]seen{}, true
	for _, item := range items {
		b.putLocked(item, old)
	}
	b.Changed()
}

// Put takes a Member of the store.
func (b *Book) Put(item kvstore.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putLocked(item, b.members)
}

func (b *Book) putLocked(item kvstore.Item, old map[string]seen) {
	m := &v1.Member{}
	if json.Unmarshal(item.Value, m) != nil || m.Name != item.Key {
		return
	}
	at := time.Now()
	if was, known := old[m.Name]; known && was.Status.LastSeen.Equal(&m.Status.LastSeen) {
		at = was.at // read again after the store was away
	}
	b.members[m.Name] = seen{m, at}
}

// Delete removes a Member.
func (b *Book) Delete(key string, _ uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, key)
}

var membersByState = prometheus.NewDesc("glowplug_members",
	"Servers of the store by the state of their Member: Ready, NotReady, Missing (not seen for 30 s) and Stopped.",
	[]string{"state"}, nil)

// collector counts the Members when it is scraped.
type collector struct{ *Book }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- membersByState }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	count := map[string]int{}
	c.mu.Lock()
	for _, m := range c.members {
		count[m.Status.State]++
	}
	c.mu.Unlock()
	for _, state := range v1.MemberStates {
		ch <- prometheus.MustNewConstMetric(membersByState, prometheus.GaugeValue, float64(count[state]), state)
	}
}
