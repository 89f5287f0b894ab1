package snapshot

import "glowplug/internal/domain/compile"

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

// FollowConfigs calls f with each config that is there and has layers, or is foreign,
// as new, and from then on with every change of a config: old is nil where it is new,
// now where it has ended. Calls come one at a time, once the change can be seen; f must
// not block. To be called before the stores run, or after them.
func (inv *Inventory) FollowConfigs(f func(old, now *Config)) {
	inv.mu.Lock()
	inv.followers = append(inv.followers, f)
	unsure := inv.View().unsure()
	inv.mu.Unlock()
	for _, c := range unsure {
		f(nil, c)
	}
}

// unsure returns the configs that need not be what they are to be: those that have
// layers, and those that are foreign.
func (v View) unsure() []*Config {
	return v.configs.having(func(c *Config) bool { return c.Stack != nil || c.Foreign })
}

// tell returns what is to be done once the change of a config can be seen. The lock
// is held.
func (inv *Inventory) tell(old, now *Config) func() {
	if len(inv.followers) == 0 || old == nil && now == nil {
		return nil
	}
	followers := inv.followers
	return func() {
		for _, f := range followers {
			f(old, now)
		}
	}
}

// tellAll returns what is to be done after a load: each of the configs with layers may
// have been written over others than are there now, and a foreign one by hand.
func (inv *Inventory) tellAll() func() {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	unsure, followers := inv.View().unsure(), inv.followers
	return func() {
		for _, f := range followers {
			for _, c := range unsure {
				f(nil, c)
			}
		}
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
