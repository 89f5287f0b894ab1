package snapshot

import (
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/shardmap"
)

// configIndex finds configs by name, by the machines that they match and by their layers.
type configIndex struct {
	bucket
	byRef shardmap.Map[Ref, *Config]
	rules match.Index
	// above has, for each config that is a layer or named as one, the configs above it.
	above shardmap.Map[Ref, []Ref]
}

// put puts a config, which may be nil, in place of the one with that name.
func (x *configIndex) put(edit *shardmap.Edit, ref Ref, c *Config) {
	for _, layer := range x.byRef.Get(ref).layers() {
		shardmap.SetListed(edit, &x.above, layer, ref, false, Ref.Compare)
	}
	for _, layer := range c.layers() {
		shardmap.SetListed(edit, &x.above, layer, ref, true, Ref.Compare)
	}
	setOrDelete(edit, &x.byRef, ref, c)
	if c != nil {
		x.rules.Set(edit, c.rule)
	} else {
		x.rules.Delete(edit, ref)
	}
}

// filter returns the configs for which ok is true, in no order.
func (x *configIndex) filter(ok func(*Config) bool) []*Config {
	var all []*Config
	for _, c := range x.byRef.All() {
		if ok(c) {
			all = append(all, c)
		}
	}
	return all
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
