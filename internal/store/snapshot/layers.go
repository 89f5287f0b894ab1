package snapshot

import (
	"slices"

	"glowplug/internal/domain/compile"
)

// Above returns the configs that have a config as a layer, in no order. The config
// itself need not be there.
func (v View) Above(ref Ref) []*Config {
	var all []*Config
	for _, above := range v.configs.above.Get(ref) {
		all = append(all, v.Config(above))
	}
	return all
}

// IsLayer reports whether a config has a config as a layer, that is whether Above
// returns any.
func (v View) IsLayer(ref Ref) bool { return v.configs.above.Has(ref) }

// FollowConfigs calls f with each config that has layers or is foreign, as a new one, and
// from then on with every change of a config: old is nil for a new config, and now for a
// deleted one. A change is visible when f is called; f must not block.
func (inv *Inventory) FollowConfigs(f func(old, now *Config)) {
	_, after := inv.update(func(next *state) { next.followers = append(slices.Clip(next.followers), f) })
	for _, c := range after.unsure() {
		f(nil, c)
	}
}

// unsure returns the configs that may have to be compiled or merged again: those that have
// layers, and those that are foreign.
func (s *state) unsure() []*Config {
	return s.configs.filter(func(c *Config) bool { return c.Stack != nil || c.Foreign })
}

func (s *state) callFollowers(old, now *Config) {
	for _, f := range s.followers {
		f(old, now)
	}
}

// Layers returns, for compile.Stack, the configs of a namespace as layers.
func (v View) Layers(namespace string) func(name string) *compile.Layer {
	return func(name string) *compile.Layer {
		c := v.Config(Ref{Namespace: namespace, Name: name})
		if c == nil {
			return nil
		}
		layer := &compile.Layer{
			Name: name, Type: c.Type, Bytes: c.Artifact, Hash: c.Hash, Template: c.Template,
			Pending: c.Pending, Failing: c.Failing, Failure: c.ErrorMessage,
		}
		if c.Stack != nil {
			layer.Layers = c.Stack.Layers
		}
		return layer
	}
}
