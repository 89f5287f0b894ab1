package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/kvstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mac(n int) netaddr.MAC { return netaddr.MAC{2, 0, 0, 0, 0, byte(n)} }
func addr(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }

// hostObject makes a host of an age in seconds; 0 for mac or ip is none.
func hostObject(namespace, name string, age, m, ip int) *v1.BareMetalHost {
	h := &v1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0)),
	}}
	if m != 0 {
		h.Spec.BootMACAddress = mac(m).String()
	}
	if ip != 0 {
		h.Spec.IP = addr(ip).String()
	}
	return h
}

func item(t testing.TB, revision uint64, object metav1.Object) kvstore.Item {
	t.Helper()
	value, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return kvstore.Item{Key: object.GetNamespace() + "/" + object.GetName(), Revision: revision, Value: value}
}

func TestDecodeHost(t *testing.T) {
	o := hostObject("g10", "server1", 0, 0, 0)
	o.Labels = map[string]string{"role": "server", "rack": "7"}
	o.Spec = v1.BareMetalHostSpec{
		BootMACAddress: "AC-1F-6B-8A-A7-9C", IP: "::ffff:192.168.10.10", Hostname: "Server1.Lab",
		Labels:     map[string]string{"role": "builder"},
		NICs:       []v1.NIC{{MAC: "ac1f.6b8a.a79d", IP: "fd00::1", Hostname: "server1-b"}, {MAC: "ac:1f:6b:8a:a7:9c"}},
		SystemUUID: "4C4C4544-0042-3510-8056-B4C04F4E3132", BootSources: []string{"172.16.0.9/24"}, Image: "live",
	}
	h, err := model.Hosts.Decode(model.Stored(item(t, 7, o)), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(h.Ref, h.UID, h.Created.Unix(), h.Revision, h.MACs, h.IPs, h.Hostnames, h.UUID, h.BootSources,
		h.Labels, h.Image)
	want := "g10/server1 u 1000 7 [ac:1f:6b:8a:a7:9c ac:1f:6b:8a:a7:9d] [192.168.10.10 fd00::1] [server1.lab server1-b] " +
		"4c4c4544-0042-3510-8056-b4c04f4e3132 [172.16.0.0/24] map[rack:7 role:builder] g10/live\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeHostDefaults(t *testing.T) {
	for _, c := range []struct{ name, hostname, image, want string }{
		{"server1", "", "", "[server1] /"},
		{"server1", "other", "localboot", "[other] /"},
		{"server1", "other", "iso/live", "[other] iso/live"},
		{strings.Repeat("a", 70), "", "", "[] /"},
	} {
		o := hostObject("g10", c.name, 0, 0, 0)
		o.Spec.Hostname, o.Spec.Image = c.hostname, c.image
		h, err := model.Hosts.Decode(model.Stored(item(t, 1, o)), model.NewInterner())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h.Hostnames, " ", h.Image); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestBadValues are logged without their contents and kept out, and a good
// value heals them.
func TestBadValues(t *testing.T) {
	var log bytes.Buffer
	inv := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	hosts, configs := inv.Hosts(), inv.Configs()
	good := item(t, 2, hostObject("a", "good", 0, 1, 1))
	hosts.Load([]kvstore.Item{{Key: "a/bad", Revision: 3, Value: []byte(`{"spec":{"password":"hunter2"`)}, good,
		{Key: "a/mac", Revision: 4, Value: []byte(`{"spec":{"nics":[{"mac":"nonsense"}]}}`)}})
	configs.Load([]kvstore.Item{{Key: "a/type", Value: []byte(`{"spec":{"type":"cloud-init"}}`)}})
	configs.Put(kvstore.Item{Key: "a/sel", Value: []byte(`{"spec":{"type":"ignition","selector":{"matchIPs":["x"]}}}`)})
	if s := inv.Stats(); s.Hosts.Objects != 1 || s.Hosts.Bad != 2 || s.Configs.Objects != 0 || s.Configs.Bad != 2 ||
		s.Hosts.Revision != 4 {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"a/bad", "spec.nics[0].mac", "a/type", "spec.selector.matchIPs[0]"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not name %s: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Error("the log holds a password")
	}
	bad := good
	bad.Value = []byte(`{}}`)
	hosts.Put(bad)
	if v := inv.View(); v.HostByMAC(mac(1)) != nil {
		t.Error("a host whose value went bad is still found")
	} else {
	}
	hosts.Put(good)
	hosts.Delete("a/bad", 9)
	hosts.Delete("a/mac", 10)
	if s := inv.Stats(); s.Hosts.Objects != 1 || s.Hosts.Bad != 0 || s.Hosts.Revision != 10 {
		t.Errorf("%+v", s.Hosts)
	}
}

func TestStats(t *testing.T) {
	now := time.Unix(42, 0)
	inv := New(Options{Now: func() time.Time { return now }})
	if s := inv.Stats(); s != (Stats{}) {
		t.Errorf("%+v of nothing", s)
	}
	inv.Images().Load(nil)
	inv.Hosts().Load([]kvstore.Item{item(t, 8, hostObject("a", "x", 0, 1, 1)), item(t, 5, hostObject("a", "y", 0, 1, 2))})
	s := inv.Stats()
	if want := (BucketStats{Loaded: true, Objects: 2, Revision: 8, At: now}); s.Hosts != want || !s.Images.Loaded ||
		s.Configs.Loaded || s.Conflicting != 2 {
		t.Errorf("%+v", s)
	}
}

// TestImages are found by name, and name their config.
func TestImages(t *testing.T) {
	inv := New(Options{})
	images := inv.Images()
	i := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Namespace: "g10", Name: "live"}}
	config := func() model.Ref {
		v := inv.View()
		if got := v.Image(model.Ref{Namespace: "g10", Name: "live"}); got != nil {
			return got.Config
		}
		return model.Ref{}
	}
	i.Spec.IgnitionConfig = "c"
	images.Load([]kvstore.Item{item(t, 1, i)})
	if got := config(); got != (model.Ref{Namespace: "g10", Name: "c"}) {
		t.Errorf("config %s", got)
	}
	i.Spec.IgnitionConfig = "g11/c"
	images.Put(item(t, 2, i))
	if got := config(); got != (model.Ref{Namespace: "g11", Name: "c"}) {
		t.Errorf("config %s", got)
	}
	images.Delete("g10/live", 3)
	if got := config(); got != (model.Ref{}) {
		t.Errorf("config %s of an image that is gone", got)
	}
}

