package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/domain/jsonscan"
	"glowplug/internal/domain/report"
)

// Bounds of a JSON document. The work of the validation library grows with the square
// of the nesting; no field of any spec version lies deeper than 9.
const (
	// MaxDepth bounds how deep objects and lists may nest.
	MaxDepth = 32
	// MaxNodes bounds the values in a document: objects, lists and scalars.
	MaxNodes = 50_000
	// MaxObjects bounds the objects among them, which cost the library several times
	// the work of another value.
	MaxObjects = 25_000
)

// split is the remedy for a config that is too large.
const split = "split the config: ignition.config.merge fetches further ones"

// document is a JSON text with the place of every value.
type document struct {
	raw []byte
	// nodes are the values, the root first.
	nodes []jsonscan.Value
	// lines has the offsets at which lines begin, after the first call of position.
	lines []int
	// paths has the paths of all values, case folded, after the first call of nearest.
	paths map[string]bool
	// duplicate is the first key that appears twice in its object, if any.
	duplicate *report.Finding
}

// kind returns the first character of a node: { [ " t f n or a digit or -.
func (d *document) kind(i int) byte { return d.raw[d.nodes[i].Start] }

// parse reads a JSON object. The finding is nil exactly where the text is one JSON
// object within the bounds and without duplicate keys.
func parse(raw []byte) (*document, *report.Finding) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, &report.Finding{Severity: report.Error, Message: "the config is empty",
			Hint: `the smallest config is {"ignition": {"version": "3.4.0"}}`}
	}
	if bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")) {
		return nil, fail(raw, 0, "the config begins with a byte order mark, which JSON does not allow",
			"save the file as UTF-8 without BOM")
	}
	var text json.RawMessage
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, syntaxError(raw, err)
	}
	d := &document{raw: raw}
	if excess := d.scan(); excess != nil {
		return nil, excess
	}
	if d.duplicate != nil {
		return nil, d.duplicate
	}
	if d.kind(0) != '{' {
		return nil, fail(raw, d.nodes[0].Start, "expected an object, found "+describe(d.kind(0)),
			"an Ignition config is a JSON object: { … }")
	}
	return d, nil
}

func fail(raw []byte, offset int, message, hint string) *report.Finding {
	f := report.ErrorAt(raw, offset, message, hint)
	return &f
}

func syntaxError(raw []byte, err error) *report.Finding {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return fail(raw, 0, err.Error(), "")
	}
	message, hint, at := syntax.Error(), "", int(syntax.Offset)-1
	switch {
	case strings.Contains(message, "after top-level value"):
		message = "there is more text after the end of the config"
	case message == "unexpected end of JSON input":
		message, hint = "the config ends too early", "a closing bracket or quote is missing"
		at = len(bytes.TrimRight(raw, " \t\r\n"))
	case message == "exceeded max depth":
		message = tooDeep
	case at <= len(raw)-len(bytes.TrimLeft(raw, " \t\r\n")):
		hint = "an Ignition config is JSON; Butane YAML is stored with format: butane"
	}
	return fail(raw, at, message, hint)
}

var tooDeep = fmt.Sprintf("objects and lists are nested more than %d deep", MaxDepth)

// scan lists the values of d.raw, which is valid JSON, and returns the bound that they
// exceed.
func (d *document) scan() *report.Finding {
	objects := 0
	for v := range jsonscan.Values(d.raw) {
		if v.Repeated && d.duplicate == nil {
			d.duplicate = fail(d.raw, v.KeyStart, fmt.Sprintf("key %q appears twice in one object", clip(v.Key)),
				"put their content under one of them: Ignition takes them for one key, in any case of letters")
			d.duplicate.Path = d.path(v.Parent)
		}
		kind := d.raw[v.Start]
		if kind == '{' {
			objects++
		}
		switch {
		case len(d.nodes) == MaxNodes:
			return fail(d.raw, v.Start, fmt.Sprintf("the config has more than %d values", MaxNodes), split)
		case objects > MaxObjects:
			return fail(d.raw, v.Start, fmt.Sprintf("the config has more than %d objects", MaxObjects), split)
		case v.Depth == MaxDepth && (kind == '{' || kind == '['):
			return fail(d.raw, v.Start, tooDeep, "")
		}
		d.nodes = append(d.nodes, v)
	}
	return nil
}

// path names a node as findings do: "$.storage.files.0.path".
func (d *document) path(i int) string { return d.pathWith(i, strconv.Itoa) }

// shape is the path of a node with every index 0, the same for all items of a list.
func (d *document) shape(i int) string { return d.pathWith(i, func(int) string { return "0" }) }

func (d *document) pathWith(i int, index func(int) string) string {
	var parts []string
	for ; i > 0; i = d.nodes[i].Parent {
		if n := &d.nodes[i]; n.Index >= 0 {
			parts = append(parts, index(n.Index))
		} else {
			parts = append(parts, n.Key)
		}
	}
	parts = append(parts, "$")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// position is report.Position, faster for many offsets of one document.
func (d *document) position(offset int) (line, column int) {
	if d.lines == nil {
		d.lines = []int{0}
		for i, c := range d.raw {
			if c == '\n' {
				d.lines = append(d.lines, i+1)
			}
		}
	}
	i, found := slices.BinarySearch(d.lines, offset)
	if !found {
		i--
	}
	return i + 1, offset - d.lines[i] + 1
}

// find returns the index of the node under keys, -1 where there is none.
func (d *document) find(keys ...string) int {
	found := 0
	for _, key := range keys {
		found = slices.IndexFunc(d.nodes, func(n jsonscan.Value) bool {
			return n.Parent == found && strings.EqualFold(n.Key, key)
		})
		if found < 0 {
			return -1
		}
	}
	return found
}

// at returns the index of the last node that starts before offset.
func (d *document) at(offset int) int {
	after, _ := slices.BinarySearchFunc(d.nodes, offset, func(n jsonscan.Value, offset int) int {
		return n.Start - offset
	})
	return max(after-1, 0)
}

// fail returns an error at a node.
func (d *document) fail(i int, message, hint string) *report.Finding {
	f := fail(d.raw, d.nodes[i].Start, message, hint)
	f.Path = d.path(i)
	return f
}

// describe names a kind of value.
func describe(kind byte) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// nearest returns a path, or the nearest one above it that the document has: fields of the
// forms between two versions are not known to the author of the source.
func (d *document) nearest(path string) string {
	if d.paths == nil {
		d.paths = map[string]bool{"$": true}
		for i := range d.nodes {
			d.paths[jsonscan.Fold(d.path(i))] = true
		}
	}
	for !d.paths[jsonscan.Fold(path)] {
		at := strings.LastIndexByte(path, '.')
		if at < 0 {
			return "$"
		}
		path = path[:at]
	}
	return path
}
