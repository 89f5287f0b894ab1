package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/store/snapshot/labtest"
)

func configName(c *model.Config) string {
	if c == nil {
		return "none"
	}
	return c.Ref.String()
}

// loadRoles puts the built-in roles into an inventory.
func loadRoles(t testing.TB, inv *snapshot.Inventory) {
	t.Helper()
	for _, role := range kinds.BuiltinRoles() {
		inv.ClusterRoles().Put(kvstore.Item{Key: role.Name, Revision: 1, Value: labtest.Marshal(t, role)})
	}
}

// binding is a stored binding of ann.
func binding(role string) string {
	return `{"roleRef":{"kind":"ClusterRole","name":"` + role + `"},"subjects":[{"kind":"User","name":"ann"}]}`
}

// TestTenantsMakeIslands: a namespace is an island as long as a tenant may write in it, and from then on as long as
// its mark is there; the others go on as one.
func TestTenantsMakeIslands(t *testing.T) {
	l := &lab{}
	for n, namespace := range []string{"a", "b", "c"} {
		l.Host(namespace, "node", "", fmt.Sprintf("10.0.0.%d", n+1)).Spec.Image = "b/image"
		l.Config(namespace, "for-role", Ignition, sel{MatchLabels: map[string]string{"from": namespace}})
		l.Image(namespace, "image", "")
	}
	for _, h := range l.Hosts {
		h.Labels = map[string]string{"from": map[string]string{"a": "b", "b": "c", "c": "a"}[h.Namespace]}
	}
	l.Config("b", "for-all", Ignition, sel{Default: true})
	l.Config("c", "for-others", Ignition, sel{Default: true})
	inv := l.Inventory(t)
	changes := inv.Subscribe()
	d := New(Options{Inventory: inv})
	answers := func() string {
		var out []string
		for n := range 4 { // the last one is unknown
			dec := d.Config(ask{From: fmt.Sprintf("10.0.0.%d", n+1), Accept: v34}.Request(t))
			boot := d.Boot(ask{Endpoint: IPXE, From: fmt.Sprintf("10.0.0.%d", n+1)}.Request(t))
			image := "no image"
			if boot.Image != nil {
				image = boot.Image.Ref.String()
			}
			out = append(out, configName(dec.Config)+" "+image)
		}
		return strings.Join(out, ", ")
	}
	const (
		open   = "b/for-role b/image, b/for-all b/image, c/for-others b/image, b/for-all no image"
		island = "c/for-others no image, b/for-all b/image, c/for-others no image, c/for-others no image"
	)
	put := func(o kvstore.Observer, key, value string) func() { return func() { o.Put(labtest.Item(key, value)) } }
	for _, step := range []struct {
		name string
		do   func()
		want string
		all  bool
	}{
		{"nothing", func() {}, open, false},
		{"a binding to a role that is not there yet", put(inv.RoleBindings(), "b/ann", binding("edit")), open, false},
		{"the role", func() { loadRoles(t, inv) }, island, true},
		{"a viewer elsewhere", put(inv.RoleBindings(), "a/ann", binding("view")), island, false},
		{"she writes everywhere", put(inv.ClusterRoleBindings(), "ann", binding("edit")), open, true},
		{"she does not any more", func() { inv.ClusterRoleBindings().Delete("ann", 3) }, island, true},
		{"the mark", func() { labtest.Mark(inv, "b", "island", "true") }, island, true},
		{"the binding is deleted", func() { inv.RoleBindings().Delete("b/ann", 4) }, island, true},
		{"an administrator says otherwise", func() { labtest.Mark(inv, "b", "island", "false") }, open, true},
		{"which stands", put(inv.RoleBindings(), "b/bob", binding("admin")), open, false},
		{"until he removes it", func() { labtest.Mark(inv, "b", "island", "") }, island, true},
		{"one that cannot be read", put(inv.RoleBindings(), "b/bob", "not JSON"), island, true},
		{"the last is deleted", func() { inv.RoleBindings().Delete("b/bob", 5) }, open, true},
		{"a load", func() {
			inv.RoleBindings().Load([]kvstore.Item{labtest.Item("b/ann", binding("edit"))})
		}, island, true},
	} {
		changes.Take()
		step.do()
		if got := answers(); got != step.want {
			t.Errorf("%s: %s\nwant %s", step.name, got, step.want)
		}
		all := slices.ContainsFunc(changes.Take(), func(c snapshot.Change) bool { return c.All })
		if all != step.all {
			t.Errorf("%s: a change of all hosts: %t", step.name, all)
		}
	}
}

