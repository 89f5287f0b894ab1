package host

import (
	"sync"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// censusPause is the pause between two counts, as a multiple of the time of one: with 100,000
// hosts a count takes a part of a second.
const censusPause = 20

// census counts the hosts of each config. A count stays for a moment, since a table asks for
// that of each of its configs.
type census struct {
	mu    sync.Mutex
	view  model.View
	at    time.Time
	took  time.Duration
	hosts map[model.Ref]int
}

// HostsOf returns the number of hosts that receive a config at the endpoint of its type. It
// may be some seconds old where there are many hosts.
func (c *Checker) HostsOf(config model.Ref) int {
	view := c.opts.Inventory.View()
	k := &c.census
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hosts == nil || k.view != view && time.Since(k.at) > censusPause*k.took {
		began := time.Now()
		k.hosts = countHosts(c.opts.Decider, view)
		k.view, k.at, k.took = view, time.Now(), time.Since(began)
	}
	return k.hosts[config]
}

func countHosts(decider *decide.Decider, view model.View) map[model.Ref]int {
	count := map[model.Ref]int{}
	for _, h := range view.Hosts() {
		for _, typ := range []string{decide.Ignition, decide.Kickstart} {
			if config := decider.Assigned(view, h, typ); config != nil {
				count[config.Ref]++
			}
		}
	}
	return count
}

// ConfigOf returns the config that a host receives now, as namespace/name; "": none.
func (c *Checker) ConfigOf(host *v1.BareMetalHost) string {
	h := model.HostFrom(host)
	if h == nil {
		return ""
	}
	config, _ := c.opts.Decider.ConfigOf(c.opts.Inventory.View(), h)
	if config == nil {
		return ""
	}
	return config.Ref.String()
}
