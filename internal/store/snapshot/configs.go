package snapshot

import (
	"slices"

	"glowplug/internal/domain/match"
	"glowplug/internal/domain/shardmap"
)

// configIndex finds configs by name, by what they match and by their layers.
type configIndex struct {
	byRef shardmap.Map[Ref, *Config]
	rules *match.Index
	// above has, for each config that is a layer or named as one, those over it.
	above shardmap.Map[Ref, []Ref]
}

func indexConfigs(configs []*Config) configIndex {
	var x configIndex
	rules := make([]*match.Rule, len(configs))
	for i, c := range configs {
		x.byRef.Add(c.Ref, c)
		rules[i] = c.rule
		for _, layer := range c.layers() {
			x.above.Add(layer, append(x.above.Get(layer), c.Ref))
		}
	}
	x.rules = match.NewIndex(rules)
	return x
}

// put puts a config in the place of old; either may be nil.
func (x *configIndex) put(old, c *Config) {
	if c != nil {
		x.byRef, x.rules = x.byRef.With(c.Ref, c), x.rules.With(c.rule)
	} else if old != nil {
		x.byRef, x.rules = x.byRef.Without(old.Ref), x.rules.Without(old.Ref)
	}
	before, now := old.layers(), c.layers()
	if slices.Equal(before, now) {
		return
	}
	for _, layer := range before {
		rest := slices.DeleteFunc(slices.Clone(x.above.Get(layer)), func(r Ref) bool { return r == old.Ref })
		if len(rest) == 0 {
			x.above = x.above.Without(layer)
		} else {
			x.above = x.above.With(layer, rest)
		}
	}
	for _, layer := range now {
		x.above = x.above.With(layer, append(slices.Clone(x.above.Get(layer)), c.Ref))
	}
}

// having returns the configs of which ok is true, in no order.
func (x *configIndex) having(ok func(*Config) bool) []*Config {
	var all []*Config
	for _, c := range x.byRef.All() {
		if ok(c) {
			all = append(all, c)
		}
	}
	return all
}

// layers are the names of the layers of a config, which may be nil, each once.
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
