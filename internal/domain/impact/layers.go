package impact

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
)

const (
	// maxMerges bounds the configs that are merged again over changed layers, each of which takes
	// some milliseconds, and maxMerged their bytes.
	maxMerges = 1000
	maxMerged = 64 << 20
)

// merger merges the configs above changed layers, as the controller of configs does it after a
// write.
type merger struct {
	view   model.View
	pause  func()
	ending context.Context // see Options.Merging
	// merges is the number of configs that were merged again, and bytes their size.
	merges, bytes int
	// concerned are the configs that may be given in other bytes than before.
	concerned map[model.Ref]bool
	// unknown are the configs whose result is not known.
	unknown map[model.Ref]bool
}

func newMerger(view model.View, o *Options) *merger {
	m := &merger{
		view: view, pause: o.Pause, ending: o.Merging,
		concerned: map[model.Ref]bool{}, unknown: map[model.Ref]bool{},
	}
	maps.Copy(m.unknown, o.Pending)
	return m
}

// writeAll makes the changes of configs one after the other and merges what is above each of them.
// Where that takes too many merges, it makes all of them before it merges.
func (m *merger) writeAll(order []model.Ref, changed map[model.Ref]*model.Config) {
	above := 0
	for _, ref := range order {
		above += len(m.above(ref))
	}
	if above <= maxMerges {
		for _, ref := range order {
			m.mergeAbove(m.write(ref, changed[ref]), ref)
		}
		return
	}
	due := map[model.Ref]bool{}
	for _, ref := range order {
		maps.Copy(due, m.write(ref, changed[ref]))
	}
	m.mergeAbove(due, order...)
}

// write makes one change of a config. due contains the config if the merge of its source with its
// layers is due.
func (m *merger) write(ref model.Ref, config *model.Config) (due map[model.Ref]bool) {
	m.concerned[ref] = true
	due = map[model.Ref]bool{}
	if config != nil && config.Stack != nil && config.Stack.Own != nil {
		config, due[ref] = config.Unmerged(m.view.Config(ref)), true
	}
	m.put(ref, config)
	return due
}

// mergeAbove merges the configs that are due, and all above the given ones, the lower first, until
// nothing changes any more: a merge that mends a layer changes what is above it.
func (m *merger) mergeAbove(due map[model.Ref]bool, refs ...model.Ref) {
	for next := m.above(refs...); len(next) > 0; next = next[1:] {
		ref := next[0]
		before := m.view.Config(ref)
		isDue := due[ref]
		delete(due, ref)
		if m.merge(ref, isDue) && !m.view.Config(ref).IsSameLayer(before) {
			for _, config := range m.view.Above(ref) {
				next = append(next, config.Ref)
			}
		}
	}
}

func (m *merger) put(ref model.Ref, config *model.Config) {
	m.view = m.view.With(&model.Changes{Configs: map[model.Ref]*model.Config{ref: config}})
}

// merge merges a config if that is due, and reports whether it did.
func (m *merger) merge(ref model.Ref, isDue bool) bool {
	config := m.view.Config(ref)
	switch {
	case config == nil || config.Stack == nil:
	case m.isOverUnknown(config):
		m.concerned[ref], m.unknown[ref] = true, true
	case config.Stack.Own == nil: // a template is merged for each host
		m.concerned[ref] = m.concerned[ref] || config.Template
	case !isDue && !m.view.IsUnmerged(config):
	case m.merges == maxMerges || m.bytes > maxMerged || m.ending.Err() != nil:
		m.concerned[ref], m.unknown[ref] = true, true
	default:
		m.concerned[ref] = true
		m.pause()
		merged := lay(m.view, config)
		m.merges++
		m.bytes += len(merged.Artifact)
		m.put(ref, merged)
		return true
	}
	return false
}

func (m *merger) isOverUnknown(config *model.Config) bool {
	return slices.ContainsFunc(config.Stack.Layers, func(name string) bool {
		return m.unknown[model.Ref{Namespace: config.Namespace, Name: name}]
	})
}

// above returns configs and all that are above them, each once, the lower first.
func (m *merger) above(refs ...model.Ref) []model.Ref {
	heights := map[model.Ref]int{}
	for next := refs; len(next) > 0; next = next[1:] {
		ref := next[0]
		if _, seen := heights[ref]; seen {
			continue
		}
		heights[ref] = compile.Height(ref.Name, m.view.Config(ref).LayerNames(), m.view.Layers(ref.Namespace))
		for _, config := range m.view.Above(ref) {
			next = append(next, config.Ref)
		}
	}
	return slices.SortedFunc(maps.Keys(heights), func(a, b model.Ref) int {
		return cmp.Or(cmp.Compare(heights[a], heights[b]), a.Compare(b))
	})
}

// lay returns a config merged over its layers as they are in a view.
func lay(view model.View, config *model.Config) *model.Config {
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