// TestIsolatedStoresStayIsolated: the mark of an earlier release, and --isolate-namespaces, make all namespaces but
// default islands; --isolate-namespaces=all makes all islands.
func TestIsolatedStoresStayIsolated(t *testing.T) {
	withDefaults := func() *lab {
		l := rack()
		l.Config("other", "for-all", Ignition, sel{Default: true})
		l.Config("default", "for-strangers", Ignition, sel{Default: true})
		return l
	}
	answers := func(inv *snapshot.Inventory) (out []string) {
		d := New(Options{Inventory: inv})
		for n := range 20 {
			dec := d.Config(ask{From: fmt.Sprintf("192.168.10.%d", n), Accept: v34}.Request(t))
			out = append(out, fmt.Sprint(n, configName(dec.Config), dec.Tier, dec.Err))
		}
		return out
	}
	open, marked := answers(withDefaults().Inventory(t)), answers(withDefaults().Isolated(t))
	if slices.Equal(open, marked) {
		t.Fatal("isolation changes nothing for these machines")
	}
	if text := strings.Join(marked, "\n"); !strings.Contains(text, "default/for-strangers") {
		t.Errorf("unknown machines are offered no default of default:\n%s", text)
	}
	if got := answers(withDefaults().InventoryWith(t, snapshot.Options{Isolation: model.IsolateOthers})); !slices.Equal(
		got, marked) {
		t.Errorf("--isolate-namespaces: %s\nwant %s", got, marked)
	}
	inv := withDefaults().InventoryWith(t, snapshot.Options{Isolation: model.IsolateAll})
	labtest.Mark(inv, "default", "island", "false")
	for i, got := range answers(inv) {
		if strings.Contains(got, "default/") || strings.Contains(got, "other/") {
			t.Errorf("--isolate-namespaces=all, %d: %s", i, got)
		}
	}
	inv = withDefaults().Isolated(t)
	for _, namespace := range []string{"other", "g10", "g11"} {
		labtest.Mark(inv, namespace, "island", "false")
	}
	if got := answers(inv); slices.Equal(got, marked) {
		t.Error("an administrator cannot take a namespace out")
	}
}

