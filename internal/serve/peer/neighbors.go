package peer

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"glowplug/internal/domain/netaddr"
)

const (
	// maxNeighbors bounds the cache, with the entries that it remembers; what does
	// not fit is asked for one by one.
	maxNeighbors = 1 << 16
	// ChangeWindow is how long an entry counts as changed, and how long one that the
	// kernel has no more is remembered.
	ChangeWindow = time.Minute
	// queriesPerSecond bounds what is asked of the kernel for addresses that
	// the cache does not hold.
	queriesPerSecond = 200
	// maxQueries bounds what one lookup asks: an address may be on-link on
	// several interfaces.
	maxQueries = 4
)

// neighborKey is an address on one interface.
type neighborKey struct {
	link int
	addr netip.Addr
}

// links is one reading of the machine's interfaces.
type links struct {
	nets  []onLink
	own   map[netip.Addr]struct{}
	index map[string]int
}

// onLink is a network that an interface is on.
type onLink struct {
	prefix netip.Prefix
	link   int
}

// neighborEntry is what is known of an address on one interface.
type neighborEntry struct {
	mac netaddr.MAC
	// former is the hardware address before mac, and changed when mac came in its
	// place; zero where it has not changed.
	former  netaddr.MAC
	changed time.Time
	// gone is since when the kernel has no such entry; zero: it has.
	gone time.Time
}

// neighbor is the entry as callers see it.
func (e *neighborEntry) neighbor() Neighbor {
	n := Neighbor{MAC: e.mac}
	if !e.changed.IsZero() && time.Since(e.changed) < ChangeWindow {
		n.Former = e.former
	}
	return n
}

// remembers reports whether the entry counts, although the kernel may have none.
func (e *neighborEntry) remembers(now time.Time) bool {
	return e.gone.IsZero() || now.Sub(e.gone) < ChangeWindow
}

// departure is an entry that the kernel has given up.
type departure struct {
	key neighborKey
	at  time.Time
}

// neighborTable is the neighbour table as it was last heard of, with a way to
// ask again for one entry: an update may still be under way when the request
// that it belongs to has come.
type neighborTable struct {
	mu      sync.RWMutex
	entries map[neighborKey]neighborEntry
	// departures are the entries that are remembered, the oldest first. One that
	// has come back stays in the list until its time is over.
	departures []departure
	links      atomic.Pointer[links]
	// query asks the kernel for one entry.
	query func(neighborKey) (netaddr.MAC, bool)
	limit *rate.Limiter
}

func newNeighborTable(query func(neighborKey) (netaddr.MAC, bool)) *neighborTable {
	t := &neighborTable{
		entries: make(map[neighborKey]neighborEntry),
		query:   query,
		limit:   rate.NewLimiter(queriesPerSecond, queriesPerSecond/4),
	}
	t.links.Store(&links{})
	return t
}

// Lookup returns the entry of an on-link address: the kernel's or, if it has none, the
// one that it had within ChangeWindow. So a client that stops answering ARP still counts
// as on-link.
func (t *neighborTable) Lookup(addr netip.Addr, zone string) Neighbor {
	links := t.links.Load()
	if _, own := links.own[addr]; own {
		return Neighbor{}
	}
	scope, ok := links.scope(zone)
	if !ok {
		return Neighbor{}
	}
	var missed [maxQueries]neighborKey
	misses := 0
	for _, net := range links.nets {
		if !net.prefix.Contains(addr) || zone != "" && net.link != scope {
			continue
		}
		key := neighborKey{net.link, addr}
		if e, ok := t.known(key); ok && e.gone.IsZero() {
			return e.neighbor()
		}
		if misses < maxQueries {
			missed[misses] = key
			misses++
		}
	}
	if misses == 0 {
		return Neighbor{}
	}
	return t.ask(missed[:misses])
}

// scope returns the index of the interface that a zone names, and reports whether there
// is one. An empty zone names none.
func (l *links) scope(zone string) (int, bool) {
	if zone == "" {
		return 0, true
	}
	if index, ok := l.index[zone]; ok {
		return index, true
	}
	index, err := strconv.Atoi(zone)
	return index, err == nil
}

// ask returns the first entry that the kernel has for the keys, or else the first that
// is remembered.
func (t *neighborTable) ask(keys []neighborKey) Neighbor {
	for _, key := range keys {
		if !t.limit.Allow() {
			break
		}
		if mac, ok := t.query(key); ok {
			return t.put(key, mac)
		}
	}
	now := time.Now()
	for _, key := range keys {
		if e, ok := t.known(key); ok && e.remembers(now) {
			return e.neighbor()
		}
	}
	return Neighbor{}
}

func (t *neighborTable) known(key neighborKey) (neighborEntry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.entries[key]
	return e, ok
}

// put takes an entry of the kernel's, and notes whether the hardware address is
// another one than before. The first one of an address is no change.
func (t *neighborTable) put(key neighborKey, mac netaddr.MAC) Neighbor {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	e, known := t.entries[key]
	switch {
	case !known:
		if len(t.entries) >= maxNeighbors && !t.forgetOldest() {
			return Neighbor{MAC: mac}
		}
		e = neighborEntry{mac: mac}
	case e.mac != mac:
		e = neighborEntry{mac: mac, former: e.mac, changed: now}
	}
	e.gone = time.Time{}
	t.entries[key] = e
	return e.neighbor()
}

// remove notes that the kernel has no such entry any more.
func (t *neighborTable) remove(key neighborKey) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	t.depart(key, now)
}

// clear notes that the kernel's entries are about to be listed anew. They are
// remembered: who can break the subscription must not make changes unseen.
func (t *neighborTable) clear() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	for key := range t.entries {
		t.depart(key, now)
	}
}

func (t *neighborTable) depart(key neighborKey, now time.Time) {
	e, known := t.entries[key]
	if !known || !e.gone.IsZero() {
		return
	}
	if len(t.departures) >= maxNeighbors {
		t.forgetOldest()
	}
	e.gone = now
	t.entries[key] = e
	t.departures = append(t.departures, departure{key, now})
}

// expire forgets the entries that have been gone for ChangeWindow.
func (t *neighborTable) expire(now time.Time) {
	for len(t.departures) > 0 && now.Sub(t.departures[0].at) >= ChangeWindow {
		t.pop()
	}
}

// forgetOldest forgets the entry that has been gone longest. It reports whether
// there was one.
func (t *neighborTable) forgetOldest() bool {
	for len(t.departures) > 0 {
		if t.pop() {
			return true
		}
	}
	return false
}

// pop takes the oldest departure off the list, and forgets its entry unless that has
// come back since. It reports whether it did.
func (t *neighborTable) pop() bool {
	oldest := t.departures[0]
	t.departures = t.departures[1:]
	if e, known := t.entries[oldest.key]; !known || !e.gone.Equal(oldest.at) {
		return false
	}
	delete(t.entries, oldest.key)
	return true
}
