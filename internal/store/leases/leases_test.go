package leases

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/lease"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/store/objects"
	"glowplug/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a Book of a server with a store.
type rig struct {
	*Book
	t     *testing.T
	store *kvstore.Store
	pool  lease.Pool
	// reserved are the addresses of hosts.
	reserved map[netip.Addr]bool
}

func newRig(t *testing.T, js jetstream.JetStream, of string) *rig {
	t.Helper()
	r := &rig{t: t, Book: New(nil), reserved: map[netip.Addr]bool{}}
	r.pool = lease.Pool{Network: netip.MustParsePrefix("10.0.0.1/24"), Server: netip.MustParseAddr("10.0.0.1")}
	var err error
	if r.pool.Range, err = lease.ParseRange(of); err != nil {
		t.Fatal(err)
	}
	r.store = kvstore.New(objects.Stored(kinds.Of(kinds.Leases)), kvstore.Options{}, r.Book)
	r.Use(r.store)
	kvtest.Run(t, js, r.store)
	testkit.Until(t, "the leases are read", r.store.Loaded)
	return r
}

func (r *rig) offer(m *Machine) (netip.Addr, bool, error) {
	return r.Offer(&r.pool, m, func(a netip.Addr) bool { return r.reserved[a] && a != m.Own })
}

// give gives a machine an address.
func (r *rig) give(m *Machine) netip.Addr {
	r.t.Helper()
	a, _, err := r.offer(m)
	if err != nil {
		r.t.Fatal(err)
	}
	if lasts, err := r.Bind(r.t.Context(), m, a); err != nil || lasts != Duration {
		r.t.Fatal(a, lasts, err)
	}
	return a
}

func (r *rig) stored(a netip.Addr) *v1.LeaseStatus {
	r.t.Helper()
	l := &v1.Lease{}
	if err := r.store.Get(r.t.Context(), prefix+Name(a), storage.GetOptions{}, l); err != nil {
		r.t.Fatal(err)
	}
	return &l.Status
}

// expire ends the lease of an address.
func (r *rig) expire(a netip.Addr) {
	r.t.Helper()
	ended := func(*v1.LeaseStatus, time.Time) (time.Duration, error) { return -time.Second, nil }
	if err := r.write(r.t.Context(), r.store, a, ended); err != nil {
		r.t.Fatal(err)
	}
}

func machine(i int) *Machine {
	return &Machine{MAC: netaddr.MAC{2, 0, 0, 0, 0, byte(i)}, Interface: "eth1"}
}

func host(i int, own string) *Machine {
	m := machine(i)
	m.Host, m.Own = fmt.Sprint("rack/h", i), netip.MustParseAddr(own)
	return m
}

// TestLeases: each machine has an address of its own, which is stored, and which it is given again.
func TestLeases(t *testing.T) {
	r := newRig(t, kvtest.JetStream(t), "10.0.0.10-10.0.0.12")
	given := map[netip.Addr]int{}
	for i := range 3 {
		given[r.give(machine(i))] = i
	}
	if len(given) != 3 {
		t.Fatal(given)
	}
	if a, _, err := r.offer(machine(3)); !errors.Is(err, ErrNone) {
		t.Error("a full range has offered", a, err)
	}
	for a, i := range given {
		if again, isSure, err := r.offer(machine(i)); again != a || !isSure || err != nil {
			t.Error(again, isSure, err)
		}
		if s := r.stored(a); s.State != v1.LeaseBound || s.MAC != machine(i).MAC.String() || s.Address != a.String() ||
			time.Until(s.Expires.Time) < Duration-time.Minute {
			t.Errorf("%+v", s)
		}
		if _, err := r.Bind(t.Context(), machine(9), a); !errors.Is(err, ErrTaken) {
			t.Error("an address was given twice:", err)
		}
	}
	if n := r.bound(); n != 3 {
		t.Error(n)
	}
	// An address is free once it is released, or its lease has ended.
	first, _, _ := r.offer(machine(0))
	if err := r.Release(t.Context(), machine(9), first); !errors.Is(err, ErrTaken) {
		t.Error("a machine has released the address of another one:", err)
	}
	if err := r.Release(t.Context(), machine(0), first); err != nil {
		t.Error(err)
	}
	if a := r.give(machine(3)); a != first {
		t.Error(a)
	}
	r.expire(first)
	a, isSure, err := r.offer(machine(3))
	if a != first || isSure || err != nil {
		t.Error("a lease that has ended is not looked at:", a, isSure, err)
	}
}

