package identity

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"glowplug/internal/netaddr"
)

const (
	// maxNeighbors bounds the cache; what does not fit is asked for one by one.
	maxNeighbors = 1 << 16
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

// neighborTable is the neighbour table as it was last heard of, with a way to
// ask again for one entry: an update may still be under way when the request
// that it belongs to has come.
type neighborTable struct {
	mu    sync.RWMutex
	macs  map[neighborKey]netaddr.MAC
	links atomic.Pointer[links]
	// query asks the kernel for one entry.
	query func(neighborKey) (netaddr.MAC, bool)
	limit *rate.Limiter
}

func newNeighborTable(query func(neighborKey) (netaddr.MAC, bool)) *neighborTable {
	t := &neighborTable{
		macs:  make(map[neighborKey]netaddr.MAC),
		query: query,
		limit: rate.NewLimiter(queriesPerSecond, queriesPerSecond/4),
	}
	t.links.Store(&links{})
	return t
}

// Lookup gives the hardware address of an on-link address.
func (t *neighborTable) Lookup(addr netip.Addr, zone string) (netaddr.MAC, bool) {
	here := t.links.Load()
	if _, own := here.own[addr]; own {
		return netaddr.MAC{}, false
	}
	scope, scoped := here.index[zone]
	if zone != "" && !scoped {
		var err error
		if scope, err = strconv.Atoi(zone); err != nil {
			return netaddr.MAC{}, false
		}
	}
	var missed [maxQueries]neighborKey
	misses := 0
	for _, net := range here.nets {
		if !net.prefix.Contains(addr) || zone != "" && net.link != scope {
			continue
		}
		key := neighborKey{net.link, addr}
		if mac, ok := t.cached(key); ok {
			return mac, true
		}
		if misses < maxQueries {
			missed[misses] = key
			misses++
		}
	}
	for _, key := range missed[:misses] {
		if !t.limit.Allow() {
			break
		}
		if mac, ok := t.query(key); ok {
			t.put(key, mac)
			return mac, true
		}
	}
	return netaddr.MAC{}, false
}

func (t *neighborTable) cached(key neighborKey) (netaddr.MAC, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	mac, ok := t.macs[key]
	return mac, ok
}

func (t *neighborTable) put(key neighborKey, mac netaddr.MAC) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.macs[key]; known || len(t.macs) < maxNeighbors {
		t.macs[key] = mac
	}
}

func (t *neighborTable) remove(key neighborKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.macs, key)
}

// clear forgets all entries, before they are listed anew.
func (t *neighborTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.macs)
}
