package unknown

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// memory is a store in memory with observers, as of several servers.
type memory struct {
	mu        sync.Mutex
	objects   map[string]*v1.UnknownMachine
	writes    int
	failure   error
	observers []kvstore.Observer
}

func (m *memory) GuaranteedUpdate(_ context.Context, key string, out runtime.Object, _ bool,
	_ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	if stored, ok := m.objects[key]; ok {
		out = stored.DeepCopy()
	}
	obj, _, err := update(out, storage.ResponseMeta{})
	if err != nil {
		return err
	}
	m.objects[key], m.writes = obj.(*v1.UnknownMachine), m.writes+1
	for _, o := range m.observers {
		o.Put(item(m.objects[key]))
	}
	return nil
}

func (m *memory) Delete(_ context.Context, key string, _ runtime.Object, _ *storage.Preconditions,
	_ storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	if m.objects[key] == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	delete(m.objects, key)
	for _, o := range m.observers {
		o.Delete(strings.TrimPrefix(key, prefix), 0)
	}
	return nil
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
}

func (m *memory) get(name string) *v1.UnknownMachine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[prefix+name]
}

func (m *memory) count() (objects, writes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.objects), m.writes
}

func item(object *v1.UnknownMachine) kvstore.Item {
	value, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return kvstore.Item{Key: object.Name, Value: value}
}

// rig is a running recorder over a store in memory, in a bubble of its own time.
type rig struct {
	*Recorder
	store *memory
	hosts map[string]bool // by hardware or IP address
	mu    sync.Mutex
	stop  func()
}

func newRig(t *testing.T, store *memory) *rig {
	t.Helper()
	logger, _ := logstest.Logger()
	r := &rig{store: store, hosts: map[string]bool{}}
	inventory := snapshot.New(snapshot.Options{})
	r.Recorder = New(Options{Logger: logger, Inventory: inventory, IsHost: func(mac netaddr.MAC, addr netip.Addr) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if mac != (netaddr.MAC{}) {
			return r.hosts[mac.String()]
		}
		return r.hosts[addr.String()]
	}})
	store.mu.Lock()
	var items []kvstore.Item
	for _, object := range store.objects {
		items = append(items, item(object))
	}
	r.Load(items)
	store.observers = append(store.observers, r.Recorder)
	store.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, store, func() bool { return false }) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

func newMemory() *memory { return &memory{objects: map[string]*v1.UnknownMachine{}} }

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func macN(n int) netaddr.MAC {
	mac := netaddr.MAC{2}
	binary.BigEndian.PutUint32(mac[2:], uint32(n))
	return mac
}

func addrN(n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24+uint32(n))
	return netip.AddrFrom4(b)
}

func nameN(n int) string { return decide.MachineName(macN(n), netip.Addr{}) }

// TestEachUnknownMachineIsAnObject has 200 machines ask within 10 s.
func TestEachUnknownMachineIsAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		for i := range 200 {
			r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(i), Neighbor: macN(i), Serial: fmt.Sprint("S", i)})
			time.Sleep(50 * time.Millisecond)
		}
		pass(10 * time.Second)
		if objects, _ := r.store.count(); objects != 200 || r.Len() != 200 {
			t.Errorf("%d objects, %d machines", objects, r.Len())
		}
		s := &r.store.get(nameN(7)).Status
		if s.Serial != "S7" || s.Count != 1 || s.MAC != macN(7).String() || s.NeighborMAC != s.MAC || s.LastSeen.IsZero() ||
			s.Adopt != "glowplug adopt um/"+nameN(7)+" -n NAMESPACE --name HOST" || s.Addresses[0] != addrN(7).String() {
			t.Errorf("status: %+v", s)
		}
		if uid := string(r.store.get(nameN(7)).UID); uid != controller.MachineReference(nameN(7)).UID {
			t.Errorf("kubectl describe looks for events about %s", uid)
		}
	})
}

