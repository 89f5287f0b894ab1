package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/report"
)

// MaxDepth bounds how many layers lie under one another: a config whose layers have
// layers and so on, each of them counted once.
const MaxDepth = 16

// layersPath is the field that findings of merging are about.
const layersPath = "spec.layers"

// OfLayers begins a message about the layers of a config.
const OfLayers = layersPath + ": "

// IsOfLayers reports whether a message is about the layers of a config, and its source is good.
func IsOfLayers(message string) bool { return strings.HasPrefix(message, OfLayers) }

// MaxUnder bounds how many configs lie under one in all.
const MaxUnder = 256

// Layer is a config that others are merged over.
type Layer struct {
	Name string
	// Type is "ignition"; a kickstart is no layer.
	Type string
	// Bytes is what the layer is served as, its own layers included; nil where it has no
	// compiled result. Hash is that of Bytes.
	Bytes []byte
	Hash  string
	// Template is true where Bytes is a template, which is no layer.
	Template bool
	// Pending is true while its newest source is being compiled, Failing where that
	// cannot be served; Failure then says why.
	Pending, Failing bool
	Failure          string
	// Confidential is true where Bytes is.
	Confidential bool
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
			refuse("%s has no compiled result: %s%s", each, way, cause(layer))
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

// MaxMerged bounds a config that was merged over its layers, in bytes.
const MaxMerged = 4 << 20

// Laid is a config that was merged over its layers.
type Laid struct {
	// Artifact is what machines are given. Its Forms are not made, see Judge.
	Artifact *Artifact
	merged   *ignition.Merged
}

// Origins lists the entries of the config, its files, units, users and so on, and says
// which of the layers each came from, the config itself by its own name.
func (l *Laid) Origins() []ignition.Origin { return l.merged.Origins() }

// concealedReason stands for a reason that may quote a confidential layer.
const concealedReason = "the reason is confidential, as a layer is"

// Lay merges a config over its layers, see Stack, by the rules of Ignition. own is the
// compiled config and name its name. The result is nil exactly where the report holds an
// error.
func Lay(name string, own []byte, stack []*Layer) (laid *Laid, found report.Report) {
	defer func() {
		if fault := recover(); fault != nil {
			laid, found = nil, report.Errorf("the library failed on merging the layers: %.200v", fault)
		}
	}()
	size := len(own)
	var parts []ignition.Part
	for _, layer := range stack {
		size += len(layer.Bytes)
		parts = append(parts, ignition.Part{Name: layer.Name, Config: layer.Bytes})
	}
	if size > MaxMerged {
		return nil, refusal("together with its layers the config is larger than %d bytes (4 MiB): let the machine fetch "+
			"files by URL (contents.source), the large ones first", MaxMerged)
	}
	// A reason may quote a layer that the author of this config may not read.
	confidential := slices.ContainsFunc(stack, func(layer *Layer) bool { return layer.Confidential })
	merged, err := ignition.MergeAll(append(parts, ignition.Part{Name: name, Config: own}))
	var part *ignition.PartError
	switch {
	case errors.As(err, &part) && part.Part == name:
		return nil, refusal("the config itself: %s", part.Reason())
	case errors.As(err, &part) && confidential:
		return nil, refusal("layer %s: %s", part.Part, concealedReason)
	case errors.As(err, &part):
		return nil, refusal("layer %s: %s", part.Part, part.Reason())
	case err != nil:
		return nil, refusal("%v", err)
	case len(merged.Config) > MaxMerged:
		return nil, refusal("merged over its layers the config is larger than %d bytes (4 MiB): let the machine fetch "+
			"files by URL (contents.source), the large ones first", MaxMerged)
	}
	found = checkFetched(stack, merged.Version)
	for _, f := range merged.Validate().Errors() {
		f.Line, f.Column = 0, 0 // the text was not written by an operator
		reason := f.String()
		if confidential {
			reason = concealedReason
		}
		message := "merged over its layers the config is not valid: " + reason
		if from := merged.From(f.Path); len(from) > 0 {
			message += fmt.Sprintf(" (from %s)", joined(from))
		}
		found = append(found, refusal("%s", message)...)
	}
	if found.HasError() {
		return nil, found
	}
	artifact := &Artifact{Bytes: merged.Config, Hash: hashOf(merged.Config), IgnitionVersion: merged.Version}
	return &Laid{Artifact: artifact, merged: merged}, found
}

// Judge finds out which spec versions an artifact can be given in, which takes longer
// than all the rest.
func Judge(artifact *Artifact) {
	if artifact.IgnitionVersion != "" {
		artifact.Forms = forms(artifact)
	}
}

func refusal(format string, args ...any) report.Report {
	return report.Report{{Severity: report.Error, Path: layersPath, Message: fmt.Sprintf(format, args...)}}
}

func hashOf(artifact []byte) string {
	digest := sha256.Sum256(artifact)
	return "sha256:" + hex.EncodeToString(digest[:])
}

// joined lists names: a, b and c.
func joined(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// checkFetched reports the configs that layers have the machine fetch: it merges them after
// the layers were merged here, in another order than a machine that fetches all.
func checkFetched(stack []*Layer, version string) report.Report {
	var found report.Report
	add := func(severity report.Severity, layer *Layer, path, format string, args ...any) {
		found = append(found, report.Finding{Severity: severity, Path: layersPath,
			Message: fmt.Sprintf("layer %s: %s: ", layer.Name, path) + fmt.Sprintf(format, args...)})
	}
	appends := version[0] == '2'
	for _, layer := range stack {
		fetched, _ := ignition.FetchingOf(layer.Bytes) // of a valid config
		if fetched.Replace != nil {
			add(report.Error, layer, "$.ignition.config.replace",
				"it would take the place of the whole config: replace in the config itself")
		}
		switch {
		case len(fetched.Children) > 0 && appends:
			add(report.Error, layer, "$.ignition.config.append",
				"spec 2 forgets it where a config is put over it: write the config in spec 3, or append in the config itself")
		case len(fetched.Children) > 0:
			add(report.Warning, layer, "$.ignition.config.merge",
				"the machine merges it over the whole config, also over what stands above the layer")
		}
		if appends && (fetched.HTTPProxy+fetched.HTTPSProxy != "" || len(fetched.NoProxy) > 0) {
			add(report.Warning, layer, "$.ignition.proxy", "spec 2 takes the proxy of the config on top alone")
		}
	}
	return found
}
