package template

import (
	"errors"
	"fmt"
	"slices"
	"text/template/parse"

	"glowplug/internal/domain/report"
)

// execution is a rendering that has failed.
type execution struct {
	facts *Facts
	data  map[string]any
	// left is the rest of its budget.
	left int
}

// absent is index's error of a key that a map does not have.
type absent struct {
	in  any
	key string
	// position is that of the key among the keys.
	position int
}

func (a *absent) Error() string { return fmt.Sprintf("map has no entry for key %q", a.key) }

// lookup is a key that a map does not have.
type lookup struct {
	key string
	// context is the expression that failed.
	context string
	// in is the map, and of the expression that the author wrote for it, such as "$.Labels";
	// both are empty where they are not known.
	in map[string]any
	of string
	// data is what the template was given; isRoot is true where $ is that.
	data   map[string]any
	isRoot bool
}

// missing says in a finding which key is missing, and where.
func (t *Template) missing(f *report.Finding, err error, key, context string, failed *execution) {
	l := &lookup{key: key, context: context, data: failed.data}
	defer func() { l.describe(f) }()
	var gone *absent
	isCall := errors.As(err, &gone)
	if isCall {
		l.key = gone.key
		l.in, _ = gone.in.(map[string]any)
	}
	parsed, err := parseSource(t.source)
	if err != nil {
		return
	}
	written := &Template{source: t.source, parsed: parsed}
	start, _ := lineOf(t.source, f.Line)
	at := written.placeOf(start+f.Column-1, key, isCall)
	if at == nil {
		return
	}
	l.isRoot = at.isRoot
	if isCall {
		l.of, l.context = indexed(at.command, gone.position), at.command.String()
		return
	}
	f.Line, f.Column = report.Position([]byte(t.source), int(at.node.Position()))
	l.context = expression(at.node)
	if failed.left >= budget/2 { // both renderings are within one budget
		l.follow(written, at, failed.facts)
	}
}

// place is where the template as it was written looks for a key.
type place struct {
	command *parse.CommandNode
	// node is the argument: the fields of base.
	node, base parse.Node
	fields     []string
	isRoot     bool
}

// placeOf finds the lookup of a key from the offset of what was executed last: a call of
// index, or else a field. It is nil where there is none.
func (t *Template) placeOf(at int, key string, isCall bool) (found *place) {
	t.arguments(func(command *parse.CommandNode, i int, isRoot bool) {
		p := &place{command: command, node: command.Args[i], isRoot: isRoot}
		isHere := int(p.node.Position()) == at
		switch n := p.node.(type) {
		case *parse.IdentifierNode:
			if isHere && isCall && i == 0 {
				found = p
			}
			return
		case *parse.FieldNode:
			p.base, p.fields = &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}, n.Ident
		case *parse.VariableNode:
			p.base, p.fields = &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: n.Ident[:1]}, n.Ident[1:]
		case *parse.ChainNode: // of (…).Field the parentheses are executed last
			p.base, p.fields = n.Node, n.Field
			isHere = int(n.Node.Position()) <= at && at < int(n.Pos)
		}
		if isHere && !isCall && slices.Contains(p.fields, key) { // of several the innermost is the last
			found = p
		}
	})
	return found
}

// follow finds the map without the key among the fields at a place.
func (l *lookup) follow(t *Template, at *place, facts *Facts) {
	of := expression(at.base)
	var value any
	value, l.data = t.valueOf(at, facts)
	for _, field := range at.fields {
		in, _ := value.(map[string]any)
		next, found := in[field]
		if !found {
			l.in, l.of = in, of
			return
		}
		value, of = next, join(of, field)
	}
}

// valueOf renders a template once more, which fails at the same place, and returns the last
// value that the base had there, and what the template was given.
func (t *Template) valueOf(at *place, facts *Facts) (value any, data map[string]any) {
	t.instrument()
	t.arguments(func(command *parse.CommandNode, i int, _ bool) {
		if command.Args[i] == at.node {
			pipe := snippet("{{" + probeName + "}}").Pipe
			pipe.Cmds[0].Args = append(pipe.Cmds[0].Args, at.base)
			command.Args[i] = &parse.ChainNode{
				NodeType: parse.NodeChain, Pos: at.node.Position(), Node: pipe, Field: at.fields,
			}
		}
	})
	functions := (&meter{left: budget, secret: facts.secret()}).functions(t)
	functions[probeName] = func(v any) any {
		value = v
		return v
	}
	data = facts.data()
	_ = t.parsed.Funcs(functions).Execute(&output{}, data) // it fails as before
	return value, data
}

// indexed is the expression of the value in which a call of index looks for a key.
func indexed(call *parse.CommandNode, position int) string {
	if len(call.Args) < position+2 {
		return ""
	}
	if position == 0 {
		return expression(call.Args[1])
	}
	text := "(index"
	for _, arg := range call.Args[1 : position+2] {
		text += " " + expression(arg)
	}
	return text + ")"
}

// arguments visits the arguments of all commands; isRoot is true outside of definitions,
// where $ is what the template is given.
func (t *Template) arguments(visit func(command *parse.CommandNode, i int, isRoot bool)) {
	for _, part := range t.parsed.Templates() {
		if part.Tree == nil {
			continue
		}
		walk(part.Root, func(node parse.Node) bool {
			if pipe, ok := node.(*parse.PipeNode); ok {
				for _, command := range pipe.Cmds {
					for i := range command.Args {
						visit(command, i, part.Name() == name)
					}
				}
			}
			return true
		})
	}
}

// expression is a node as it is written as an argument.
func expression(node parse.Node) string {
	if pipe, ok := node.(*parse.PipeNode); ok {
		return "(" + pipe.String() + ")"
	}
	return node.String()
}
