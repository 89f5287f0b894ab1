package rendering

import (
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
)

const (
	// maxStrangers bounds the renderings for strangers, waiting and running, and
	// maxPerSource those for one hardware address, and for one address (of IPv6: for one
	// /64).
	maxStrangers = 64
	maxPerSource = 8
)

// sourcesOf returns what a stranger is counted by: its network, and its hardware address where that is known.
func sourcesOf(caller *identity.Caller) []netaddr.Source {
	sources := []netaddr.Source{{Addr: netaddr.Network(caller.Addr)}}
	if caller.MAC != (netaddr.MAC{}) {
		sources = append(sources, netaddr.Source{MAC: caller.MAC})
	}
	return sources
}

// admission counts the renderings for strangers, waiting and running, in all and by source.
// The cache's mutex guards it.
type admission struct {
	strangers int
	bySource  limit.Counts[netaddr.Source]
}

// admit counts a rendering if the bounds allow it, and reports whether they do.
func (a *admission) admit(sources []netaddr.Source) bool {
	for _, from := range sources {
		if a.strangers >= maxStrangers || a.bySource[from] >= maxPerSource {
			return false
		}
	}
	a.add(sources, 1)
	return true
}

// add adds n to the number of renderings for the sources of a stranger.
func (a *admission) add(sources []netaddr.Source, n int) {
	if len(sources) == 0 {
		return
	}
	a.strangers += n
	for _, from := range sources {
		a.bySource.Add(from, n)
	}
}
