package impact

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/store/snapshot"
)

// maxMerges bounds the configs that are merged again over changed layers: each takes some
// milliseconds.
const maxMerges = 256

// merger merges the configs above changed layers, as the controller of configs does it after a
// write.
type merger struct {
	view snapshot.View
	// merges is the number of configs that were merged again.
	merges int
	// concerned are the configs that may be given in other bytes than before.
	concerned map[snapshot.Ref]bool
	// unknown are the configs whose result is not known.
	unknown map[snapshot.Ref]bool
}

func newMerger(view snapshot.View, unknown map[snapshot.Ref]bool) *merger {
	m := &merger{
		view: view, concerned: map[snapshot.Ref]bool{},
		unknown: map[snapshot.Ref]bool{},
	}
	maps.Copy(m.unknown, unknown)
	return m
}

// merge merges all configs above the changed ones, and the changed ones themselves, the lower
// first.
func (m *merger) merge(ctx context.Context, changed map[snapshot.Ref]*snapshot.Config) {
	for ref := range changed {
		m.concerned[ref] = true
	}
	for _, ref := range m.above(slices.Collect(maps.Keys(changed))) {
		config := m.view.Config(ref)
		switch {
		case config == nil || config.Stack == nil:
		case m.isOverUnknown(config):
			m.concerned[ref], m.unknown[ref] = true, true
		case config.Template:
			m.concerned[ref] = true
		case config.Stack.Own == nil || !m.view.IsUnmerged(config):
		case m.merges == maxMerges || ctx.Err() != nil:
			m.concerned[ref], m.unknown[ref] = true, true
		default:
			m.concerned[ref] = true
			m.put(lay(m.view, config))
		}
	}
}

func (m *merger) put(config *snapshot.Config) {
	m.merges++
	m.view = m.view.With(&snapshot.Changes{Configs: map[snapshot.Ref]*snapshot.Config{config.Ref: config}})
}

func (m *merger) isOverUnknown(config *snapshot.Config) bool {
	return slices.ContainsFunc(config.Stack.Layers, func(name string) bool {
		return m.unknown[snapshot.Ref{Namespace: config.Namespace, Name: name}]
	})
}

// above returns configs and all that are above them, each once, the lower first.
func (m *merger) above(refs []snapshot.Ref) []snapshot.Ref {
	heights := map[snapshot.Ref]int{}
	for next := refs; len(next) > 0; next = next[1:] {
		ref := next[0]
		if _, seen := heights[ref]; seen {
			continue
		}
		heights[ref] = 0
		if config := m.view.Config(ref); config != nil && config.Stack != nil {
			heights[ref] = compile.Height(ref.Name, config.Stack.Layers, m.view.Layers(ref.Namespace))
		}
		for _, config := range m.view.Above(ref) {
			next = append(next, config.Ref)
		}
	}
	return slices.SortedFunc(maps.Keys(heights), func(a, b snapshot.Ref) int {
		return cmp.Or(cmp.Compare(heights[a], heights[b]), a.Compare(b))
	})
}

// lay returns a config merged over its layers as they are in a view.
func lay(view snapshot.View, config *snapshot.Config) *snapshot.Config {
	stack, isPending, found := compile.Stack(config.Name, config.Stack.Layers, view.Layers(config.Namespace))
	if isPending {
		return config.Remerged(nil, nil, true, "")
	}
	var laid *compile.Laid
	if !found.HasError() {
		laid, found = compile.Lay(config.Name, config.Stack.Own, stack)
	}
	var merged []v1.LayerStatus
	for _, layer := range stack {
		merged = append(merged, v1.LayerStatus{Name: layer.Name, Hash: layer.Hash, Stale: layer.Failing})
	}
	return config.Remerged(laid, merged, false, found.Summary())
}