// TestAgainstScan compares all lookups with a plain look at every host, through
// random changes and loads.
func TestAgainstScan(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		inv := New(Options{})
		observer := inv.Hosts()
		live := map[model.Ref]*v1.BareMetalHost{}
		for step := range 120 {
			ref := model.Ref{Namespace: fmt.Sprint("ns", r.IntN(2)), Name: fmt.Sprint("h", r.IntN(8))}
			switch r.IntN(8) {
			case 0:
				var all []kvstore.Item
				live = map[model.Ref]*v1.BareMetalHost{}
				for range r.IntN(10) {
					h := randomHost(r)
					live[model.Ref{Namespace: h.Namespace, Name: h.Name}] = h
				}
				for _, h := range live {
					all = append(all, item(t, uint64(step), h))
				}
				observer.Load(all)
			case 1, 2:
				delete(live, ref)
				observer.Delete(ref.String(), uint64(step))
			default:
				h := randomHost(r)
				live[model.Ref{Namespace: h.Namespace, Name: h.Name}] = h
				observer.Put(item(t, uint64(step), h))
			}
			compare(t, inv, live)
			if t.Failed() {
				t.Fatalf("seed %d step %d", seed, step)
			}
		}
	}
}

func randomHost(r *rand.Rand) *v1.BareMetalHost {
	h := hostObject(fmt.Sprint("ns", r.IntN(2)), fmt.Sprint("h", r.IntN(8)), r.IntN(3), r.IntN(6), r.IntN(6))
	for range r.IntN(2) {
		h.Spec.NICs = append(h.Spec.NICs, v1.NIC{MAC: mac(1 + r.IntN(5)).String(), Hostname: fmt.Sprintf("h%d.lab%d",
			r.IntN(8), r.IntN(2))})
	}
	if r.IntN(2) == 0 {
		h.Spec.SystemUUID = fmt.Sprintf("4c4c4544-0042-3510-8056-%012d", r.IntN(4))
	}
	return h
}

