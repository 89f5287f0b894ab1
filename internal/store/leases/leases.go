// Package leases keeps which machine has which IPv4 address, in the store, and which addresses were offered lately, in
// memory. Several servers may share a store: an address belongs to the machine whose lease was stored first.
package leases

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/lease"
	"glowplug/internal/domain/netaddr"
)

const (
	// Duration is that of a lease. A machine asks again after half of it.
	Duration = time.Hour
	// fresh is the rest of a lease that is not written again: a machine asks several times during a boot.
	fresh = Duration * 9 / 10
	// keep is how long a lease is kept after its end.
	keep = 7 * 24 * time.Hour
	// conflictTime is how long an address is given to nobody that a machine uses without a lease.
	conflictTime = 10 * time.Minute
	// offerTime is how long an address is offered to one machine alone, and maxOffers bounds such addresses.
	offerTime = 20 * time.Second
	maxOffers = 4096
	// fullPause is how long a range without a free address is not searched again.
	fullPause = time.Second
	// awayLease is the least that a machine is given of its own lease while the store is away.
	awayLease = 10 * time.Minute
	// writeTimeout bounds a write: the machine asks again in the meantime.
	writeTimeout = 3 * time.Second

	prefix = "/" + kinds.Leases + "/"
)

// Errors of an address that a machine cannot have.
var (
	// ErrTaken says that another machine has the address.
	ErrTaken = errors.New("another machine has the address")
	// ErrNone says that no address of the range is free.
	ErrNone = errors.New("no address of the range is free: give a larger --dhcp-range, or delete the leases of machines " +
		"that are gone (kubectl get leases)")
)

// errUnread says that the leases are not read yet.
var errUnread = errors.New("the leases are not read from the store yet")

// Store is the part of the store that a Book needs.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error
	Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
		validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error
}

// Machine is a machine that asks for an address.
type Machine struct {
	MAC netaddr.MAC
	// Host is the known host that it is, NAMESPACE/NAME; "": it is none.
	Host string
	// Own is the address of this card of the host; invalid: it has none.
	Own netip.Addr
	// Hostname is what the machine calls itself; Interface is where it asked.
	Hostname, Interface string
}

// record is what is known of an address.
type record struct {
	mac      netaddr.MAC
	host     string
	expires  time.Time
	conflict bool
}

// isOf reports whether a machine has the address, with or without a lease.
func (r *record) isOf(m *Machine) bool { return r.mac == m.MAC }

// offer is an address that a machine was offered.
type offer struct {
	mac   netaddr.MAC
	until time.Time
}

// Book gives addresses. It observes the bucket of leases. It is safe for concurrent use.
type Book struct {
	mu      sync.Mutex
	store   Store                 // nil before Use
	records map[netip.Addr]record // nil before they are read
	byMAC   map[netaddr.MAC]netip.Addr
	offers  map[netip.Addr]offer
	offered map[netaddr.MAC]netip.Addr
	// full has the ranges without a free address, until they are looked at again.
	full map[lease.Range]time.Time
}

// New returns a Book, which gives nothing before Use. Registerer may be nil.
func New(registerer prometheus.Registerer) *Book {
	b := &Book{
		offers: map[netip.Addr]offer{}, offered: map[netaddr.MAC]netip.Addr{}, full: map[lease.Range]time.Time{},
	}
	if registerer != nil {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "glowplug_dhcp_leases", Help: "IPv4 addresses that machines have by DHCP (--dhcp-range).",
		}, b.bound))
	}
	return b
}

// Use sets the store. It is called before machines are answered.
func (b *Book) Use(store Store) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store = store
}

// bound returns the number of leases that have not ended.
func (b *Book) bound() (n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, r := range b.records {
		if !r.conflict && now.Before(r.expires) {
			n++
		}
	}
	return n
}

