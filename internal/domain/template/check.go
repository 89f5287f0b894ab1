package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	text "text/template"
	"text/template/parse"

	"glowplug/internal/domain/report"
)

// walk calls visit for a node and all nodes below it; visit tells whether to go
// below.
func walk(node parse.Node, visit func(parse.Node) bool) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
	case *parse.PipeNode:
		if n == nil {
			return
		}
	}
	if node == nil || !visit(node) {
		return
	}
	branch := func(b *parse.BranchNode) {
		walk(b.Pipe, visit)
		walk(b.List, visit)
		walk(b.ElseList, visit)
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			walk(child, visit)
		}
	case *parse.ActionNode:
		walk(n.Pipe, visit)
	case *parse.PipeNode:
		for _, variable := range n.Decl {
			walk(variable, visit)
		}
		for _, command := range n.Cmds {
			for _, arg := range command.Args {
				walk(arg, visit)
			}
		}
	case *parse.ChainNode:
		walk(n.Node, visit)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.TemplateNode:
		walk(n.Pipe, visit)
	}
}

// restrict refuses what would cost too much, and functions that are not offered:
// text/template knows more than are given to it.
func restrict(source string, t *text.Template) report.Report {
	var found report.Report
	for _, part := range t.Templates() {
		if at := tooDeep(part.Root, 0); at >= 0 {
			line, column := report.Position([]byte(source), at)
			return report.Report{{
				Severity: report.Error, Line: line, Column: column,
				Message: fmt.Sprintf("actions are nested more than %d deep", maxDepth),
				Hint:    "write {{else if}} for an if in an else, and a {{define}} for what is repeated",
			}}
		}
		walk(part.Root, func(node parse.Node) bool {
			if id, ok := node.(*parse.IdentifierNode); ok && !builtin[id.Ident] && !functions[id.Ident].IsValid() {
				line, column := report.Position([]byte(source), int(id.Pos))
				found = append(found, noFunction(id.Ident, line, column))
			}
			return true
		})
	}
	if found == nil {
		return nil
	}
	return found.Tidy()
}

// tooDeep gives the offset of a block that is nested too deep, -1 where none is. An
// {{else if}} is an if in the else of another, and counts no deeper.
func tooDeep(body *parse.ListNode, depth int) int {
	if body == nil {
		return -1
	}
	for _, node := range body.Nodes {
		var b *parse.BranchNode
		switch n := node.(type) {
		case *parse.IfNode:
			b = &n.BranchNode
		case *parse.WithNode:
			b = &n.BranchNode
		case *parse.RangeNode:
			b = &n.BranchNode
		default:
			continue
		}
		if depth == maxDepth {
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

// elseIf gives the branch that a list is nothing but.
func elseIf(list *parse.ListNode) *parse.BranchNode {
	if list == nil || len(list.Nodes) != 1 {
		return nil
	}
	switch n := list.Nodes[0].(type) {
	case *parse.IfNode:
		return &n.BranchNode
	case *parse.WithNode:
		return &n.BranchNode
	}
	return nil
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
	all := slices.Collect(maps.Keys(builtin))
	all = slices.AppendSeq(all, maps.Keys(functions))
	slices.Sort(all)
	return all
}