// TestHostsHaveTheirAddress: a host has its own address, by one card at a time, nobody else is given it, and a machine
// that has become a host leaves the one that it had.
func TestHostsHaveTheirAddress(t *testing.T) {
	r := newRig(t, kvtest.JetStream(t), "10.0.0.10-10.0.0.11")
	h := host(1, "10.0.0.10")
	r.reserved[h.Own] = true
	other := r.give(machine(2))
	if other == h.Own {
		t.Fatal("a stranger has the address of a host")
	}
	if a := r.give(h); a != h.Own {
		t.Error(a)
	}
	second := *h
	second.MAC[5] = 7
	if a, _, err := r.offer(&second); err == nil && a == h.Own {
		t.Error("a second card was offered the address of the first one")
	}
	if may, _ := r.May(&second, h.Own); may {
		t.Error("a second card may have the address of the first one")
	}
	became := host(2, "10.0.0.20")
	if may, known := r.May(became, other); may || !known {
		t.Error("a machine keeps its old address:", may, known)
	}
	if a := r.give(became); a != became.Own {
		t.Error(a)
	}
	// Its own address may be that of another machine, still.
	squatter := machine(5)
	if _, err := r.Bind(t.Context(), squatter, netip.MustParseAddr("10.0.0.30")); err != nil {
		t.Fatal(err)
	}
	late := host(6, "10.0.0.30")
	if a, _, err := r.offer(late); err == nil && a == late.Own {
		t.Error("an address is offered that another machine has")
	}
	if may, _ := r.May(late, late.Own); may {
		t.Error("a host may have what another machine has")
	}
}

// TestConflicts: an address that a machine uses without a lease is given to nobody for some time.
func TestConflicts(t *testing.T) {
	r := newRig(t, kvtest.JetStream(t), "10.0.0.10-10.0.0.11")
	a := r.give(machine(1))
	if err := r.Conflict(t.Context(), machine(1), a, netaddr.MAC{}); err != nil {
		t.Fatal(err)
	}
	b, _, err := r.offer(machine(1))
	if err != nil || b == a {
		t.Error(b, err)
	}
	if may, _ := r.May(machine(1), a); may {
		t.Error("a machine may have an address in conflict")
	}
	if _, err := r.Bind(t.Context(), machine(1), a); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if s := r.stored(a); s.State != v1.LeaseConflict || s.MAC != "" {
		t.Errorf("%+v", s)
	}
	r.expire(a)
	if _, err := r.Bind(t.Context(), machine(1), a); err != nil {
		t.Error(err)
	}
}

// TestOneAddressFromTwoServers: two servers with one store give no address twice, even at the same moment.
func TestOneAddressFromTwoServers(t *testing.T) {
	js := kvtest.JetStream(t)
	one, two := newRig(t, js, "10.0.0.10-10.0.0.10"), newRig(t, js, "10.0.0.10-10.0.0.10")
	for i := range 20 {
		a, _, err := one.offer(machine(1))
		b, _, other := two.offer(machine(2))
		if err != nil || other != nil || a != b {
			t.Fatal(a, b, err, other)
		}
		outcomes := make(chan error, 2)
		go func() { _, err := one.Bind(t.Context(), machine(1), a); outcomes <- err }()
		go func() { _, err := two.Bind(t.Context(), machine(2), a); outcomes <- err }()
		err = errors.Join(<-outcomes, <-outcomes)
		if n := len(fmt.Sprint(err)); !errors.Is(err, ErrTaken) || n != len(ErrTaken.Error()) {
			t.Fatalf("round %d: %v", i, err)
		}
		one.expire(a)
		testkit.Until(t, "both know that the lease has ended", func() bool { return one.bound()+two.bound() == 0 })
		one.Withdraw(machine(1).MAC)
		two.Withdraw(machine(2).MAC)
	}
}

// away is a store that answers nothing.
type away struct{ Store }

func (away) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc,
	runtime.Object) error {
	return apierrors.NewTimeoutError("away", 1)
}

