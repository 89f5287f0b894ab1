package decide

import (
	"slices"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/store/snapshot"
)

// ExplainedLayer is a layer as the winner was merged over it.
type ExplainedLayer struct {
	Name string `json:"name"`
	// Hash is that of the layer when it was merged.
	Hash string `json:"hash"`
	// Changed is true where the layer is another by now.
	Changed bool `json:"changed,omitempty"`
	// Failing is true where the layer's last good compilation was merged.
	Failing bool `json:"failing,omitempty"`
}

// maxTraced bounds the configs that are merged again to tell where an entry is from.
const maxTraced = 100

// tracer merges configs again and keeps where their entries came from.
type tracer struct {
	view   snapshot.View
	traced map[string]map[entry][]string
}

// entry is a file, unit, user and so on.
type entry struct{ kind, name string }

// explainLayers says what a config was merged over and which layer each of its entries
// came from, through the layers of layers. Where that cannot be told, as what is served
// was merged over other layers than there are now, origins is empty.
func explainLayers(view snapshot.View, c *snapshot.Config) (layers []ExplainedLayer, origins []ignition.Origin) {
	if c.Stack == nil {
		return nil, nil
	}
	for _, merged := range c.Stack.Merged {
		now := view.Config(snapshot.Ref{Namespace: c.Namespace, Name: merged.Name})
		layers = append(layers, ExplainedLayer{
			Name: merged.Name, Hash: merged.Hash, Failing: merged.Stale, Changed: now == nil || now.Hash != merged.Hash,
		})
	}
	t := &tracer{view: view, traced: map[string]map[entry][]string{}}
	return layers, t.origins(c)
}

// origins lists the entries of a config that has layers; nil where it is not what comes
// of them now.
func (t *tracer) origins(c *snapshot.Config) []ignition.Origin {
	if c.Stack == nil || c.Stack.Own == nil || len(t.traced) == maxTraced {
		return nil
	}
	t.traced[c.Name] = nil // a circle ends here
	var stack []*compile.Layer
	for _, name := range c.Stack.Layers {
		layer := t.config(c.Namespace, name)
		if layer == nil || layer.Artifact == nil {
			return nil
		}
		stack = append(stack, &compile.Layer{Name: name, Type: layer.Type, Bytes: layer.Artifact, Hash: layer.Hash})
	}
	laid, _ := compile.Lay(c.Name, c.Stack.Own, stack)
	if laid == nil || laid.Artifact.Hash != c.Hash {
		return nil
	}
	origins := laid.Origins()
	for i := range origins {
		origins[i].From = t.expand(c, entry{origins[i].Kind, origins[i].Name}, origins[i].From)
	}
	return origins
}

// expand puts in the place of a layer those that the entry came from there.
func (t *tracer) expand(c *snapshot.Config, e entry, from []string) []string {
	var out []string
	for _, name := range from {
		names := []string{name}
		if name != c.Name {
			if deeper := t.entries(c.Namespace, name)[e]; len(deeper) > 0 {
				names = deeper
			}
		}
		out = slices.DeleteFunc(out, func(have string) bool { return slices.Contains(names, have) })
		out = append(out, names...)
	}
	return out
}

// entries has where each entry of a layer came from; empty for one without layers.
func (t *tracer) entries(namespace, name string) map[entry][]string {
	if known, ok := t.traced[name]; ok {
		return known
	}
	c := t.config(namespace, name)
	if c == nil || c.Stack == nil {
		return nil
	}
	all := map[entry][]string{}
	for _, o := range t.origins(c) {
		all[entry{o.Kind, o.Name}] = o.From
	}
	t.traced[name] = all
	return all
}

func (t *tracer) config(namespace, name string) *snapshot.Config {
	return t.view.Config(snapshot.Ref{Namespace: namespace, Name: name})
}