// TestHostsOfTwoNamespaces: of two hosts with one MAC, address, UUID or name, the one whose own address asks wins,
// then that of a namespace that only administrators write, then the older; between two islands the machine asks
// again, and both hosts have an event.
func TestHostsOfTwoNamespaces(t *testing.T) {
	const uuid = "4c4c4544-0042-3510-8056-b4c04f4e3119"
	l := &lab{}
	for n, namespace := range []string{"island1", "open", "island2", "open2"} { // the first is the oldest
		add := func(name, mac, ip string) {
			h := l.Host(namespace, name, mac, ip)
			h.Spec.BootSources = []string{"203.0.113.0/24"}
			if name == "named" {
				h.Spec.SystemUUID, h.Spec.Hostname = uuid, "same.example"
			}
		}
		own := fmt.Sprintf("10.0.0.%d", n+1)
		if namespace != "open2" {
			add("all", macA, "")
		}
		if strings.HasPrefix(namespace, "island") {
			add("both", macB, own)
			add("ip", "", "10.0.1.1")
			add("named", fmt.Sprintf("52:54:00:00:01:%02x", n), "")
		} else {
			add("older", macC, "")
		}
		l.Config(namespace, "mine", Ignition, sel{Default: true})
	}
	inv := l.Inventory(t)
	labtest.Mark(inv, "island1", "island", "true")
	labtest.Mark(inv, "island2", "island", "true")
	d := New(Options{Inventory: inv})
	for _, c := range []struct {
		name string
		ask  ask
		want string
	}{
		{"only administrators write one", ask{MAC: macA}, "open/all"},
		{"by the neighbour table", ask{From: "10.9.9.9", Neighbor: macA}, "open/all"},
		{"two of administrators: the older", ask{MAC: macC}, "open/older"},
		{"two islands", ask{MAC: macB}, "503 island1/both island2/both"},
		{"two islands, by the neighbour table", ask{From: "10.9.9.9", Neighbor: macB}, "503 island1/both island2/both"},
		{"two islands, from a strange address", ask{From: "198.51.100.7", MAC: macB}, "503 island1/both island2/both"},
		{"from the own address", ask{From: "10.0.0.3", MAC: macB}, "island2/both"},
		{"from the other's own address", ask{From: "10.0.0.1", Neighbor: macB}, "island1/both"},
		{"an address of both", ask{From: "10.0.1.1"}, "503 island1/ip island2/ip"},
		{"by UUID", ask{UUID: uuid}, "503 island1/named island2/named"},
		{"by host name", ask{Hostname: "same.example"}, "503 island1/named island2/named"},
		{"by the first label", ask{Hostname: "same"}, "503 island1/named island2/named"},
		{"by its own MAC", ask{MAC: "52:54:00:00:01:02", UUID: uuid, Hostname: "same.example"}, "island2/named"},
	} {
		if c.ask.From == "" {
			c.ask.From = "203.0.113.7"
		}
		c.ask.Accept = v34
		dec := d.Config(c.ask.Request(t))
		got := ""
		switch {
		case dec.Err != nil:
			got = fmt.Sprint(dec.Err.Kind.Status())
			for _, n := range dec.Notices {
				if n.Reason == ReasonDuplicate {
					got += " " + n.Host.Ref.String()
				}
			}
		case dec.Host != nil:
			got = dec.Host.Ref.String()
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, dec.Err, c.want)
		}
	}
}

