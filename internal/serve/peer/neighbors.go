package peer

import (
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"glowplug/internal/domain/netaddr"
)

const (
	// maxNeighbors bounds the entries that are cached, and those that are remembered.
	// The kernel is asked for others one by one.
	maxNeighbors = 1 << 16
	// ChangeWindow is how long an entry counts as changed, and how long one that the
	// kernel has deleted is remembered.
	ChangeWindow = time.Minute
	// queriesPerSecond bounds the questions to the kernel for addresses that are not
	// in the cache. Refresh asks once for each connection, which have their own bounds.
	queriesPerSecond = 200
	// maxQueries bounds the questions of one lookup: an address may be on-link on
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
	// gone is when the kernel deleted the entry; zero: it has it.
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

// neighborTable is the neighbour table by the kernel's last notifications, with a way to
// ask again for one entry: a notification may still be under way when the request that
// it belongs to has come.
type neighborTable struct {
	mu      sync.RWMutex
	entries map[neighborKey]neighborEntry
	// departed are the entries that the kernel has deleted. They count for ChangeWindow.
	departed *simplelru.LRU[neighborKey, neighborEntry]
	links    atomic.Pointer[links]
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
	t.departed, _ = simplelru.NewLRU[neighborKey, neighborEntry](maxNeighbors, nil) // fails for a size of 0 alone
	t.links.Store(&links{})
	return t
}

// Lookup returns the entry of an on-link address: the kernel's or, if it has none, the
// one that it had within ChangeWindow. So a client that stops answering ARP still counts
// as on-link.
func (t *neighborTable) Lookup(addr netip.Addr, zone string) Neighbor {
	return t.find(addr, zone, func(_ neighborKey, e neighborEntry) Neighbor { return e.neighbor() })
}

// Refresh is Lookup, and asks the kernel also for an entry that is cached. The ARP request that a
// client sends before it connects can be what changes its entry.
func (t *neighborTable) Refresh(addr netip.Addr, zone string) Neighbor {
	return t.find(addr, zone, func(key neighborKey, e neighborEntry) Neighbor {
		if mac, ok := t.query(key); ok && mac != e.mac {
			return t.put(key, mac)
		}
		return e.neighbor()
	})
}

// find returns what cached makes of the entry of an on-link address, or asks for an entry that is
// not cached.
func (t *neighborTable) find(addr netip.Addr, zone string, cached func(neighborKey, neighborEntry) Neighbor) Neighbor {
	links := t.links.Load()
	if _, own := links.own[addr]; own {
		return Neighbor{}
	}
	scope, ok := links.scope(zone)
	if !ok {
		return Neighbor{}
	}
	var missed []neighborKey
	for _, net := range links.nets {
		if !net.prefix.Contains(addr) || zone != "" && net.link != scope {
			continue
		}
		key := neighborKey{net.link, addr}
		if e, ok := t.known(key); ok && e.gone.IsZero() {
			return cached(key, e)
		}
		missed = append(missed, key)
	}
	return t.ask(missed[:min(maxQueries, len(missed))])
}

// AddressesOf returns the addresses whose entry has a hardware address, lowest first, so that
// IPv4 goes before IPv6. A machine that has changed its address has several for a time.
// Link-local addresses do not count: they can be those of several machines.
func (t *neighborTable) AddressesOf(mac netaddr.MAC) (addresses []netip.Addr) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for key, entry := range t.entries {
		if entry.mac == mac && !key.addr.IsLinkLocalUnicast() {
			addresses = append(addresses, key.addr)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses) // two interfaces can have one address
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
	for _, key := range keys {
		if e, ok := t.known(key); ok {
			return e.neighbor()
		}
	}
	return Neighbor{}
}

// known returns the kernel's entry, or the remembered one if the kernel has none.
func (t *neighborTable) known(key neighborKey) (neighborEntry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.knownLocked(key)
}

func (t *neighborTable) knownLocked(key neighborKey) (neighborEntry, bool) {
	if e, ok := t.entries[key]; ok {
		return e, true
	}
	e, ok := t.departed.Peek(key)
	return e, ok && time.Since(e.gone) < ChangeWindow
}

// put stores an entry of the kernel's, and records whether the hardware address is
// another one than before. The first one of an address is no change.
func (t *neighborTable) put(key neighborKey, mac netaddr.MAC) Neighbor {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, known := t.knownLocked(key)
	switch {
	case !known:
		e = neighborEntry{mac: mac}
	case e.mac != mac:
		e = neighborEntry{mac: mac, former: e.mac, changed: time.Now()}
	}
	e.gone = time.Time{}
	if _, cached := t.entries[key]; cached || len(t.entries) < maxNeighbors {
		t.departed.Remove(key)
		t.entries[key] = e
	}
	return e.neighbor()
}

// remove is called when the kernel has deleted an entry.
func (t *neighborTable) remove(key neighborKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, known := t.entries[key]; known {
		e.gone = time.Now()
		t.departed.Add(key, e)
		delete(t.entries, key)
	}
}

// clear is called before the kernel's entries are listed again. They are remembered:
// a client that can break the subscription must not make changes unseen.
func (t *neighborTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.entries {
		e.gone = time.Now()
		t.departed.Add(key, e)
	}
	clear(t.entries)
}
