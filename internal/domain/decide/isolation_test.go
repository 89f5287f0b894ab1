package decide

import (
	"fmt"
	"slices"
	"testing"

	"glowplug/internal/store/snapshot"
)

func configName(c *snapshot.Config) string {
	if c == nil {
		return "none"
	}
	return c.Ref.String()
}

func imageName(i *snapshot.Image) string {
	if i == nil {
		return "none"
	}
	return i.Ref.String()
}

// TestRoleBindingsIsolateNamespaces: while there is a RoleBinding, or one is lost, every machine is answered as
// with --isolate-namespaces.
func TestRoleBindingsIsolateNamespaces(t *testing.T) {
	withDefault := func() *lab {
		l := rack()
		l.config("other", "for-all", Ignition, sel{Default: true})
		l.config("default", "for-strangers", Ignition, sel{Default: true})
		return l
	}
	answers := func(d *Decider) (out []string) {
		for n := range 20 {
			a := ask{from: fmt.Sprintf("192.168.10.%d", n), accept: v34}
			config := d.Config(a.request(t))
			a.endpoint = IPXE
			boot := d.Boot(a.request(t))
			out = append(out, fmt.Sprintf("%d %v %s %v; %v %v %v", n, configName(config.Config), config.Tier, config.Err,
				boot.Local, imageName(boot.Image), boot.Err))
		}
		return out
	}
	open := answers(New(Options{Inventory: withDefault().inventory(t)}))
	isolated := answers(New(Options{Inventory: withDefault().inventory(t), Policy: Policy{Isolate: true}}))
	if slices.Equal(open, isolated) {
		t.Fatal("isolation changes nothing for these machines")
	}
	var all bool // the bindings have changed the answers of all
	inv := withDefault().inventoryWith(t, snapshot.Options{OnChange: func(c snapshot.Change) { all = c.All }})
	d := New(Options{Inventory: inv})
	for _, step := range []struct {
		name string
		do   func()
		want []string
		all  bool
	}{
		{"no binding", func() { inv.RoleBindings().Load(nil) }, open, false},
		{"the first binding", func() { inv.RoleBindings().Put(item("g10/ann", `{}`)) }, isolated, true},
		{"another one", func() { inv.RoleBindings().Put(item("g10/bob", `not JSON`)) }, isolated, false},
		{"one is deleted", func() { inv.RoleBindings().Delete("g10/ann", 3) }, isolated, false},
		{"the last is deleted", func() { inv.RoleBindings().Delete("g10/bob", 4) }, open, true},
	} {
		all = false
		step.do()
		if got := answers(d); !slices.Equal(got, step.want) {
			t.Errorf("%s: %s\nwant %s", step.name, got, step.want)
		}
		if all != step.all {
			t.Errorf("%s: a change of all hosts: %t", step.name, all)
		}
	}
	lost := New(Options{Inventory: withDefault().inventory(t), LostBindings: func() bool { return true }})
	if got := answers(lost); !slices.Equal(got, isolated) {
		t.Errorf("a lost binding: %s\nwant %s", got, isolated)
	}
}

// TestSharedClaimsUnderIsolation: where only its UUID or its host name identifies a machine, and hosts of two
// namespaces have it, neither is served: the author of one could have the machine of the other.
func TestSharedClaimsUnderIsolation(t *testing.T) {
	const uuid = "4c4c4544-0042-3510-8056-b4c04f4e3119"
	l := &lab{}
	for n, namespace := range []string{"a", "b"} {
		h := l.host(namespace, "same", fmt.Sprintf("52:54:00:00:01:%02x", n), "")
		h.Spec.SystemUUID, h.Spec.Hostname, h.Spec.BootSources = uuid, "same.example", []string{"203.0.113.0/24"}
		l.config(namespace, "mine", Ignition, sel{Default: true})
	}
	single := l.host("a", "single", "52:54:00:00:01:09", "")
	single.Spec.BootSources = []string{"203.0.113.0/24"}
	d := New(Options{Inventory: l.inventory(t), Policy: Policy{Isolate: true}})
	for _, c := range []struct {
		name   string
		ask    ask
		status int
	}{
		{"by UUID", ask{uuid: uuid}, 403},
		{"by host name", ask{hostname: "same.example"}, 403},
		{"by the first label", ask{hostname: "same"}, 403},
		{"by MAC", ask{mac: "52:54:00:00:01:01", uuid: uuid, hostname: "same.example"}, 200},
		{"a name of its own", ask{hostname: "single"}, 200},
	} {
		c.ask.from, c.ask.accept = "203.0.113.7", v34
		dec, status := d.Config(c.ask.request(t)), 200
		if dec.Err != nil {
			status = dec.Err.Kind.Status()
		}
		if status != c.status {
			t.Errorf("%s: %d (%v), want %d", c.name, status, dec.Err, c.status)
		}
	}
}
