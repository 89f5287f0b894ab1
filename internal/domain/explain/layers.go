package explain

import (
	"slices"

	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
)

// Layer is a layer onto which the winner was merged.
type Layer struct {
	Name string `json:"name"`
	// Hash is that of the layer at the time of the merge.
	Hash string `json:"hash"`
	// Changed is true where the layer has changed since, and Missing where it no longer exists.
	Changed bool `json:"changed,omitempty"`
	Missing bool `json:"missing,omitempty"`
	// Failing is true where the layer did not compile, and its last good compilation was merged.
	Failing bool `json:"failing,omitempty"`
}

// maxTraced bounds the configs that are merged again to find the origins of entries.
const maxTraced = 100

// tracer merges configs again and records the origins of their entries.
type tracer struct {
	view   model.View
	traced map[string]map[entry][]string
}

// entry is a file, unit, user and so on.
type entry struct{ kind, name string }

// explainLayers returns the layers of a config and the origin of each of its entries,
// through the layers of layers. origins is empty where a layer has changed since the merge.
func explainLayers(view model.View, c *model.Config) (layers []Layer, origins []ignition.Origin) {
	if c.Stack == nil {
		return nil, nil
	}
	for _, merged := range c.Stack.Merged {
		now := view.Config(model.Ref{Namespace: c.Namespace, Name: merged.Name})
		layers = append(layers, Layer{
			Name: merged.Name, Hash: merged.Hash, Failing: merged.Stale, Missing: now == nil,
			Changed: now != nil && now.Hash != merged.Hash,
		})
	}
	t := &tracer{view: view, traced: map[string]map[entry][]string{}}
	if c.Confidential || view.HasConfidentialLayer(c) {
		return layers, nil // the names of entries, such as kernel arguments, may be secrets
	}
	return layers, t.origins(c)
}

// origins lists the entries of a config with layers; nil where a merge has another result
// now.
func (t *tracer) origins(c *model.Config) []ignition.Origin {
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

// expand replaces a layer by the layers from which it has the entry.
func (t *tracer) expand(c *model.Config, e entry, from []string) []string {
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

// entries returns the origins of the entries of a layer; empty for one without layers.
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

func (t *tracer) config(namespace, name string) *model.Config {
	return t.view.Config(model.Ref{Namespace: namespace, Name: name})
}