// TestAdoptCommand: a machine that is not in the neighbour table becomes a host by its IP address,
// also where it claims a hardware address. Once its entry is known, it is another object with
// another command.
func TestAdoptCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		byAddr := decide.MachineName(netaddr.MAC{}, addrN(1))
		r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(1)})
		pass(time.Minute)
		if m := r.store.get(byAddr); m == nil || m.Status.Adopt !=
			"glowplug adopt um/10-0-0-1 -n NAMESPACE --name HOST --with-address" {
			t.Errorf("without a hardware address: %+v", m)
		}
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(2), MAC: macN(2)})
		pass(time.Minute)
		if m := r.store.get(nameN(2)); m == nil || m.Status.Adopt !=
			"glowplug adopt um/"+nameN(2)+" -n NAMESPACE --name HOST --with-address" {
			t.Errorf("with a claimed hardware address: %+v", m)
		}
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1)})
		r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(1)})
		pass(time.Minute)
		if m := r.store.get(nameN(1)); m == nil || m.Status.Adopt !=
			"glowplug adopt um/"+nameN(1)+" -n NAMESPACE --name HOST" {
			t.Errorf("with a hardware address: %+v", m)
		}
		if m := r.store.get(byAddr); m != nil {
			t.Errorf("it is there twice: %+v", m)
		}
	})
}

// TestStrangerDoesNotPushOutOthers has one address claim 20,000 hardware addresses.
func TestStrangerDoesNotPushOutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		for i := range 300 { // machines of a rack, and machines behind a router
			r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(i), Neighbor: macN(i)})
			r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1000 + i), MAC: macN(1000 + i)})
		}
		for i := range 20_000 {
			r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(5000), MAC: macN(500 + i)})
		}
		if n := r.Len(); n > 600+256 {
			t.Errorf("%d machines", n)
		}
		pass(time.Minute)
		for i := range 300 {
			if r.store.get(nameN(i)) == nil || r.store.get(nameN(1000+i)) == nil {
				t.Fatalf("machine %d was pushed out", i)
			}
		}
		if objects, _ := r.store.count(); objects > 600+256 {
			t.Errorf("%d objects", objects)
		}
		if testutil.ToFloat64(r.dropped.WithLabelValues(causeSource)) == 0 {
			t.Error("nothing counts as dropped")
		}
	})
}

// TestVerifiedMachineWins: a client that only claims a hardware address neither takes the
// object of the machine that has it, nor its place in a full list.
func TestVerifiedMachineWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1), Serial: "true"})
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(2), MAC: macN(1), Serial: "false"})
		for i := range 2 * maxMachines {
			r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(100 + i), MAC: macN(100 + i)})
		}
		if n := r.Len(); n != 10_000 {
			t.Errorf("%d machines", n)
		}
		pass(10 * time.Minute)
		objects, _ := r.store.count()
		if m := r.store.get(nameN(1)); m == nil || m.Status.Serial != "true" || objects != 10_000 {
			t.Errorf("%+v, %d objects", m, objects)
		}
	})
}

// TestOldestGoes: of a full list of machines in the neighbour table the oldest goes.
func TestOldestGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		see := func(i int) { r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(i), Neighbor: macN(i)}) }
		for i := range maxMachines {
			see(i)
		}
		see(0)
		pass(5 * time.Minute)
		see(maxMachines)
		pass(time.Minute)
		if objects, _ := r.store.count(); objects != maxMachines || r.store.get(nameN(1)) != nil ||
			r.store.get(nameN(0)) == nil || r.store.get(nameN(maxMachines)) == nil {
			t.Errorf("%d objects", objects)
		}
	})
}

// TestWritesAreBounded: the requests of one machine are few writes, and none is lost.
func TestWritesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		for i := range 6000 { // in 10 minutes
			r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(1), Neighbor: macN(1), Hostname: fmt.Sprint("h", i)})
			time.Sleep(100 * time.Millisecond)
		}
		pass(2 * countGap)
		_, writes := r.store.count()
		s := &r.store.get(nameN(1)).Status
		if writes > 16 || s.Count != 6000 || len(s.Hostnames) != 8 {
			t.Errorf("%d writes, %+v", writes, s)
		}
	})
}

