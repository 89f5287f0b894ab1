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

const (
	// maxMerges bounds the configs that are merged again over changed layers, each of which takes
	// some milliseconds, and maxMerged their bytes.
	maxMerges = 1000
	maxMerged = 64 << 20
)

// merger merges the configs above changed layers, as the controller of configs does it after a
// write.
type merger struct {
	view  snapshot.View
	pause func()
	// merges is the number of configs that were merged again, and bytes their size.
	merges, bytes int
	// concerned are the configs that may be given in other bytes than before.
	concerned map[snapshot.Ref]bool
	// unknown are the configs whose result is not known.
	unknown map[snapshot.Ref]bool
}

func newMerger(view snapshot.View, o *Options) *merger {
	m := &merger{view: view, pause: o.Pause, concerned: map[snapshot.Ref]bool{}, unknown: map[snapshot.Ref]bool{}}
	maps.Copy(m.unknown, o.Pending)
	return m
}

// write makes one change of a config, and merges it and all above it, the lower first, until
// nothing changes any more: a merge that mends a layer changes what is above it.
func (m *merger) write(ctx context.Context, ref snapshot.Ref, config *snapshot.Config) {
	m.concerned[ref] = true
	former := m.view.Config(ref)
	isMerged := config != nil && config.Stack != nil && config.Stack.Own != nil
	if isMerged {
		config = config.Unmerged(former)
	}
	m.put(ref, config)
	for next := m.above(ref); len(next) > 0; next = next[1:] {
		at := m.view.Config(next[0])
		if m.merge(ctx, next[0], isMerged && next[0] == ref) && !m.view.Config(next[0]).IsSameLayer(at) {
			for _, config := range m.view.Above(next[0]) {
				next = append(next, config.Ref)
			}
		}
	}
}

func (m *merger) put(ref snapshot.Ref, config *snapshot.Config) {
	m.view = m.view.With(&snapshot.Changes{Configs: map[snapshot.Ref]*snapshot.Config{ref: config}})
}

// merge merges a config if that is due, and reports whether it did.
func (m *merger) merge(ctx context.Context, ref snapshot.Ref, isDue bool) bool {
	config := m.view.Config(ref)
	switch {
	case config == nil || config.Stack == nil:
	case m.isOverUnknown(config):
		m.concerned[ref], m.unknown[ref] = true, true
	case config.Stack.Own == nil: // a template is merged for each host
		m.concerned[ref] = m.concerned[ref] || config.Template
	case !isDue && !m.view.IsUnmerged(config):
	case m.merges == maxMerges || m.bytes > maxMerged || ctx.Err() != nil:
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

func (m *merger) isOverUnknown(config *snapshot.Config) bool {
	return slices.ContainsFunc(config.Stack.Layers, func(name string) bool {
		return m.unknown[snapshot.Ref{Namespace: config.Namespace, Name: name}]
	})
}

// above returns a config and all that are above it, each once, the lower first.
func (m *merger) above(ref snapshot.Ref) []snapshot.Ref {
	heights := map[snapshot.Ref]int{}
	for next := []snapshot.Ref{ref}; len(next) > 0; next = next[1:] {
		ref := next[0]
		if _, seen := heights[ref]; seen {
			continue
		}
		heights[ref] = compile.Height(ref.Name, m.view.Config(ref).LayerNames(), m.view.Layers(ref.Namespace))
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
