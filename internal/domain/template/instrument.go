package template

import (
	"fmt"
	"slices"
	text "text/template"
	"text/template/parse"
)

// instrument puts the meter in: what a body costs is charged where it begins, and
// what is compared or ranged over is weighed before.
func (t *Template) instrument() {
	t.named = map[string]bool{}
	for _, part := range t.parsed.Templates() {
		if part.Tree == nil || part.Root == nil {
			continue
		}
		scales, lookup := newScales(part.Tree), lookupCost(part.Root)
		walk(part.Root, func(node parse.Node) bool {
			switch n := node.(type) {
			case *parse.IdentifierNode:
				t.named[n.Ident] = true
			case *parse.PipeNode:
				scales.compared(n)
			case *parse.RangeNode:
				n.Pipe.Cmds = append(n.Pipe.Cmds, scales.command(n.Pipe.Cmds[len(n.Pipe.Cmds)-1].Pos))
				turn := stepCost + len(n.Pipe.Decl)*lookup // {{range $i, $x = …}} assigns
				n.List.Nodes = slices.Insert(n.List.Nodes, 0, charge(turn+cost(n.List, lookup), int(n.Pos)))
			}
			return true
		})
		at := 0
		if len(part.Root.Nodes) > 0 {
			at = int(part.Root.Nodes[0].Position())
		}
		call := callCost * (1 + loopsAroundCalls(part.Root))
		part.Root.Nodes = slices.Insert(part.Root.Nodes, 0, charge(call+cost(part.Root, lookup), at))
	}
}

// cost is what executing a body costs, without the bodies of loops in it; lookup is
// what looking for a variable does.
func cost(body *parse.ListNode, lookup int) int {
	total := 0
	var add func(parse.Node) bool
	add = func(node parse.Node) bool {
		total += stepCost
		switch n := node.(type) {
		case *parse.IdentifierNode:
			if builtin[n.Ident] {
				total += builtinCost
			}
		case *parse.VariableNode:
			total += lookup + stepCost*len(n.Ident)
		case *parse.FieldNode:
			total += stepCost * len(n.Ident)
		case *parse.ChainNode:
			total += stepCost * len(n.Field)
		case *parse.NumberNode: // its text is parsed each time
			total += len(n.Text)
		case *parse.RangeNode:
			walk(n.Pipe, add)
			walk(n.ElseList, add)
			return false
		}
		return true
	}
	walk(body, add)
	return total
}

// lookupCost is what looking for a variable costs at most: it is compared with all
// that are declared in the same definition.
func lookupCost(body *parse.ListNode) int {
	total := 0
	walk(body, func(node parse.Node) bool {
		if pipe, ok := node.(*parse.PipeNode); ok && !pipe.IsAssign {
			for _, variable := range pipe.Decl {
				total += 1 + len(variable.Ident[0])/16
			}
		}
		return true
	})
	return total
}

// loopsAroundCalls is the number of loops around a {{template}} in a body. An error
// takes the longer for each loop the more of them are open, and so a template that
// includes itself within loops pays for each.
func loopsAroundCalls(body *parse.ListNode) int {
	deepest := 0
	var within func(loops int) func(parse.Node) bool
	within = func(loops int) func(parse.Node) bool {
		return func(node parse.Node) bool {
			switch n := node.(type) {
			case *parse.TemplateNode:
				deepest = max(deepest, loops)
			case *parse.RangeNode:
				walk(n.List, within(loops+1))
				walk(n.ElseList, within(loops+1))
				return false
			}
			return true
		}
	}
	walk(body, within(0))
	return deepest
}

// compares are the functions of text/template that read all of what they are given.
var compares = map[string]bool{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true}

// scales make the nodes that weigh a value in a definition.
type scales struct {
	tree *parse.Tree
	pipe *parse.PipeNode // to be copied: the library makes pipelines by parsing alone
}

func newScales(of *parse.Tree) scales { return scales{of, snippet("{{" + weighName + "}}").Pipe} }

// command charges for a value and passes it on: the one that is given, else what
// comes through the pipe. An error is said to be at pos.
func (s scales) command(pos parse.Pos, value ...parse.Node) *parse.CommandNode {
	command := *s.pipe.Cmds[0]
	command.Args = append([]parse.Node{parse.NewIdentifier(weighName).SetPos(pos).SetTree(s.tree)}, value...)
	return &command
}

// compared puts a command before all that is compared in a pipeline.
func (s scales) compared(n *parse.PipeNode) {
	var commands []*parse.CommandNode
	for i, command := range n.Cmds {
		if name, ok := command.Args[0].(*parse.IdentifierNode); ok && compares[name.Ident] {
			for j, arg := range command.Args[1:] {
				switch arg.(type) {
				case *parse.NilNode, *parse.BoolNode, *parse.NumberNode: // weigh nothing
				default:
					pipe := *s.pipe
					pipe.Cmds = []*parse.CommandNode{s.command(name.Pos, arg)}
					command.Args[j+1] = &pipe
				}
			}
			if i > 0 { // the last is what comes through the pipe
				commands = append(commands, s.command(name.Pos))
			}
		}
		commands = append(commands, command)
	}
	n.Cmds = commands
}

// charge returns an action that counts cost when it runs. at is the offset, in the source, of the action that
// causes the cost.
func charge(cost, at int) parse.Node {
	return snippet(fmt.Sprintf("{{%s %d %d}}", chargeName, min(cost, budget+1), at))
}

// snippet parses one action. The library makes nodes in no other way.
func snippet(source string) *parse.ActionNode {
	return text.Must(text.New(name).Funcs(declared).Parse(source)).Root.Nodes[0].(*parse.ActionNode)
}