// TestOtherMACsAreShown: hardware addresses that are none of Ethernet are listed, and name no machine.
func TestOtherMACsAreShown(t *testing.T) {
	const port, guid = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2", "00:02:c9:03:00:31:78:f2"
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := newRig(t, store)
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), OtherMACs: []string{port}})
		name := r.Unknown(decide.Sighting{Request: "kickstart", Addr: addrN(1), OtherMACs: []string{port, guid}})
		pass(time.Minute)
		got := store.objects[prefix+name]
		if got == nil || name != "10-0-0-1" || fmt.Sprint(got.Status.ClaimedMACs) != "["+port+" "+guid+"]" ||
			got.Status.MAC != "" {
			t.Errorf("%s: %+v", name, got)
		}
	})
}

// TestValuesAreBounded: texts are printable UTF-8 of a bounded length.
func TestValuesAreBounded(t *testing.T) {
	for in, want := range map[string]string{
		"PowerEdge R640": "PowerEdge R640", " a\x00b\x1b[31m\u202e\n ": "ab[31m", "\xff\xfe": "", "${serial}": "",
		strings.Repeat("é", 500): strings.Repeat("é", 64), strings.Repeat("x", 1<<20): strings.Repeat("x", 128),
		"a" + strings.Repeat("é", 500): "a" + strings.Repeat("é", 63),
	} {
		if got := printable(in); got != want {
			t.Errorf("%.40q: %q", in, got)
		}
	}
	var s v1.UnknownMachineStatus
	for i := range 1000 {
		see(&s, "x", macN(1), &decide.Sighting{Request: "ipxe", Addr: addrN(i), MAC: macN(i), Hostname: fmt.Sprint(i),
			Serial: strings.Repeat("x", 10_000)}, time.Now())
	}
	if len(s.Addresses) != 8 || s.Addresses[0] != addrN(999).String() || len(s.ClaimedMACs) != 8 ||
		len(s.Hostnames) != 8 {
		t.Errorf("%+v", s)
	}
	if text, _ := json.Marshal(&s); len(text) > 4096 {
		t.Errorf("%d bytes", len(text))
	}
}

// TestStoreAway: machines are kept while the store is away, within the bound.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		r.store.fail(apierrors.NewServiceUnavailable("away"))
		for range 3 {
			for i := range 500 {
				r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(i), Neighbor: macN(i)})
			}
			pass(10 * time.Minute)
		}
		r.store.fail(nil)
		pass(time.Minute)
		if objects, _ := r.store.count(); objects != 500 || r.store.get(nameN(9)).Status.Count != 3 {
			t.Errorf("%d objects", objects)
		}
	})
}

// TestGoneWithItsHost: an object goes when a host has its address, on every server, and a
// request that was under way does not bring it back.
func TestGoneWithItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r, other := newRig(t, store), newRig(t, store)
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1)})
		r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(2)})
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(3), Neighbor: macN(3)})
		pass(5 * time.Second)
		if objects, _ := store.count(); objects != 3 || other.Len() != 3 {
			t.Fatalf("%d objects, %d on the other server", objects, other.Len())
		}
		for _, address := range []string{macN(1).String(), addrN(2).String()} {
			r.hosts[address], other.hosts[address] = true, true
		}
		r.changed(snapshot.Change{Host: &model.Host{MACs: []netaddr.MAC{macN(1)}}})
		r.changed(snapshot.Change{Host: &model.Host{IPs: []netip.Addr{addrN(2)}}})
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1)})
		pass(5 * time.Second)
		if objects, _ := store.count(); objects != 1 || r.Len() != 1 || other.Len() != 1 {
			t.Errorf("%d objects, %d and %d machines", objects, r.Len(), other.Len())
		}
		// A host that was created while no server ran is found by the next check.
		other.mu.Lock()
		other.hosts[macN(3).String()] = true
		other.mu.Unlock()
		pass(2 * sweepPeriod)
		if objects, _ := store.count(); objects != 0 {
			t.Errorf("%d objects", objects)
		}
	})
}