// Offer returns the address for a machine, and keeps it for the machine for a short time. isReserved reports whether
// an address is that of a known host. isSure is false where the caller has to look whether another machine uses the
// address without a lease. The error is ErrNone, or says that the leases are not read yet.
func (b *Book) Offer(
	pool *lease.Pool, m *Machine, isReserved func(netip.Addr) bool) (a netip.Addr, isSure bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if r := b.records[m.Own]; m.Own.IsValid() && b.canHaveOwnLocked(m, now) {
		return m.Own, r.isOf(m) && !r.conflict && now.Before(r.expires), nil
	}
	if b.records == nil {
		return a, false, errUnread
	}
	isFree := func(a netip.Addr) bool { return pool.IsUsable(a) && b.isFreeLocked(m, a, now) && !isReserved(a) }
	for _, former := range []map[netaddr.MAC]netip.Addr{b.byMAC, b.offered} {
		if a, known := former[m.MAC]; known && pool.Range.Contains(a) && isFree(a) {
			r := b.records[a]
			return a, r.isOf(m) && !r.conflict && now.Before(r.expires), b.offerLocked(a, m.MAC, now)
		}
	}
	if now.Before(b.full[pool.Range]) {
		return a, false, ErrNone
	}
	a, ok := pool.Range.Choose(m.MAC, isFree)
	if !ok {
		b.full[pool.Range] = now.Add(fullPause)
		return a, false, ErrNone
	}
	return a, false, b.offerLocked(a, m.MAC, now)
}

// canHaveOwnLocked reports whether nobody else has the address of a host.
func (b *Book) canHaveOwnLocked(m *Machine, now time.Time) bool {
	r := b.records[m.Own]
	return r.isOf(m) || !now.Before(r.expires)
}

// isFreeLocked reports whether nobody else has an address, or was offered it lately.
func (b *Book) isFreeLocked(m *Machine, a netip.Addr, now time.Time) bool {
	r, o := b.records[a], b.offers[a]
	return (r.isOf(m) || !now.Before(r.expires)) && (o.mac == m.MAC || !now.Before(o.until))
}

func (b *Book) offerLocked(a netip.Addr, mac netaddr.MAC, now time.Time) error {
	if _, known := b.offers[a]; !known && len(b.offers) >= maxOffers {
		for a, o := range b.offers {
			if !now.Before(o.until) {
				b.withdrawLocked(a)
			}
		}
		if len(b.offers) >= maxOffers {
			return ErrNone
		}
	}
	b.withdrawLocked(a)
	b.offers[a], b.offered[mac] = offer{mac, now.Add(offerTime)}, a
	return nil
}

func (b *Book) withdrawLocked(a netip.Addr) {
	if o, known := b.offers[a]; known {
		delete(b.offers, a)
		clear(b.full)
		if b.offered[o.mac] == a {
			delete(b.offered, o.mac)
		}
	}
}

// Withdraw forgets that a machine was offered an address: it has chosen another server.
func (b *Book) Withdraw(mac netaddr.MAC) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.withdrawLocked(b.offered[mac])
}

// HostOf returns the host that the machine with a hardware address was when it was given its address; "": none.
func (b *Book) HostOf(mac netaddr.MAC) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, known := b.byMAC[mac]; known && time.Now().Before(b.records[a].expires) {
		return b.records[a].host
	}
	return ""
}

// Has reports whether a machine has the lease of an address.
func (b *Book) Has(m *Machine, a netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, known := b.records[a]
	return known && r.isOf(m) && !r.conflict
}

// May reports whether a machine may have an address: its own, the one that it has, or that it was offered. isKnown is
// false where nothing is known of the address, and the machine has no other one.
func (b *Book) May(m *Machine, a netip.Addr) (may, isKnown bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if m.Own.IsValid() && b.canHaveOwnLocked(m, now) {
		return a == m.Own, true
	}
	r, isRecorded := b.records[a]
	if isRecorded && now.Before(r.expires) {
		return r.isOf(m), true
	}
	if o, isOffered := b.offers[a]; isOffered && now.Before(o.until) {
		return o.mac == m.MAC, true
	}
	if other, has := b.byMAC[m.MAC]; has && other != a && now.Before(b.records[other].expires) {
		return false, true
	}
	return isRecorded && r.isOf(m), isRecorded && r.isOf(m)
}

// IsBound reports whether Bind would write nothing, since the lease of a machine is new enough.
func (b *Book) IsBound(m *Machine, a netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records[a].isFresh(m)
}