// TestLeasesWhileTheStoreIsAway: a machine keeps what it has, a host has its own address, and nobody else is given one.
func TestLeasesWhileTheStoreIsAway(t *testing.T) {
	r := newRig(t, kvtest.JetStream(t), "10.0.0.10-10.0.0.19")
	a := r.give(machine(1))
	r.Use(away{r.store})
	b := r.Book.records[a]
	for _, rest := range []time.Duration{20 * time.Minute, time.Second, -time.Second} {
		b.expires = time.Now().Add(rest)
		r.Book.records[a] = b
		lasts, err := r.Bind(t.Context(), machine(1), a)
		if err != nil || lasts < awayLease-time.Second || lasts > 20*time.Minute {
			t.Error(rest, lasts, err)
		}
		if other, _, err := r.offer(machine(2)); err == nil && other == a {
			t.Error(rest, "another machine is offered the address")
		}
	}
	h := host(2, "10.0.0.30")
	if lasts, err := r.Bind(t.Context(), h, h.Own); err != nil || lasts != Duration {
		t.Error(lasts, err)
	}
	if _, err := r.Bind(t.Context(), machine(3), netip.MustParseAddr("10.0.0.19")); err == nil {
		t.Error("an address was given that is not stored")
	}
	unread := New(nil)
	unread.Use(away{})
	if a, _, err := unread.Offer(&r.pool, machine(1), func(netip.Addr) bool { return false }); err == nil {
		t.Error("before the leases are read, a server offers", a)
	}
}

// TestOffersAreBounded: machines that only ask cost a bounded number of offers, and a host has its address all the
// same.
func TestOffersAreBounded(t *testing.T) {
	r := newRig(t, kvtest.JetStream(t), "10.0.0.2-10.0.0.254")
	r.pool.Network, r.pool.Range.Last = netip.MustParsePrefix("10.0.0.1/16"), netip.MustParseAddr("10.0.200.0")
	refused := 0
	for i := range maxOffers + 100 {
		m := &Machine{MAC: netaddr.MAC{2, 1, 0, 0, byte(i >> 8), byte(i)}}
		if _, _, err := r.offer(m); err != nil {
			refused++
		}
	}
	if refused != 100 || len(r.offers) != maxOffers || len(r.offered) != maxOffers {
		t.Error(refused, len(r.offers), len(r.offered))
	}
	h := host(1, "10.0.0.9")
	if a, _, err := r.offer(h); err != nil || a != h.Own {
		t.Error(a, err)
	}
}

// TestConflictsTakeNoLease: a server that finds an address in use, which another server has given meanwhile, leaves
// the lease as it is; and a machine whose lease was lost may have what it uses.
func TestConflictsTakeNoLease(t *testing.T) {
	js := kvtest.JetStream(t)
	one, two := newRig(t, js, "10.0.0.10-10.0.0.10"), newRig(t, js, "10.0.0.10-10.0.0.10")
	a := two.give(machine(2))
	if err := one.Conflict(t.Context(), machine(1), a, machine(2).MAC); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if may, _ := two.May(machine(2), a); !may {
		t.Error("the machine has lost its lease")
	}
	if err := two.Release(t.Context(), machine(2), a); err != nil {
		t.Fatal(err)
	}
	if err := one.Conflict(t.Context(), machine(1), a, machine(2).MAC); err != nil {
		t.Error(err)
	}
	testkit.Until(t, "the other server knows", func() bool { may, _ := two.May(machine(2), a); return may })
	if _, err := two.Bind(t.Context(), machine(2), a); err != nil {
		t.Error(err)
	}
}

// TestAFullRangeIsCheap: a range without a free address is searched once a second, until an address is free.
func TestAFullRangeIsCheap(t *testing.T) {
	r := newRig(t, kvtest.JetStream(t), "10.0.0.10-10.0.0.10")
	a := r.give(machine(1))
	for i := range 5 {
		if _, _, err := r.offer(machine(2 + i)); !errors.Is(err, ErrNone) || len(r.full) != 1 {
			t.Error(err, r.full)
		}
	}
	if err := r.Release(t.Context(), machine(1), a); err != nil {
		t.Fatal(err)
	}
	if b := r.give(machine(2)); b != a {
		t.Error(b)
	}
}
