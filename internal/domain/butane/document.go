package butane

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/report"
)

// document is a Butane source within the bounds.
type document struct {
	source           []byte
	root             *mapping
	variant, version string
	// children are the configs that the source holds as text, to be merged or to
	// replace it.
	children []*yaml.Node
}

// mapping is a mapping node; nil has no keys.
type mapping yaml.Node

// value returns the value of a key, aliases resolved; nil where there is none.
func (m *mapping) value(key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return resolve(m.Content[i+1])
		}
	}
	return nil
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// parse reads the one document of a source and checks the bounds. It reports
// nothing but errors.
func parse(source []byte) (*document, report.Report) {
	if tags(source) > MaxTags {
		return nil, report.ErrorWithHint("remove them: Butane has no use for them",
			"the config has more than %d %%TAG directives", MaxTags)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlErrors(source, err)
	}
	empty := report.Report{report.ErrorAt(source, 0, "the config is empty", "a Butane config begins with variant: and version:")}
	if len(first.Content) == 0 {
		return nil, empty
	}
	root := first.Content[0]
	b := bounds{}
	b.walk(root, 0)
	if b.failure != nil {
		return nil, report.Report{*b.failure}
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, report.Report{{
			Severity: report.Error, Line: second.Line, Column: max(second.Column, 1),
			Message: "a second YAML document begins here, and only one can be compiled",
			Hint:    "remove the --- line, or store each document as a config of its own",
		}}
	case !errors.Is(err, io.EOF):
		return nil, yamlErrors(source, err)
	}
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, empty
	}
	return newDocument(source, root)
}

// newDocument reads the head of a document and checks the bounds of what it describes.
func newDocument(source []byte, root *yaml.Node) (*document, report.Report) {
	d := &document{source: source, root: (*mapping)(root)}
	if root.Kind != yaml.MappingNode {
		f := d.finding(root, "expected a mapping at the top of the config")
		f.Hint = "a Butane config begins with variant: and version:"
		return nil, report.Report{f}
	}
	for key, to := range map[string]*string{"variant": &d.variant, "version": &d.version} {
		if n := d.root.value(key); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			*to = n.Value
		}
	}
	d.children = d.inlineConfigs()
	var shape ignition.Shape
	_ = root.Decode(&shape) // a wrong type is the library's to report
	if path, message := shape.Excess(); path != "" {
		at := root
		for _, key := range strings.Split(path, ".")[1:] {
			if next := (*mapping)(at).value(key); next != nil {
				at = next
			}
		}
		f := d.finding(at, message)
		f.Path, f.Hint = path, "use fewer"
		return nil, report.Report{f}
	}
	return d, d.boundChildren()
}

// finding returns an error at a node; where there is none, at the first key of the source.
func (d *document) finding(n *yaml.Node, message string) report.Finding {
	if n == nil {
		n = (*yaml.Node)(d.root)
	}
	return report.Finding{Severity: report.Error, Message: message, Line: n.Line, Column: n.Column}
}

// nearest returns the value at a path such as $.storage.files.0, or the last object on the
// way to it and false.
func (d *document) nearest(path string) (at *yaml.Node, found bool) {
	at = (*yaml.Node)(d.root)
	for _, part := range strings.Split(path, ".")[1:] {
		next := (*mapping)(at).value(part)
		if index, err := strconv.Atoi(part); err == nil && at.Kind == yaml.SequenceNode && index < len(at.Content) {
			next = resolve(at.Content[index])
		}
		if next == nil {
			return at, false
		}
		at = next
	}
	return at, true
}

// inlineConfigs finds the children.
func (d *document) inlineConfigs() []*yaml.Node {
	section := (*mapping)((*mapping)(d.root.value("ignition")).value("config"))
	candidates := []*yaml.Node{section.value("replace")}
	if merge := section.value("merge"); merge != nil && merge.Kind == yaml.SequenceNode {
		candidates = append(candidates, merge.Content...)
	}
	var texts []*yaml.Node
	for _, candidate := range candidates {
		if candidate == nil {
			continue
		}
		if text := (*mapping)(resolve(candidate)).value("inline"); text != nil && text.Kind == yaml.ScalarNode {
			texts = append(texts, text)
		}
	}
	return texts
}

// place mends the position of a finding in a child, which the library places in
// the source by the path that it has in the child.
func (d *document) place(f *report.Finding) {
	if len(d.children) == 0 || d.has(f.Path) {
		return
	}
	f.Line, f.Column = 0, 0
	if len(d.children) == 1 {
		f.Line, f.Column = d.children[0].Line, d.children[0].Column
	}
	f.Message = "in the inline config: " + f.Message
}

// has reports whether the source has a value, or the object for one, at path. The
// library's paths may end in a name that the source leaves out.
func (d *document) has(path string) bool {
	parts := strings.Split(path, ".")[1:]
	at := (*yaml.Node)(d.root)
	for i, part := range parts {
		var next *yaml.Node
		if index, err := strconv.Atoi(part); err == nil && at.Kind == yaml.SequenceNode && index < len(at.Content) {
			next = resolve(at.Content[index])
		} else {
			next = (*mapping)(at).value(part)
		}
		if next == nil {
			return i == len(parts)-1 && i > 0
		}
		at = next
	}
	return true
}
