package config

import (
	"cmp"
	"slices"

	"glowplug/internal/domain/compile"
	"glowplug/internal/store/snapshot"
)

// above returns the configs directly above a layer, or all above it, that may have to be
// merged again; the lower first, so that a config above several of them is merged once.
func (c *Controller) above(layer snapshot.Ref, all bool) []snapshot.Ref {
	view := c.opts.Snapshot.View()
	var refs []snapshot.Ref
	seen := map[snapshot.Ref]bool{}
	for next := view.Above(layer); len(next) > 0; next = next[1:] {
		if config := next[0]; !seen[config.Ref] {
			seen[config.Ref] = true
			refs = append(refs, config.Ref)
			if all {
				next = append(next, view.Above(config.Ref)...)
			}
		}
	}
	heights := map[snapshot.Ref]int{}
	refs = slices.DeleteFunc(refs, func(ref snapshot.Ref) bool {
		config := view.Config(ref)
		if phaseOf(view, config) != Compiled {
			return true
		}
		heights[ref] = compile.Height(config.Name, layersOf(config), view.Layers(config.Namespace))
		return false
	})
	slices.SortFunc(refs, func(a, b snapshot.Ref) int {
		return cmp.Or(cmp.Compare(heights[a], heights[b]), a.Compare(b))
	})
	return refs
}

func layersOf(config *snapshot.Config) []string {
	if config == nil || config.Stack == nil {
		return nil
	}
	return config.Stack.Layers
}

func sameLayers(a, b *snapshot.Config) bool { return slices.Equal(layersOf(a), layersOf(b)) }

// sameLayer reports whether two versions of a layer give the same merged configs.
func sameLayer(a, b *snapshot.Config) bool {
	return a.Hash == b.Hash && a.Type == b.Type && a.Template == b.Template && a.Failing == b.Failing &&
		a.Pending == b.Pending && a.ErrorMessage == b.ErrorMessage && sameLayers(a, b)
}
