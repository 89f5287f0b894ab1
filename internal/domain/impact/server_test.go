package impact_test

import (
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/snapshot"
)

// TestTheURLOfTheServerIsPredictedAsItIsServed: a template that names the URL of the server in place of the written
// one is no change for its host; with any other text it is one.
func TestTheURLOfTheServerIsPredictedAsItIsServed(t *testing.T) {
	const url = "http://10.0.0.1:8082"
	of := func(url string) *v1.IgnitionConfig {
		c := benchConfig("c", "")
		text := `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","contents":{"source":"` + url + `"}}]}}`
		c.Spec.Template, c.Spec.Config, c.Spec.Selector.Default = true, text, true
		c.Compiled = &v1.Compiled{Artifact: []byte(text), Hash: hashOf([]byte(text)), Generation: 1, Template: true,
			Format: v1.TypeIgnition}
		return c
	}
	w := newWorld()
	h := &v1.BareMetalHost{}
	h.Namespace, h.Name, h.Spec.IP = "ns0", "h", "10.0.0.7"
	w.hosts["ns0/h"], w.configs["ns0/c"] = h, of(url)
	inv := snapshot.New(snapshot.Options{})
	w.load(t, inv)
	cache := rendering.New(rendering.Options{Inventory: inv, Server: url})
	defer cache.Close()
	d := decide.New(decide.Options{Inventory: inv, Renderer: cache})
	for text, want := range map[string]int{"{{ .Server }}": 0, "{{ .Server }}/x": 1} {
		changes := newChanges()
		changes.Configs[model.Ref{Namespace: "ns0", Name: "c"}] = model.ConfigFrom(of(text))
		result, err := impact.New(t.Context(), impact.Options{Decider: d, Before: inv.View(), Changes: changes})
		if err != nil || len(result.Groups) != want || result.Counts[impact.ContentChanged] != want {
			t.Errorf("%s: %+v %v, want %d hosts with other contents", text, result, err, want)
		}
	}
}
