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
