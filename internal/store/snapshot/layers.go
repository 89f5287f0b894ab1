package snapshot

import "glowplug/internal/domain/compile"

// Above gives the configs that have a config as a layer, in no order. The config
// itself need not be there.
func (v View) Above(ref Ref) []*Config {
	var all []*Config
	for above := range v.inv.above[ref] {
		all = append(all, v.inv.configs[above])
	}
	return all
}

// IsLayer tells whether a config has a config as a layer, that is whether Above gives any.
func (v View) IsLayer(ref Ref) bool { return len(v.inv.above[ref]) > 0 }

// FollowConfigs calls f with each config that is there and has layers, or is foreign,
// as new, and from then on with every change of a config: old is nil where it is new, now where
// it has ended. Calls come one at a time and without a lock held; f may read the
// inventory, and must not block. To be called before the stores run, or after them.
func (inv *Inventory) FollowConfigs(f func(old, now *Config)) {
	inv.mu.Lock()
	inv.followers = append(inv.followers, f)
	unsure := inv.unsure()
	inv.mu.Unlock()
	for _, c := range unsure {
		f(nil, c)
	}
}

// unsure lists the configs that need not be what they are to be: those that have layers,
// and those that are foreign. The lock is held.
func (inv *Inventory) unsure() []*Config {
	var all []*Config
	for _, c := range inv.configs {
		if c.Stack != nil || c.Foreign {
			all = append(all, c)
		}
	}
	return all
}

// tell gives what is to be done after a config has changed. The lock is held.
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

// tellAll gives what is to be done after a load: each of the configs with layers may
// have been written over others than are there now, and a foreign one by hand.
func (inv *Inventory) tellAll() func() {
	inv.mu.RLock()
	defer inv.mu.RUnlock()
	unsure, followers := inv.unsure(), inv.followers
	return func() {
		for _, f := range followers {
			for _, c := range unsure {
				f(nil, c)
			}
		}
	}
}

// indexLayers files configs under their layers.
func indexLayers(configs []*Config) map[Ref]map[Ref]struct{} {
	above := map[Ref]map[Ref]struct{}{}
	for _, c := range configs {
		addAbove(above, c)
	}
	return above
}

func addAbove(above map[Ref]map[Ref]struct{}, c *Config) {
	if c.Stack == nil {
		return
	}
	for _, name := range c.Stack.Layers {
		layer := Ref{Namespace: c.Namespace, Name: name}
		if above[layer] == nil {
			above[layer] = map[Ref]struct{}{}
		}
		above[layer][c.Ref] = struct{}{}
	}
}

// putLayers files a config, which takes the place of old; either may be nil. The
// lock is held.
func (inv *Inventory) putLayers(old, now *Config) {
	if old != nil && old.Stack != nil {
		for _, name := range old.Stack.Layers {
			layer := Ref{Namespace: old.Namespace, Name: name}
			if delete(inv.above[layer], old.Ref); len(inv.above[layer]) == 0 {
				delete(inv.above, layer)
			}
		}
	}
	if now != nil {
		addAbove(inv.above, now)
	}
}

// Layers gives, for compile.Stack, the configs of a namespace as layers.
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
