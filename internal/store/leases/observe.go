package leases

import (
	"encoding/json"
	"net/netip"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/kvstore"
)

// Load, Put and Delete observe the bucket.
func (b *Book) Load(items []kvstore.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records, b.byMAC = map[netip.Addr]record{}, map[netaddr.MAC]netip.Addr{}
	for _, item := range items {
		b.putLocked(item)
	}
}

// Put takes a lease of the store.
func (b *Book) Put(item kvstore.Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putLocked(item)
}

func (b *Book) putLocked(item kvstore.Item) {
	l := &v1.Lease{}
	if json.Unmarshal(item.Value, l) != nil || l.Name != item.Key {
		return
	}
	a, err := netip.ParseAddr(l.Status.Address)
	if err != nil || Name(a) != l.Name {
		return
	}
	b.removeLocked(a)
	r := recordOf(&l.Status)
	b.records[a] = r
	if newest, known := b.byMAC[r.mac]; !r.conflict && (!known || b.records[newest].expires.Before(r.expires)) {
		b.byMAC[r.mac] = a
	}
}

// Delete removes a lease.
func (b *Book) Delete(key string, _ uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, err := netip.ParseAddr(strings.ReplaceAll(key, "-", ".")); err == nil {
		b.removeLocked(a)
	}
}

func (b *Book) removeLocked(a netip.Addr) {
	if mac := b.records[a].mac; b.byMAC[mac] == a {
		delete(b.byMAC, mac)
	}
	delete(b.records, a)
	clear(b.full)
}

func recordOf(s *v1.LeaseStatus) record {
	mac, _ := netaddr.ParseMAC(s.MAC)
	return record{mac: mac, host: s.Host, expires: s.Expires.Time, conflict: s.State == v1.LeaseConflict}
}