// isFresh reports whether a lease of a machine need not be written again.
func (r record) isFresh(m *Machine) bool {
	rest := time.Until(r.expires)
	return !r.conflict && r.mac == m.MAC && r.host == m.Host && fresh < rest && rest <= Duration
}

// Bind stores that a machine has an address, and returns for how long. The error is ErrTaken, or one of the store.
// While the store is away a machine keeps what it has, and a host has its own address.
func (b *Book) Bind(ctx context.Context, m *Machine, a netip.Addr) (time.Duration, error) {
	b.mu.Lock()
	r, store := b.records[a], b.store
	b.mu.Unlock()
	if r.isFresh(m) {
		return time.Until(r.expires), nil
	}
	err := b.write(ctx, store, a, func(old *v1.LeaseStatus, now time.Time) (time.Duration, error) {
		former := recordOf(old)
		if now.Before(former.expires) && !former.isOf(m) {
			return 0, ErrTaken
		}
		*old = v1.LeaseStatus{
			State: v1.LeaseBound, MAC: m.MAC.String(), Host: m.Host, Hostname: m.Hostname, Interface: m.Interface,
		}
		return Duration, nil
	})
	switch {
	case err == nil:
		b.Withdraw(m.MAC)
		return Duration, nil
	case errors.Is(err, ErrTaken):
		return 0, err
	case r.isOf(m) && !r.conflict:
		b.mu.Lock()
		defer b.mu.Unlock()
		if rest := time.Until(r.expires); rest > awayLease {
			return rest, nil
		}
		r.expires = time.Now().Add(awayLease) // nobody else is given it meanwhile
		b.records[a] = r
		return awayLease, nil
	case a == m.Own:
		return Duration, nil
	}
	return 0, fmt.Errorf("the lease of %s is not stored: %w", a, err)
}

// Conflict notes that another machine than m uses an address without a lease. mac is that of the other one, which may
// be zero. The error is ErrTaken where it has a lease.
func (b *Book) Conflict(ctx context.Context, m *Machine, a netip.Addr, mac netaddr.MAC) error {
	b.mu.Lock()
	store := b.store
	b.withdrawLocked(a)
	b.mu.Unlock()
	return b.write(ctx, store, a, func(old *v1.LeaseStatus, now time.Time) (time.Duration, error) {
		if r := recordOf(old); now.Before(r.expires) && !r.conflict && !r.isOf(m) {
			return 0, ErrTaken
		}
		*old = v1.LeaseStatus{State: v1.LeaseConflict, Interface: m.Interface}
		if mac != (netaddr.MAC{}) {
			old.MAC = mac.String()
		}
		return conflictTime, nil
	})
}

// Release removes the lease of a machine, if it is its own.
func (b *Book) Release(ctx context.Context, m *Machine, a netip.Addr) error {
	b.mu.Lock()
	store := b.store
	b.withdrawLocked(b.offered[m.MAC])
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	isOwn := func(_ context.Context, obj runtime.Object) error {
		if r := recordOf(&obj.(*v1.Lease).Status); !r.isOf(m) {
			return ErrTaken
		}
		return nil
	}
	err := store.Delete(ctx, prefix+Name(a), &v1.Lease{}, nil, isOwn, nil, storage.DeleteOptions{})
	if storage.IsNotFound(err) {
		return nil
	}
	return err
}

// write changes the status of the lease of an address; change returns how long it lasts.
func (b *Book) write(ctx context.Context, store Store, a netip.Addr,
	change func(*v1.LeaseStatus, time.Time) (time.Duration, error)) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	update := func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		l, now := obj.(*v1.Lease), time.Now()
		if l.Name == "" {
			l.Name, l.UID, l.CreationTimestamp = Name(a), uuid.NewUUID(), metav1.NewTime(now)
		}
		lasts, err := change(&l.Status, now)
		l.Status.Address, l.Status.Renewed, l.Status.Expires = a.String(), metav1.NewTime(now), metav1.NewTime(now.Add(lasts))
		return l, new(uint64((lasts + keep) / time.Second)), err
	}
	return store.GuaranteedUpdate(ctx, prefix+Name(a), &v1.Lease{}, true, nil, update, nil)
}

// Name returns the name of the lease of an address.
func Name(a netip.Addr) string { return decide.MachineName(netaddr.MAC{}, a) }
