package compile

import (
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/report"
)

// MaxDepth bounds how many layers lie under one another: a config whose layers have
// layers and so on, each of them counted once.
const MaxDepth = 16

// layersPath is the field that findings of merging are about.
const layersPath = "spec.layers"

// MaxUnder bounds how many configs lie under one in all.
const MaxUnder = 256

// Layer is a config that others are merged over.
type Layer struct {
	Name string
	// Type is "ignition"; a kickstart is no layer.
	Type string
	// Bytes is what the layer is served as, its own layers included; nil where it
	// never compiled. Hash is that of Bytes.
	Bytes []byte
	Hash  string
	// Template is true where Bytes is a template, which is no layer.
	Template bool
	// Pending is true while its newest source is being compiled, Failing where that
	// cannot be served; Failure then says why.
	Pending, Failing bool
	Failure          string
	// Layers names the layers under it.
	Layers []string
}

// Stack finds the layers of a config, the lowest first. find returns a config by its name,
// or nil. A config with an error in the report cannot be merged. pending is true where its
// only obstacle is a layer that is being compiled for the first time.
func Stack(name string, layers []string, find func(name string) *Layer) (stack []*Layer, pending bool,
	found report.Report) {
	refuse := func(format string, args ...any) {
		found = append(found, refusal(format, args...)...)
	}
	w := newWalk(find)
	circle, within := w.circle(name, layers)
	if circle != nil {
		refuse("the layers go in a circle: %s", chain(circle))
		return nil, false, found
	}
	if !within {
		refuse("more than %d configs lie under %s", MaxUnder, name)
		return nil, false, found
	}
	if deep := w.longest(layers, MaxDepth+1); len(deep) > MaxDepth {
		refuse("more than %d layers lie under one another: %s", MaxDepth, chain(append([]string{name}, deep...)))
		return nil, false, found
	}
	for _, each := range layers {
		layer, way := w.layer(each), chain([]string{name, each})
		switch {
		case layer == nil:
			refuse("there is no config %s in this namespace: %s", each, way)
		case layer.Type != TypeIgnition:
			refuse("%s is a %s, and only a config of type ignition is a layer: %s", each, layer.Type, way)
		case layer.Template:
			refuse("%s is a template, and a template cannot be a layer; put what is the same for all hosts into a config of "+
				"its own: %s", each, way)
		case layer.Bytes == nil && layer.Pending:
			pending = true
		case layer.Bytes == nil:
			refuse("%s has never compiled: %s%s", each, way, cause(layer))
		case layer.Failing:
			found = append(found, report.Finding{Severity: report.Warning, Path: layersPath,
				Message: fmt.Sprintf("%s has an error, and its last good compilation is used%s", each, cause(layer))})
			fallthrough
		default:
			stack = append(stack, layer)
		}
	}
	return stack, pending && !found.HasError(), found
}

// maxCause bounds the quotation of a layer's own error, in bytes.
const maxCause = 200

func cause(layer *Layer) string {
	if layer.Failure == "" {
		return ""
	}
	return "; " + layer.Name + ": " + report.Clip(layer.Failure, maxCause)
}

// Height is the number of layers that lie under one another below a config with the
// given layers: 0 without any, and more than MaxDepth where they cannot be merged.
func Height(name string, layers []string, find func(name string) *Layer) int {
	return len(newWalk(find).longest(layers, MaxDepth+1))
}

// chain is a way down the layers, shortened where it is long.
func chain(names []string) string {
	if most := MaxDepth + 2; len(names) > most {
		names = slices.Concat(names[:most-1], []string{"…"}, names[len(names)-1:])
	}
	return strings.Join(names, " → ")
}

// walk follows the layers under a config.
type walk struct {
	find  func(string) *Layer
	found map[string]*Layer
	ways  map[way][]string
}

// way is the longest way down from a config, of at most limit names.
type way struct {
	name  string
	limit int
}

func newWalk(find func(string) *Layer) *walk {
	return &walk{find: find, found: map[string]*Layer{}, ways: map[way][]string{}}
}

// layer returns a config, each looked up once.
func (w *walk) layer(name string) *Layer {
	layer, known := w.found[name]
	if !known {
		layer = w.find(name)
		w.found[name] = layer
	}
	return layer
}

// longest returns the longest way down the given layers, of at most limit names. A
// config that fails is used as it is, whatever layers it names by now.
func (w *walk) longest(layers []string, limit int) (longest []string) {
	if limit == 0 {
		return nil
	}
	for _, name := range layers {
		below, known := w.ways[way{name, limit}]
		if layer := w.layer(name); !known && layer != nil && !layer.Failing {
			below = w.longest(layer.Layers, limit-1)
		}
		w.ways[way{name, limit}] = below
		if len(below) >= len(longest) {
			longest = append([]string{name}, below...)
		}
	}
	return longest
}

// circle returns a shortest way from a config back to itself; nil where there is none, or
// where it is in a circle further below. within is false where more than MaxUnder configs
// lie under it.
func (w *walk) circle(name string, layers []string) (way []string, within bool) {
	over := map[string]string{} // a config -> the one by which it was found
	next := []string{name}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if at != name {
			layers = nil
			if layer := w.layer(at); layer != nil {
				layers = layer.Layers
			}
		}
		for _, each := range layers {
			if each == name {
				way = []string{each}
				for ; at != name; at = over[at] {
					way = append(way, at)
				}
				way = append(way, name)
				slices.Reverse(way)
				return way, true
			}
			if _, seen := over[each]; !seen {
				if len(over) == MaxUnder {
					return nil, false
				}
				over[each] = at
				next = append(next, each)
			}
		}
	}
	return nil, true
}