// TestTenantsTakeNoMachine: a tenant who writes the address, a hardware address, the UUID or the name of a machine into
// a host of his own gets none that an administrator's host is known by, and stops none. Of two islands both hosts are
// told, and the machine asks again.
func TestTenantsTakeNoMachine(t *testing.T) {
	const uuid, net, nat = "4c4c4544-0042-3510-8056-b4c04f4e3119", "203.0.113.0/24", "203.0.113.7"
	victim := func(l *lab, namespace string, change func(h *v1.BareMetalHost)) {
		change(l.Host(namespace, "victim", "", ""))
	}
	card := func(h *v1.BareMetalHost) { h.Spec.BootMACAddress = macA }
	claims := func(h *v1.BareMetalHost) { h.Spec.BootMACAddress, h.Spec.BootSources = macA, []string{net} }
	address := func(h *v1.BareMetalHost) { h.Spec.IP = "10.0.0.9" }
	dhcp, behindNAT := ask{From: "10.0.0.9", Neighbor: macA}, ask{From: nat, MAC: macA}
	with := func(a ask, change func(a *ask)) ask { change(&a); return a }
	for name, c := range map[string]struct {
		victim, thief func(h *v1.BareMetalHost)
		ask           ask
		islands       string // the answer where the victim is of an island, too; "": the victim's
	}{
		"its current address": {card, address, dhcp, "503"},
		"address and card":    {card, func(h *v1.BareMetalHost) { h.Spec.IP, h.Spec.BootMACAddress = "10.0.0.9", macA }, dhcp, "503"},
		"the address, and the machine claims its card": {card, address,
			with(dhcp, func(a *ask) { a.MAC = macA }), "503"},
		"its UUID": {card, func(h *v1.BareMetalHost) { h.Spec.SystemUUID = uuid },
			with(dhcp, func(a *ask) { a.MAC, a.UUID = macA, uuid }), ""},
		"its name": {card, func(h *v1.BareMetalHost) { h.Spec.Hostname = "db" },
			with(dhcp, func(a *ask) { a.MAC, a.Hostname = macA, "db" }), ""},
		"its card":                  {address, card, with(dhcp, func(a *ask) { a.MAC = macA }), "503"},
		"the address of its router": {claims, func(h *v1.BareMetalHost) { h.Spec.IP = nat }, behindNAT, "503"},
		"its router and its card": {claims, func(h *v1.BareMetalHost) { h.Spec.IP, h.Spec.BootMACAddress = nat, macA },
			behindNAT, "503"},
		"its card, from anywhere": {func(h *v1.BareMetalHost) { h.Spec.SystemUUID, h.Spec.BootSources = uuid, []string{net} },
			func(h *v1.BareMetalHost) { h.Spec.BootMACAddress, h.Spec.BootSources = macA, []string{"0.0.0.0/0"} },
			with(behindNAT, func(a *ask) { a.UUID = uuid }), "503"},
	} {
		for _, namespace := range []string{"open", "island"} {
			l := &lab{}
			c.thief(l.Host("thief", "thief", "", "")) // the older
			victim(l, namespace, c.victim)
			inv := l.Inventory(t)
			labtest.Mark(inv, "thief", "island", "true")
			want := "victim"
			if namespace == "island" {
				labtest.Mark(inv, "island", "island", "true")
				want = cmp.Or(c.islands, want)
			}
			dec := New(Options{Inventory: inv}).Config(c.ask.Request(t))
			got := "nobody"
			switch {
			case dec.Err != nil && dec.Err.Kind == fault.Unavailable, dec.Err != nil && dec.Err.Kind == fault.Refused:
				got = fmt.Sprint(dec.Err.Kind.Status())
				told := map[string]bool{}
				for _, n := range dec.Notices {
					told[n.Host.Ref.Name] = n.Reason == ReasonDuplicate
				}
				if !told["victim"] || !told["thief"] {
					t.Errorf("%s, %s: told are %v", name, namespace, told)
				}
			case dec.Host != nil:
				got = dec.Host.Ref.Name
			}
			if got != want {
				t.Errorf("%s, %s: %s (%v), want %s", name, namespace, got, dec.Err, want)
			}
		}
	}
}

// TestLostIslands: while it may be lost which namespaces are islands, a machine gets no config of another namespace,
// whatever matches it.
func TestLostIslands(t *testing.T) {
	l := &lab{}
	l.Host("a", "own", "52:54:00:00:00:01", "10.0.0.1")
	l.Host("a", "foreign", "52:54:00:00:00:02", "10.0.0.2")
	l.Config("a", "own", Ignition, sel{MatchMACs: []string{"52:54:00:00:00:01"}})
	l.Config("b", "foreign", Ignition, sel{MatchMACs: []string{"52:54:00:00:00:02"}})
	for name, c := range map[string]struct {
		lost lostObjects
		mark bool
		want []int
	}{
		"nothing":                           {lostObjects{}, false, []int{200, 200}},
		"namespaces, and the host's is not": {lostObjects{Namespaces: true}, true, []int{200, 503}},
		"namespaces, the host's as well":    {lostObjects{Namespaces: true}, false, []int{503, 503}},
	} {
		inv := l.Inventory(t)
		if c.mark {
			labtest.Mark(inv, "a", "island", "false")
			labtest.Mark(inv, "b", "island", "false")
		}
		d := New(Options{Inventory: inv, Lost: c.lost})
		for i, want := range c.want {
			status := 200
			if dec := d.Config(ask{From: fmt.Sprintf("10.0.0.%d", i+1), Accept: v34}.Request(t)); dec.Err != nil {
				status = dec.Err.Kind.Status()
			}
			if status != want {
				t.Errorf("%s, host %d: %d, want %d", name, i, status, want)
			}
		}
	}
}
