package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	text "text/template"
	"text/template/parse"

	"glowplug/internal/domain/report"
)

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
