// Package template renders the source of a config for one host. A source is a Go
// text/template with the host's Facts and functions that always return the same for the
// same arguments. It is pure and bounded: rendering takes at most about a second of CPU
// and some tens of megabytes.
package template

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	text "text/template"
	"text/template/parse"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"glowplug/internal/domain/report"
)

const (
	// MaxOutput bounds the rendered text, in bytes.
	MaxOutput = 2 << 20
	// maxActions bounds the {{actions}} of a template: each may nest in another.
	maxActions = 20_000
	// maxLookups bounds the variables that are declared, times those that are named:
	// the library looks for each among all.
	maxLookups = 20_000_000
	// maxDepth bounds how deep actions nest: the library unwinds an error through
	// every loop by itself.
	maxDepth = 50
	// name is what the text/template library calls a source in its errors.
	name = "config"
)

// Template is a source that has been parsed. It is safe for concurrent use.
type Template struct {
	source string
	parsed *text.Template
	// named are the functions that it calls.
	named map[string]bool
}

// Parse reads a template. It is nil exactly where the report holds an error.
func Parse(source string) (*Template, report.Report) {
	if n := strings.Count(source, "{{"); n > maxActions {
		return nil, report.ErrorWithHint("write what repeats once, in a {{range}} or a {{define}}",
			"the template has %d actions ({{…}}), more than %d", n, maxActions)
	}
	if lookups(source) > maxLookups {
		return nil, report.ErrorWithHint("let a list or dict hold what belongs together",
			"the template declares and names too many variables ($…)")
	}
	parsed, err := parseSource(source)
	if err != nil {
		return nil, report.Report{syntaxFinding(source, err)}
	}
	if found := restrict(source, parsed); found != nil {
		return nil, found
	}
	t := &Template{source: source, parsed: parsed}
	t.instrument()
	return t, nil
}

// declaration is how a variable is declared, or assigned, which is the same to the
// parser.
var declaration = regexp.MustCompile(`\$[\pL\p{Nd}_]*\s*(:?=|,)`)

// lookups bounds the names that the parser compares. It counts text beside actions
// too, which has both to no such extent.
func lookups(source string) int {
	named := strings.Count(source, "$")
	if named*named <= maxLookups {
		return 0
	}
	return named * len(declaration.FindAllStringIndex(source, -1))
}

func parseSource(source string) (*text.Template, error) {
	return text.New(name).Option("missingkey=error").Funcs(declared).Parse(source)
}

// Render returns the text for a host. It is nil exactly where the report holds an
// error, whose position is in the template.
func (t *Template) Render(facts *Facts) ([]byte, report.Report) {
	m := &meter{left: budget, look: budget, secret: facts.secret(), ended: facts.Ended}
	out := &output{}
	data := facts.data()
	run, err := t.parsed.Clone()
	if err == nil {
		err = run.Funcs(m.functions(t)).Execute(out, data)
	}
	if err == nil {
		err = m.err // and and or keep an error of an argument to themselves
	}
	if err != nil {
		return nil, report.Report{t.runFinding(err, &execution{facts, data, m.left})}
	}
	return append([]byte{}, out.Bytes()...), nil
}

// output takes only so much.
type output struct{ bytes.Buffer }

var errLong = errors.New("the rendered text is longer than 2 MiB")

func (o *output) Write(p []byte) (int, error) {
	if o.Len()+len(p) > MaxOutput {
		return 0, errLong
	}
	return o.Buffer.Write(p)
}

// Facts are what a template can name of a host. An empty text is not known: a
// template that names it fails.
type Facts struct {
	// Hostname, IP and MAC are those of the machine: of the card that it boots from,
	// else of the first further card that has one.
	Hostname, IP, MAC string
	// Namespace and Name are the BareMetalHost's; a machine that is no known host has
	// none.
	Namespace, Name string
	// Labels is metadata.labels overlaid by spec.labels.
	Labels map[string]string
	// Annotations are those of the object, without kubectl's copy of it.
	Annotations map[string]string
	// NICs are the further network cards of spec.nics.
	NICs []NIC
	// Server is the URL at which machines reach the server, without a slash at its end. It is one for all that a
	// server renders, and no part of Key.
	Server string `json:"-"`
	// Secret returns the value of a key of a Secret; nil: the template gets a placeholder for each value.
	Secret func(name, key string) (string, error) `json:"-"`
	// Ended reports whether nobody waits for the result any more: the rendering fails then; nil: it is awaited.
	Ended func() bool `json:"-"`
}

// PlaceholderServer stands for the URL of the server wherever no server renders.
const PlaceholderServer = "http://glowplug.invalid:8082"

// IsOver reports whether nobody waits for what is rendered with these facts.
func (f *Facts) IsOver() bool { return f.Ended != nil && f.Ended() }

// NIC is a network card. An empty text is not known.
type NIC struct{ MAC, IP, Hostname string }

// Key identifies facts: on one server a template renders the same text for the same key.
type Key [sha256.Size]byte