// compare checks every lookup, and all conflicts.
func compare(t *testing.T, inv *Inventory, live map[model.Ref]*v1.BareMetalHost) {
	t.Helper()
	var all []*model.Host
	for _, o := range live {
		h, err := model.Hosts.Decode(model.Stored(item(t, 1, o)), nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *model.Host) int {
		return cmp.Or(a.Created.Compare(b.Created), a.Ref.Compare(b.Ref))
	})
	first := func(has func(*model.Host) bool) string {
		if i := slices.IndexFunc(all, has); i >= 0 {
			return all[i].Ref.String()
		}
		return ""
	}
	check := func(what any, got *model.Host, want string) {
		t.Helper()
		if got != nil && got.Ref.String() != want || got == nil && want != "" {
			t.Errorf("%v finds %v, want %q", what, got, want)
		}
	}
	v := inv.View()
	for n := range 6 {
		check(mac(n), v.HostByMAC(mac(n)), first(func(h *model.Host) bool { return slices.Contains(h.MACs, mac(n)) }))
		check(addr(n), v.HostByIP(addr(n)), first(func(h *model.Host) bool { return slices.Contains(h.IPs, addr(n)) }))
		uuid := fmt.Sprintf("4c4c4544-0042-3510-8056-%012d", n)
		check(uuid, v.HostByUUID(uuid), first(func(h *model.Host) bool { return h.UUID == uuid }))
		for _, name := range []string{fmt.Sprint("h", n), fmt.Sprintf("h%d.lab0", n), fmt.Sprintf("h%d.lab9", n)} {
			check(name, v.HostByHostname(name), first(func(h *model.Host) bool {
				return slices.ContainsFunc(h.Hostnames, func(have string) bool { return match.SameHost(have, name) })
			}))
		}
	}
	for _, h := range all {
		want := v.Islands().Has(h.Namespace) && slices.ContainsFunc(all, func(o *model.Host) bool {
			return o.Namespace != h.Namespace && v.Islands().Has(o.Namespace) && sharesAddress(o, h)
		})
		if c, got := v.Rivals(h).First(); got != want || got && c.With.Namespace == h.Namespace {
			t.Errorf("%s is shared across namespaces: %v, want %v", h.Ref, got, want)
		}
	}
	conflicting := 0
	for _, h := range all {
		got := conflictsOf(inv.View(), live[h.Ref])
		if stored := v.Conflicts(v.Host(h.Ref)); !slices.Equal(got, stored) {
			t.Errorf("%s has the conflicts %v when it is stored, and %v before", h.Ref, stored, got)
		}
		has := slices.ContainsFunc(all, func(o *model.Host) bool { return o != h && shares(o, h) })
		if has != (len(got) > 0) {
			t.Errorf("%s has conflicts %v, want %v", h.Ref, got, has)
		}
		if has {
			conflicting++
		}
	}
	if s := inv.Stats(); s.Conflicting != conflicting || s.Hosts.Objects != len(all) {
		t.Errorf("%+v, want %d hosts, %d in conflict", s, len(all), conflicting)
	}
}

// conflictsOf returns the conflicts that an object would have if it were stored.
func conflictsOf(v model.View, host *v1.BareMetalHost) []model.Conflict {
	if h := model.HostFrom(host); h != nil {
		return v.Conflicts(h)
	}
	return nil
}

func shares(a, b *model.Host) bool { return sharesAddress(a, b) || a.UUID != "" && a.UUID == b.UUID }

func sharesAddress(a, b *model.Host) bool {
	return slices.ContainsFunc(a.MACs, func(m netaddr.MAC) bool { return slices.Contains(b.MACs, m) }) ||
		slices.ContainsFunc(a.IPs, func(ip netip.Addr) bool { return slices.Contains(b.IPs, ip) })
}