// TestServersShareOneList: the requests at two servers are one object, and a later start has
// it.
func TestServersShareOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r, other := newRig(t, store), newRig(t, store)
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1), Product: "R640"})
		other.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(1), Neighbor: macN(1), Serial: "S1"})
		pass(2 * countGap)
		check := func(when string, count int64) {
			t.Helper()
			s := &store.get(nameN(1)).Status
			if s.Count != count || s.Product != "R640" || s.Serial != "S1" || len(s.Requests) != 2 {
				t.Errorf("%s: %+v", when, s)
			}
		}
		check("two servers", 2)
		r.stop()
		other.stop()
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1)})
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		check("a shutdown", 3)
		next := newRig(t, store)
		next.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1)})
		pass(2 * countGap)
		check("a restart", 4)
	})
}

// TestDeletedMachineIsForgotten: an administrator clears the list, and a machine that asks
// again is in it again.
func TestDeletedMachineIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ask := func() { r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), Neighbor: macN(1)}) }
		ask()
		pass(5 * time.Second)
		if err := r.store.Delete(t.Context(), prefix+nameN(1), nil, nil, nil, nil, storage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if objects, _ := r.store.count(); objects != 0 || r.Len() != 0 {
			t.Errorf("%d objects, %d machines", objects, r.Len())
		}
		ask()
		pass(5 * time.Second)
		if m := r.store.get(nameN(1)); m == nil || m.Status.Count != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// TestIgnitionJoinsIPXE: a request without a hardware address is of the machine that had the
// address before.
func TestIgnitionJoinsIPXE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		r.Unknown(decide.Sighting{Request: "kickstart", Addr: addrN(1)})
		pass(5 * time.Second)
		if r.store.get("10-0-0-1") == nil {
			t.Error("a machine without a hardware address has no object")
		}
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(1), MAC: macN(1)})
		r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(1)})
		pass(5 * time.Second)
		m := r.store.get(nameN(1))
		if objects, _ := r.store.count(); objects != 1 || m == nil || m.Status.Count != 2 || len(m.Status.Requests) != 2 {
			t.Errorf("%d objects: %+v", objects, m)
		}
	})
}

// TestGoneWhenItAsksAsAHost: a machine behind a router that did not send its hardware address is
// known by its address, and goes when it asks as the host that it is. Another machine from there
// has its own object.
func TestGoneWhenItAsksAsAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := newRig(t, store)
		r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(1)})
		r.Unknown(decide.Sighting{Request: "ignition", Addr: addrN(2)})
		r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(3), MAC: macN(3)})
		pass(5 * time.Second)
		later := newRig(t, store) // and so does a server that has it from the store
		pass(5 * time.Second)
		later.Known(addrN(1))
		r.Known(addrN(3))
		pass(5 * time.Second)
		if store.get("10-0-0-1") != nil || store.get("10-0-0-2") == nil || store.get(nameN(3)) == nil || r.Len() != 2 {
			t.Errorf("%d machines: %v, %v, %v", r.Len(), store.get("10-0-0-1"), store.get("10-0-0-2"), store.get(nameN(3)))
		}
	})
}

// TestHostByAddressTakesItsMachine: a host without hardware addresses is the machine at its
// address, so that this is no longer unknown, whatever its hardware address is. A host with
// other hardware addresses is another machine.
func TestHostByAddressTakesItsMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		for i := range 2 {
			r.Unknown(decide.Sighting{Request: "ipxe", Addr: addrN(i), Neighbor: macN(i)})
		}
		pass(5 * time.Second)
		r.changed(snapshot.Change{Host: &model.Host{IPs: []netip.Addr{addrN(0)}}})
		r.changed(snapshot.Change{Host: &model.Host{IPs: []netip.Addr{addrN(1)}, MACs: []netaddr.MAC{macN(9)}}})
		pass(5 * time.Second)
		if r.Len() != 1 || r.store.get(nameN(0)) != nil || r.store.get(nameN(1)) == nil {
			t.Errorf("%d machines; %v, %v", r.Len(), r.store.get(nameN(0)), r.store.get(nameN(1)))
		}
	})
}