// Key hashes the facts.
func (f *Facts) Key() Key {
	text, _ := json.Marshal(f, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // of strings alone
	return sha256.Sum256(text)
}

// known are the facts, as a template names them.
var known = []string{"Hostname", "IP", "MAC", "Namespace", "Name", "Labels", "Annotations", "NICs", "Server"}

// data is what the template is given: maps, so that a fact that is not known is a
// missing key.
func (f *Facts) data() map[string]any {
	out := map[string]any{"Labels": values(f.Labels), "Annotations": values(f.Annotations)}
	for key, value := range map[string]string{
		"Hostname": f.Hostname, "IP": f.IP, "MAC": f.MAC, "Namespace": f.Namespace, "Name": f.Name,
		"Server": f.Server,
	} {
		put(out, key, value)
	}
	nics := make([]any, len(f.NICs))
	for i, n := range f.NICs {
		card := map[string]any{}
		put(card, "MAC", n.MAC)
		put(card, "IP", n.IP)
		put(card, "Hostname", n.Hostname)
		nics[i] = card
	}
	out["NICs"] = nics
	return out
}

func put(to map[string]any, key, value string) {
	if value != "" {
		to[key] = value
	}
}

func values(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// walk calls visit for a node and all nodes below it; visit reports whether to go
// below.
func walk(node parse.Node, visit func(parse.Node) bool) {
	if isNil(node) || !visit(node) {
		return
	}
	for _, child := range children(node) {
		walk(child, visit)
	}
}

// isNil reports whether there is no node: the parser leaves out lists and pipelines
// that are empty.
func isNil(node parse.Node) bool { return node == nil || reflect.ValueOf(node).IsNil() }

// branchOf returns the part that if, with and range have in common; nil of another node.
func branchOf(node parse.Node) *parse.BranchNode {
	switch n := node.(type) {
	case *parse.IfNode:
		return &n.BranchNode
	case *parse.WithNode:
		return &n.BranchNode
	case *parse.RangeNode:
		return &n.BranchNode
	}
	return nil
}

// children lists the nodes right below a node.
func children(node parse.Node) []parse.Node {
	if b := branchOf(node); b != nil {
		return []parse.Node{b.Pipe, b.List, b.ElseList}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		return n.Nodes
	case *parse.ActionNode:
		return []parse.Node{n.Pipe}
	case *parse.PipeNode:
		var nodes []parse.Node
		for _, variable := range n.Decl {
			nodes = append(nodes, variable)
		}
		for _, command := range n.Cmds {
			nodes = append(nodes, command.Args...)
		}
		return nodes
	case *parse.ChainNode:
		return []parse.Node{n.Node}
	case *parse.TemplateNode:
		return []parse.Node{n.Pipe}
	}
	return nil
}

// restrict refuses what would cost too much, and functions that are not offered:
// text/template knows more than are given to it.
func restrict(source string, t *text.Template) report.Report {
	var found report.Report
	for _, part := range t.Templates() {
		if at := tooDeep(part.Root, 0); at >= 0 {
			return report.Report{report.ErrorAt([]byte(source), at,
				fmt.Sprintf("actions are nested more than %d deep", maxDepth),
				"write {{else if}} for an if in an else, and a {{define}} for what is repeated")}
		}
		walk(part.Root, func(node parse.Node) bool {
			if id, ok := node.(*parse.IdentifierNode); ok && !builtin[id.Ident] && !functions[id.Ident].IsValid() {
				line, column := report.Position([]byte(source), int(id.Pos))
				found = append(found, noFunction(id.Ident, line, column))
			}
			return true
		})
	}
	return found.Tidy()
}

// tooDeep returns the offset of a block that is nested too deep, -1 where none is. An
// {{else if}} is an if in the else of another, and counts no deeper.
func tooDeep(body *parse.ListNode, depth int) int {
	if body == nil {
		return -1
	}
	for _, node := range body.Nodes {
		b := branchOf(node)
		if b != nil && depth == maxDepth {
			return int(node.Position())
		}
		for b != nil {
			if at := tooDeep(b.List, depth+1); at >= 0 {
				return at
			}
			rest := b.ElseList
			if b = elseIf(rest); b == nil {
				if at := tooDeep(rest, depth+1); at >= 0 {
					return at
				}
			}
		}
	}
	return -1
}

// elseIf returns the if or with that is the only node of a list.
func elseIf(list *parse.ListNode) *parse.BranchNode {
	if list == nil || len(list.Nodes) != 1 || list.Nodes[0].Type() == parse.NodeRange {
		return nil
	}
	return branchOf(list.Nodes[0])
}

func noFunction(name string, line, column int) report.Finding {
	return report.Finding{
		Severity: report.Error, Line: line, Column: column,
		Message: fmt.Sprintf("there is no function %q", name),
		Hint:    "the functions are " + strings.Join(Functions(), ", "),
	}
}

// Functions lists what a template can call, sorted.
func Functions() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(builtin)), maps.Keys(functions))
	slices.Sort(all)
	return all
}
