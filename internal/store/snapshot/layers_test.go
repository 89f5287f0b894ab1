package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// layeredItem is a stored config: its layers, and its phase.
func layeredItem(t *testing.T, namespace, name, phase string, layers ...string) kvstore.Item {
	t.Helper()
	c := &v1.IgnitionConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}}
	c.Spec = v1.IgnitionConfigSpec{Type: v1.TypeIgnition, Format: v1.FormatIgnition, Config: "own"}
	c.Status.Phase = phase
	compiled := &v1.Compiled{Artifact: []byte("merged"), Hash: "sha256:1", IgnitionVersion: "3.4.0", Generation: 1}
	for _, layer := range layers {
		c.Spec.Layers = append(c.Spec.Layers, v1.LayerReference{Name: layer})
		c.Status.Layers = append(c.Status.Layers, v1.LayerStatus{Name: layer, Hash: "sha256:2", Stale: true})
		compiled.Own = &v1.OwnCompilation{Artifact: []byte("own"), IgnitionVersion: "3.4.0"}
	}
	value, err := json.Marshal(struct {
		*v1.IgnitionConfig
		Compiled *v1.Compiled `json:"compiled"`
	}{c, compiled})
	if err != nil {
		t.Fatal(err)
	}
	return kvstore.Item{Key: namespace + "/" + name, Revision: 1, Value: value}
}

func TestDecodeLayers(t *testing.T) {
	c, err := model.Configs.Decode(model.Stored(layeredItem(t, "a", "x", v1.PhaseError, "l1", "l2")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Stack; s == nil || !slices.Equal(s.Layers, []string{"l1", "l2"}) || string(s.Own) != "own" ||
		len(s.Merged) != 2 ||
		s.Merged[1] != (v1.LayerStatus{Name: "l2", Hash: "sha256:2", Stale: true}) || string(c.Artifact) != "merged" ||
		c.Source != "own" {
		t.Errorf("%+v", s)
	}
	if !c.Failing || !c.Stale || !c.Unjudged || c.Pending {
		t.Errorf("%+v", c)
	}
	if plain, err := model.Configs.Decode(model.Stored(layeredItem(t, "a", "x", v1.PhaseReady)), nil); err != nil || plain.Stack != nil ||
		plain.Failing || plain.Stale {
		t.Errorf("%v %+v", err, plain)
	}
}

func TestAboveAndChanges(t *testing.T) {
	inv := New(Options{})
	configs := inv.Configs()
	subscription := inv.Subscribe()
	changes := func() (told []string) {
		for _, change := range subscription.Take() {
			old, now := change.OldConfig, change.Config
			switch {
			case change.Reload:
				for _, c := range inv.View().UnsureConfigs() {
					told = append(told, "+"+c.Name)
				}
			case old == nil:
				told = append(told, "+"+now.Name)
			case now == nil:
				told = append(told, "-"+old.Name)
			default:
				told = append(told, now.Name)
			}
		}
		slices.Sort(told)
		return told
	}
	configs.Load([]kvstore.Item{layeredItem(t, "a", "base", v1.PhaseReady), layeredItem(t, "a", "x", v1.PhaseReady, "base",
		"gone"), layeredItem(t, "b", "x", v1.PhaseReady, "base")})
	above := func(namespace, name string) string {
		v := inv.View()
		var names []string
		for _, c := range v.Above(model.Ref{Namespace: namespace, Name: name}) {
			names = append(names, c.Ref.String())
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	check := func(want string) {
		t.Helper()
		got := fmt.Sprintf("base: %s, gone: %s, other: %s; told %s", above("a", "base"), above("a", "gone"),
			above("a", "other"), strings.Join(changes(), " "))
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	check("base: a/x, gone: a/x, other: ; told +x +x")
	configs.Put(layeredItem(t, "a", "y", v1.PhaseReady, "base", "other"))
	check("base: a/x a/y, gone: a/x, other: a/y; told +y")
	configs.Put(layeredItem(t, "a", "x", v1.PhaseReady, "other"))
	check("base: a/y, gone: , other: a/x a/y; told x")
	configs.Delete("a/y", 5)
	configs.Delete("a/nobody", 6)
	check("base: , gone: , other: a/x; told -y")
	configs.Put(kvstore.Item{Key: "a/x", Revision: 7, Value: []byte("damaged")})
	check("base: , gone: , other: ; told -x")
	configs.Load([]kvstore.Item{layeredItem(t, "a", "z", v1.PhaseReady, "other"), layeredItem(t, "a", "base",
		v1.PhaseReady)})
	check("base: , gone: , other: a/z; told +z")
}
