package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"glowplug/internal/domain/report"
)

// Bounds of a JSON document. The validation library's work grows with the square
// of the nesting, so that nesting is bounded tightly: no field of any spec version
// lies deeper than 9.
const (
	// MaxDepth bounds how deep objects and lists may nest.
	MaxDepth = 32
	// MaxNodes bounds the values in a document: objects, lists and scalars.
	MaxNodes = 50_000
	// MaxObjects bounds the objects among them, on each of which the library
	// spends several times what it spends on another value.
	MaxObjects = 25_000
)

// split is the remedy for a config that is too large.
const split = "split the config: ignition.config.merge fetches further ones"

// node is one value of a document.
type node struct {
	// start is the offset of the value, keyStart that of its key in an object.
	start, keyStart int
	// key is the name of an object's member; empty in a list.
	key string
	// parent is the index of the object or list that holds it; -1 for the root.
	parent int
	// index counts the values of a list from 0, -1 in an object.
	index int
	// kind is the first character of the value: { [ " t f n or a digit or -.
	kind byte
}

// document is a JSON text with the place of every value.
type document struct {
	raw   []byte
	nodes []node
	// lines has the offsets at which lines begin, once position was asked for one.
	lines []int
	// duplicate is the first key that appears twice in its object, if any.
	duplicate *report.Finding
}

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
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, syntaxError(raw, err)
	}
	d := &document{raw: raw}
	if excess := d.scan(); excess != nil {
		return nil, excess
	}
	if d.duplicate != nil {
		return nil, d.duplicate
	}
	if d.nodes[0].kind != '{' {
		return nil, fail(raw, d.nodes[0].start, "expected an object, found "+describe(d.nodes[0].kind),
			"an Ignition config is a JSON object: { … }")
	}
	return d, nil
}

func fail(raw []byte, offset int, message, hint string) *report.Finding {
	line, column := report.Position(raw, offset)
	return &report.Finding{Severity: report.Error, Line: line, Column: column, Message: message, Hint: hint}
}

func syntaxError(raw []byte, err error) *report.Finding {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return fail(raw, 0, err.Error(), "")
	}
	message, hint := syntax.Error(), ""
	switch {
	case strings.Contains(message, "after top-level value"):
		message = "there is more text after the end of the config"
	case message == "unexpected end of JSON input":
		message = "the config ends too early"
		hint = "a closing bracket or quote is missing"
		return fail(raw, len(bytes.TrimRight(raw, " \t\r\n")), message, hint)
	case message == "exceeded max depth":
		message = tooDeep
	case syntax.Offset <= int64(len(raw)-len(bytes.TrimLeft(raw, " \t\r\n"))+1):
		hint = "an Ignition config is JSON; Butane YAML is stored with format: butane"
	}
	return fail(raw, int(syntax.Offset)-1, message, hint)
}

var tooDeep = fmt.Sprintf("objects and lists are nested more than %d deep", MaxDepth)

// scan lists the values of d.raw, which is valid JSON, and tells what is out of
// bounds.
func (d *document) scan() *report.Finding {
	type member struct {
		parent int
		key    string
	}
	var (
		raw      = d.raw
		seen     = map[member]struct{}{}
		parent   = -1
		depth    = 0
		objects  = 0
		index    = []int{}
		key      string
		keyStart int
		haveKey  bool
	)
	for i := 0; i < len(raw); {
		c := raw[i]
		switch c {
		case ' ', '\t', '\r', '\n', ',', ':':
			i++
			continue
		case '}', ']':
			parent = d.nodes[parent].parent
			depth--
			index = index[:depth]
			i++
			continue
		}
		end := i + 1
		switch c {
		case '{', '[':
		case '"':
			end = stringEnd(raw, i)
		default:
			for end < len(raw) && !strings.ContainsRune(" \t\r\n,:]}", rune(raw[end])) {
				end++
			}
		}
		inObject := parent >= 0 && d.nodes[parent].kind == '{'
		if inObject && !haveKey {
			key, keyStart, haveKey = unquote(raw[i:end]), i, true
			m := member{parent, fold(key)}
			if _, again := seen[m]; again && d.duplicate == nil {
				d.duplicate = fail(raw, i, fmt.Sprintf("key %q appears twice in one object", clip(key)),
					"keep one of them: Ignition reads only the last, in any case of letters")
				d.duplicate.Path = d.path(parent)
			}
			seen[m] = struct{}{}
			i = end
			continue
		}
		if len(d.nodes) == MaxNodes {
			return fail(raw, i, fmt.Sprintf("the config has more than %d values", MaxNodes), split)
		}
		n := node{start: i, parent: parent, index: -1, kind: c}
		if inObject {
			n.key, n.keyStart, haveKey = key, keyStart, false
		} else if parent >= 0 {
			n.index = index[depth-1]
			index[depth-1]++
		}
		d.nodes = append(d.nodes, n)
		if c == '{' {
			if objects++; objects > MaxObjects {
				return fail(raw, i, fmt.Sprintf("the config has more than %d objects", MaxObjects), split)
			}
		}
		if c == '{' || c == '[' {
			if depth == MaxDepth {
				return fail(raw, i, tooDeep, "")
			}
			parent = len(d.nodes) - 1
			depth++
			index = append(index, 0)
		}
		i = end
	}
	return nil
}

// stringEnd returns the offset after the string that starts at i.
func stringEnd(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // a valid string, or scan would not see it
	return s
}

// fold returns one spelling for all keys that JSON decoders take as equal: they
// compare in any case of letters.
func fold(key string) string {
	for i := range len(key) {
		if c := key[i]; c >= 0x80 || 'A' <= c && c <= 'Z' {
			return strings.Map(func(c rune) rune {
				low := c
				for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
					low = min(low, next)
				}
				return unicode.ToLower(low)
			}, key)
		}
	}
	return key
}

// path names a node as findings do: "$.storage.files.0.path".
func (d *document) path(i int) string {
	var parts []string
	for ; i > 0; i = d.nodes[i].parent {
		if n := d.nodes[i]; n.index >= 0 {
			parts = append(parts, strconv.Itoa(n.index))
		} else {
			parts = append(parts, n.key)
		}
	}
	var b strings.Builder
	b.WriteByte('$')
	for j := len(parts) - 1; j >= 0; j-- {
		b.WriteByte('.')
		b.WriteString(parts[j])
	}
	return b.String()
}

// shape is the path of a node with every index 0, the same for all items of a list.
func (d *document) shape(i int) string {
	var keys []string
	for ; i > 0; i = d.nodes[i].parent {
		if n := &d.nodes[i]; n.index >= 0 {
			keys = append(keys, "0")
		} else {
			keys = append(keys, n.key)
		}
	}
	keys = append(keys, "$")
	slices.Reverse(keys)
	return strings.Join(keys, ".")
}

// position is report.Position for a document of which many are asked.
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
	at := 0
	for _, key := range keys {
		next := -1
		for i := at + 1; i < len(d.nodes); i++ {
			if n := d.nodes[i]; n.parent == at && fold(n.key) == key {
				next = i
				break
			}
		}
		if next < 0 {
			return -1
		}
		at = next
	}
	return at
}

// at returns the index of the last node that starts before offset.
func (d *document) at(offset int) int {
	last := 0
	for i := range d.nodes {
		if d.nodes[i].start >= offset {
			break
		}
		last = i
	}
	return last
}

// fail returns an error at a node.
func (d *document) fail(i int, message, hint string) *report.Finding {
	f := fail(d.raw, d.nodes[i].start, message, hint)
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
