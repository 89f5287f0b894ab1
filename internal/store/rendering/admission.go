package rendering

import (
	"net/netip"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

const (
	// maxStrangers bounds the renderings for strangers, waiting and running, and
	// maxPerSource those for one hardware address, and for one address (of IPv6: for one
	// /64).
	maxStrangers = 64
	maxPerSource = 8
)

// source is the hardware address, or the address or network, by which strangers are counted.
type source struct {
	mac  netaddr.MAC
	addr netip.Addr
}

// sourcesOf returns the sources of a stranger.
func sourcesOf(caller *identity.Caller) []source {
	sources := []source{{addr: netaddr.Source(caller.Addr)}}
	if caller.MAC != (netaddr.MAC{}) {
		sources = append(sources, source{mac: caller.MAC})
	}
	return sources
}

// admission counts the renderings for strangers, waiting and running, in all and by source.
// The cache's mutex guards it.
type admission struct {
	strangers int
	bySource  map[source]int
}

// admit counts a rendering if the bounds allow it, and reports whether they do.
func (a *admission) admit(sources []source) bool {
	for _, from := range sources {
		if a.strangers >= maxStrangers || a.bySource[from] >= maxPerSource {
			return false
		}
	}
	a.add(sources, 1)
	return true
}

// add adds n to the number of renderings for the sources of a stranger.
func (a *admission) add(sources []source, n int) {
	if len(sources) == 0 {
		return
	}
	a.strangers += n
	for _, from := range sources {
		if a.bySource[from] += n; a.bySource[from] == 0 {
			delete(a.bySource, from)
		}
	}
}
