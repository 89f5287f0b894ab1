package model

import (
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/shardmap"
)

// configIndex finds configs by name, by the machines that they match and by their layers.
type configIndex struct {
	byRef table[Config]
	rules match.Index
	// above has, for each config that is a layer or named as one, the configs above it.
	above shardmap.Map[Ref, []Ref]
}

// put puts a config, which may be nil, in place of the one with that name. isApart is true for one
// of an island.
func (x *configIndex) put(edit *shardmap.Edit, ref Ref, c *Config, isApart bool) {
	for _, layer := range x.byRef.get(ref).layers() {
		shardmap.SetListed(edit, &x.above, layer, ref, false, Ref.Compare)
	}
	for _, layer := range c.layers() {
		shardmap.SetListed(edit, &x.above, layer, ref, true, Ref.Compare)
	}
	x.byRef.put(edit, ref, c)
	if c != nil {
		x.rules.Set(edit, c.rule, isApart)
	} else {
		x.rules.Delete(edit, ref)
	}
}

// layers returns the names of the layers of a config, which may be nil, each once.
func (c *Config) layers() []Ref {
	if c == nil || c.Stack == nil {
		return nil
	}
	layers := make([]Ref, len(c.Stack.Layers))
	for i, name := range c.Stack.Layers {
		layers[i] = Ref{Namespace: c.Namespace, Name: name}
	}
	return match.Unique(layers)
}

// Above returns the configs that have a config as a layer, in no order. The config
// itself need not be there.
func (v View) Above(ref Ref) []*Config {
	var all []*Config
	for _, above := range v.state.configs.above.Get(ref) {
		all = append(all, v.Config(above))
	}
	return all
}

// IsLayer reports whether a config has a config as a layer, that is whether Above
// returns any.
func (v View) IsLayer(ref Ref) bool { return v.state.configs.above.Has(ref) }

// UnsureConfigs returns the configs that may have to be compiled or merged again, in no order: those that have
// layers, and those that are foreign.
func (v View) UnsureConfigs() []*Config {
	return v.state.configs.byRef.filter(func(c *Config) bool { return c.Stack != nil || c.Foreign })
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
			Pending: c.Pending, Failing: c.Failing, Failure: c.ErrorMessage, Confidential: c.Confidential,
		}
		if c.Confidential && c.ErrorMessage != "" {
			layer.Failure = v1.ConfidentialFindings // the config over it need not be confidential
		}
		if c.Stack != nil {
			layer.Layers = c.Stack.Layers
		}
		return layer
	}
}

// LayerNames returns the names of the layers of a config, which may be nil.
func (c *Config) LayerNames() []string {
	if c == nil || c.Stack == nil {
		return nil
	}
	return c.Stack.Layers
}

// HasConfidentialLayer reports whether a config, which need not be stored and may be nil, has layers that
// are confidential, directly or through others. A layer that is missing counts: machines may still be
// served a former merge.
func (v View) HasConfidentialLayer(config *Config) bool {
	if config == nil {
		return false
	}
	seen := map[Ref]bool{config.Ref: true}
	for next := []*Config{config}; len(next) > 0; next = next[1:] {
		names := slices.Clone(next[0].LayerNames())
		if stack := next[0].Stack; stack != nil {
			for _, merged := range stack.Merged {
				names = append(names, merged.Name)
			}
		}
		for _, name := range names {
			ref := Ref{Namespace: config.Namespace, Name: name}
			layer := v.Config(ref)
			if layer == nil || layer.Confidential {
				return true
			}
			if !seen[ref] {
				seen[ref] = true
				next = append(next, layer)
			}
		}
	}
	return false
}

// IsSameLayer reports whether two versions of a layer give the same merged configs.
func (c *Config) IsSameLayer(o *Config) bool {
	return c.Hash == o.Hash && c.Type == o.Type && c.Template == o.Template && c.Failing == o.Failing &&
		c.Confidential == o.Confidential &&
		c.Pending == o.Pending && c.ErrorMessage == o.ErrorMessage && slices.Equal(c.LayerNames(), o.LayerNames())
}

// IsUnmerged reports whether a config with layers may have to be merged again.
func (v View) IsUnmerged(config *Config) bool {
	stack := config.Stack
	if config.Failing || config.Pending || config.Stale || len(stack.Merged) != len(stack.Layers) {
		return true
	}
	confidential := config.confidentialSource
	for i, name := range stack.Layers {
		layer := v.Config(Ref{Namespace: config.Namespace, Name: name})
		confidential = confidential || layer != nil && layer.Confidential
		if layer == nil || layer.Template || stack.Merged[i] != (v1.LayerStatus{Name: name, Hash: layer.Hash,
			Stale: layer.Failing}) {
			return true
		}
		if layer.Failing {
			return true // the status gives the reason, which may have changed
		}
	}
	if confidential != config.Confidential {
		return true
	}
	// The layers have not changed, but the layers of a layer may have.
	_, _, found := compile.Stack(config.Name, stack.Layers, v.Layers(config.Namespace))
	return found.HasError()
}