// TestConflictText names both sides of it.
func TestConflictText(t *testing.T) {
	inv := New(Options{})
	old, younger := hostObject("a", "old", 9, 1, 1), hostObject("b", "new", 0, 1, 1)
	old.Spec.SystemUUID = "4c4c4544-0042-3510-8056-b4c04f4e3132"
	younger.Spec.SystemUUID = "44454C4C-4200-1035-8056-B4C04F4E3132" // the same, in the other byte order
	inv.Hosts().Load([]kvstore.Item{item(t, 1, old)})
	var got []string
	for _, c := range conflictsOf(inv.View(), younger) {
		got = append(got, c.String())
	}
	want := []string{"shares MAC 02:00:00:00:00:01 with BareMetalHost a/old",
		"shares IP 10.0.0.1 with BareMetalHost a/old",
		"shares UUID 44454c4c-4200-1035-8056-b4c04f4e3132 with BareMetalHost a/old"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	bad := hostObject("b", "new", 0, 0, 0)
	bad.Spec.BootMACAddress, bad.Spec.IP = "nonsense", "nonsense"
	if got := conflictsOf(inv.View(), bad); got != nil {
		t.Errorf("%v of addresses that cannot be read", got)
	}
}

// TestManyOfOneMAC stays bounded: a thousand cards with one factory address.
func TestManyOfOneMAC(t *testing.T) {
	inv := New(Options{})
	observer := inv.Hosts()
	for i := range 1000 {
		observer.Put(item(t, uint64(i), hostObject("a", fmt.Sprintf("h%04d", i), 999-i, 1, 0)))
	}
	v := inv.View()
	for _, h := range v.Hosts() {
		if n := len(v.Conflicts(h)); n != 8 {
			t.Fatalf("%d conflicts named", n)
		}
	}
}

// TestConcurrent is for the race detector: readers beside a writer.
func TestConcurrent(t *testing.T) {
	inv := New(Options{})
	hosts, configs := inv.Hosts(), inv.Configs()
	configs.Load(items(20, configItem))
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := inv.View()
				if h := v.HostByMAC(mac(1)); h != nil && h.MACs[0] != mac(1) {
					t.Error("torn host")
				}
				v.Pick(&match.Query{Type: "ignition", Facts: match.Facts{Labels: map[string]string{"role": "server",
					"rack": "r1"}}})
				v.Rules()
				inv.Stats()
				conflictsOf(inv.View(), hostObject("b", "new", 0, 1, 1))
			}
		})
	}
	for i := range 300 {
		hosts.Put(item(t, uint64(i), hostObject("a", fmt.Sprint("h", i%3), 0, 1+i%2, 1)))
		configs.Put(configItem(i % 25))
		if i%50 == 0 {
			hosts.Load([]kvstore.Item{item(t, uint64(i), hostObject("a", "h1", 0, 1, 1))})
		}
	}
	close(done)
	group.Wait()
}

// TestCounts: hosts by state and configs by phase, for metrics.
func TestCounts(t *testing.T) {
	inv := New(Options{})
	inv.Hosts().Load([]kvstore.Item{
		{Key: "a/new", Revision: 1, Value: []byte(`{}`)},
		{Key: "a/old", Revision: 2, Value: []byte(`{"status":{"state":"Provisioned"}}`)},
	})
	inv.Configs().Load([]kvstore.Item{
		{Key: "a/good", Revision: 3, Value: []byte(`{"spec":{"type":"ignition"},"status":{"phase":"Ready"}}`)},
		{Key: "a/bad", Revision: 4, Value: []byte(`{"spec":{"type":"ignition"},"status":{"phase":"Error"}}`)},
		{Key: "a/next", Revision: 5, Value: []byte(`{"spec":{"type":"ignition"},"status":{"phase":"Pending"}}`)},
	})
	states, phases := model.HostsByState(inv.View()), model.ConfigsByPhase(inv.View())
	if !maps.Equal(states, map[string]int{"Available": 1, "Provisioned": 1}) ||
		!maps.Equal(phases, map[string]int{"Ready": 1, "Error": 1, "Pending": 1}) {
		t.Errorf("%v %v", states, phases)
	}
}
