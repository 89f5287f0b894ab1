package ipxe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	// MaxTemplate bounds an operator's script, in bytes.
	MaxTemplate = 64 << 10
	// maxOutput bounds its output, in bytes.
	maxOutput = 1 << 20
	// usualValues is how much longer the output usually is than the script, in bytes.
	usualValues = 256
)

// Machine has the facts for an operator's script. Each value becomes one word: characters
// that could end a word or a line, or begin a variable, become underscores.
type Machine struct {
	// Host is the BareMetalHost's name, Hostname the machine's.
	Host, Namespace, Hostname string
	MAC, IP, UUID             string
	Labels                    map[string]string
	// Image is the ISCSICdrom, as namespace/name; "" where there is none.
	Image string
	// Server is this server's URL, without a slash at its end.
	Server string
	// Token is the token of the boot; "": the machine needs none.
	Token string
	// State is the machine's status.state.
	State string
	// These are reported by the machine itself.
	Platform, Arch, Serial, Asset, Manufacturer, Product string
	// Sanboot are the lines that boot the image: CHAP where it has that, and sanboot. Without an image they are Exit.
	Sanboot string
}

// escaped returns the machine with every value as one word, except Sanboot, which this
// package writes.
func (m Machine) escaped() Machine {
	for _, value := range []*string{
		&m.Host, &m.Namespace, &m.Hostname, &m.MAC, &m.IP, &m.UUID, &m.Image, &m.Server, &m.State,
		&m.Platform, &m.Arch, &m.Serial, &m.Asset, &m.Manufacturer, &m.Product,
	} {
		*value = escape(*value)
	}
	labels := make(map[string]string, len(m.Labels))
	for key, value := range m.Labels {
		labels[escape(key)] = escape(value)
	}
	m.Labels = labels
	return m
}

// allowedFunctions can neither build long values nor call methods.
var allowedFunctions = map[string]bool{
	"and": true, "or": true, "not": true, "eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true,
	"index": true, "len": true,
}

// Template is a checked operator's script.
type Template struct {
	template *template.Template
	size     int // of its source, in bytes
}

// ParseTemplate checks a Go text/template for an iPXE script. Its time is bounded: it
// ranges over .Labels alone, not within a range, and has no functions that build text. A
// trial run shows that it names only existing fields.
func ParseTemplate(source string) (*Template, error) {
	if len(source) > MaxTemplate {
		return nil, fmt.Errorf("the script has %d bytes, more than %d", len(source), MaxTemplate)
	}
	t, err := template.New("ipxe").Option("missingkey=zero").Parse(source)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("the script defines further templates: write it in one piece")
	}
	if t.Tree == nil || strings.TrimSpace(source) == "" {
		return nil, errors.New("the script is empty")
	}
	if err := check(false, t.Root); err != nil {
		return nil, err
	}
	parsed := &Template{t, len(source)}
	if _, err := parsed.Render(Machine{Labels: map[string]string{"role": "example"}}); err != nil {
		return nil, err
	}
	return parsed, nil
}

// checkAll refuses what a script may not use. ranging is true within a range.
func checkAll(ranging bool, nodes ...parse.Node) error {
	for _, node := range nodes {
		if err := check(ranging, node); err != nil {
			return err
		}
	}
	return nil
}

func check(ranging bool, node parse.Node) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			return checkAll(ranging, n.Nodes...)
		}
	case *parse.ActionNode:
		return check(ranging, n.Pipe)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			if err := checkAll(ranging, command.Args...); err != nil {
				return err
			}
		}
	case *parse.ChainNode:
		return check(ranging, n.Node)
	case *parse.IdentifierNode:
		if !allowedFunctions[n.Ident] {
			return fmt.Errorf("the function %s is not available in a boot script", n.Ident)
		}
	case *parse.IfNode:
		return checkAll(ranging, n.Pipe, n.List, n.ElseList)
	case *parse.WithNode:
		return checkAll(ranging, n.Pipe, n.List, n.ElseList)
	case *parse.RangeNode:
		if ranging || !namesLabels(n.Pipe) {
			return fmt.Errorf("line %d: a boot script ranges over .Labels alone, and not within a range", n.Line)
		}
		return checkAll(true, n.Pipe, n.List, n.ElseList)
	case *parse.TemplateNode:
		return fmt.Errorf("line %d: a boot script includes no templates", n.Line)
	}
	return nil
}

// namesLabels reports whether a pipeline is .Labels or $.Labels and nothing else.
func namesLabels(pipe *parse.PipeNode) bool {
	if len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 1 {
		return false
	}
	switch n := pipe.Cmds[0].Args[0].(type) {
	case *parse.FieldNode:
		return slices.Equal(n.Ident, []string{"Labels"})
	case *parse.VariableNode:
		return slices.Equal(n.Ident, []string{"$", "Labels"})
	}
	return false
}

// Render returns the script for a machine. It adds #!ipxe where the template does not
// begin with it.
func (t *Template) Render(m Machine) (string, error) {
	out := &bounded{}
	out.Grow(t.size + usualValues)
	if err := t.template.Execute(out, m.escaped()); err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	script := out.String()
	if !strings.HasPrefix(script, "#!ipxe") {
		script = header + script
	}
	if !strings.HasSuffix(script, "\n") {
		script += "\n"
	}
	return script, nil
}

// bounded is a buffer of at most maxOutput bytes.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("the script is longer than %d bytes", maxOutput)
	}
	return b.Builder.Write(p)
}
