package cli

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
	sigsyaml "sigs.k8s.io/yaml"

	"glowplug/internal/domain/butane"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
)

// places finds the position of a field in a manifest file.
type places struct {
	// source is the file; empty where it cannot be read again.
	source []byte
	lines  [][]byte
	// root is the object; nil where the file does not contain its text, as with the items
	// of a List. Then only first is known.
	root *yaml.Node
	// first is the line of the file at which the object begins. shift is added to a line
	// of the document for the line of the file.
	first, shift int
	// object names the object where its place is not known, and text is its YAML.
	object string
	text   []byte
}

func newPlaces(doc *manifest.Document) *places {
	p := &places{first: doc.Line, object: doc.Kind + " " + doc.Name, text: doc.YAML}
	p.source, _ = os.ReadFile(doc.File)
	p.lines = bytes.Split(p.source, []byte("\n"))
	if !bytes.Contains(p.source, doc.YAML) {
		return p
	}
	// doc.Line is the first line with text, and so is that of the root.
	if root := rootNode(doc.YAML); root != nil {
		p.root, p.shift = root, doc.Line-root.Line
		return p
	}
	p.shift = doc.Above // the text cannot be parsed
	return p
}

// finding returns a finding at a field, or at the deepest existing part of its path.
func (p *places) finding(severity report.Severity, path, message string) report.Finding {
	f := report.Finding{Severity: severity, Line: p.first, Message: message}
	if p.root != nil {
		node := locate(p.root, path)
		f.Line, f.Column = node.Line+p.shift, node.Column
	} else {
		f.Message = p.object + ": " + message
	}
	return f
}

// unknownField returns the error of a field that its kind does not have, at its key.
func (p *places) unknownField(path, message string) report.Finding {
	f := p.finding(report.Error, path, message)
	f.Hint = "the field is not part of the kind; check the spelling and the indentation"
	if p.root == nil {
		return f
	}
	dot := strings.LastIndexByte(path, '.') // -1 for a field at the top
	at, name := locate(p.root, path[:max(dot, 0)]), path[dot+1:]
	for i := 0; at.Kind == yaml.MappingNode && i+1 < len(at.Content); i += 2 {
		if key := at.Content[i]; key.Value == name {
			f.Line, f.Column = key.Line+p.shift, key.Column
		}
	}
	return f
}

// wrongType returns the error of a field whose value has another type than it should.
func (p *places) wrongType(path, found, expected string) report.Finding {
	f := p.finding(report.Error, path, fmt.Sprintf("expected %s, found a value of type %s", expected, found))
	if p.root == nil {
		return f
	}
	node := ofType(locate(p.root, path), found)
	if node == nil {
		return f
	}
	f.Line, f.Column = node.Line+p.shift, node.Column
	if expected == "a string" && node.Kind == yaml.ScalarNode {
		f.Hint = fmt.Sprintf("YAML reads %s without quotes as a %s: write \"%s\"", node.Value, found, node.Value)
	}
	return f
}

// ofType returns the first value of a type of JSON: node itself, or an item of it; nil where
// there is none.
func ofType(node *yaml.Node, name string) *yaml.Node {
	if jsonType(node) == name {
		return node
	}
	for i, item := range node.Content {
		if isKey := node.Kind == yaml.MappingNode && i%2 == 0; !isKey && jsonType(item) == name {
			return item
		}
	}
	return nil
}

// jsonType returns the type of a value as the decoder of JSON names it.
func jsonType(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "array"
	case yaml.ScalarNode:
		var value any
		if node.Style != 0 || sigsyaml.Unmarshal([]byte(node.Value), &value) != nil {
			return "string"
		}
		switch value.(type) {
		case bool:
			return "bool"
		case string:
			return "string"
		case nil:
			return "null"
		}
		return "number"
	}
	return ""
}

// unreadable returns the errors of a document that is no object.
func (p *places) unreadable(err error) report.Report {
	if found := butane.Syntax(p.text); found.HasError() {
		for i := range found {
			found[i] = found[i].Moved(p.shift)
			found[i].Line = max(found[i].Line, p.first)
		}
		return found
	}
	text := err.Error()
	if m := structField.FindStringSubmatch(text); m != nil {
		return report.Report{p.wrongType(m[2], strings.Fields(m[1])[0], nameOfType(m[3]))}
	}
	f := report.Finding{Severity: report.Error, Line: p.first}
	if m := yamlPosition.FindStringSubmatchIndex(text); m != nil {
		line, _ := strconv.Atoi(text[m[2]:m[3]])
		f.Line = line + p.shift
		text = report.MoveLines(text[:m[0]]+text[m[1]:], p.shift)
	}
	f.Message = strings.Join(strings.Fields(text), " ")
	if line := f.Line; strings.Contains(text, " tab ") || !strings.Contains(text, "control characters") && line >= 1 &&
		line <= len(p.lines) && bytes.ContainsRune(p.lines[line-1], '\t') {
		f.Hint = butane.TabHint
	}
	return report.Report{f}
}

// inConfig moves findings of a config to their place in the manifest, if the config is a
// literal block. Otherwise the line and column in the config are part of the message.
func (p *places) inConfig(found report.Report, config string) report.Report {
	literal, folded := false, false
	if p.root != nil {
		node := locate(p.root, "spec.config")
		literal = node.Kind == yaml.ScalarNode && node.Style&yaml.LiteralStyle != 0
		folded = node.Kind == yaml.ScalarNode && node.Style&yaml.FoldedStyle != 0
	}
	texts := strings.Split(config, "\n")
	var out report.Report
	for _, f := range found {
		moved := p.finding(f.Severity, "spec.config", f.Message)
		moved.Path, moved.Hint = f.Path, f.Hint
		switch {
		case f.Line < 1:
		case literal && f.Line <= len(texts) && moved.Line+f.Line <= len(p.lines):
			moved.Message = report.MoveLines(moved.Message, moved.Line)
			moved.Line += f.Line
			moved.Column = f.Column
			line := strings.TrimSuffix(string(p.lines[moved.Line-1]), "\r")
			if indent := len(line) - len(texts[f.Line-1]); f.Column > 0 && indent > 0 {
				moved.Column += indent
			}
		default:
			moved.Message += fmt.Sprintf(" (at %d:%d of the config)", f.Line, f.Column)
			if folded {
				moved.Hint = "config: > joins the lines of the text into one: write config: |"
			}
		}
		out = append(out, moved)
	}
	return out
}

// step is one part of a field path: ".name", "[3]" or "[key]".
var step = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// locate finds the node at a field path, or the deepest existing node of the path.
func locate(at *yaml.Node, path string) *yaml.Node {
	for _, part := range step.FindAllString(path, -1) {
		part = strings.Trim(part, "[]")
		if at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		next := child(at, part)
		if next == nil {
			return at
		}
		at = next
	}
	return at
}

// child returns an item of a list or a field of a mapping; nil where there is none.
func child(at *yaml.Node, name string) *yaml.Node {
	if at.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(at.Content) {
			return at.Content[i]
		}
		return nil
	}
	for i := 0; at.Kind == yaml.MappingNode && i+1 < len(at.Content); i += 2 {
		key, value := at.Content[i], at.Content[i+1]
		switch {
		case key.Value != name:
		case value.Kind == yaml.MappingNode || value.Kind == yaml.SequenceNode: // shown at its key
			return &yaml.Node{Kind: value.Kind, Content: value.Content, Line: key.Line, Column: key.Column}
		default:
			return value
		}
	}
	return nil
}
