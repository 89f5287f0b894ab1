package iso

import (
	"path"
	"strings"
)

// grubScript is a GRUB script that is edited.
type grubScript struct {
	*editor
	// variables have the kind of file that a command loads, of each variable that the script
	// sets to the name of such a command.
	variables map[string]string
	// xen is the next module of the Xen hypervisor that the script loads, noModule: none.
	xen xenModule
}

// xenModule is a module of the Xen hypervisor: the first one is the kernel of its first
// domain, the second the initial RAM disk of that kernel.
type xenModule uint8

const (
	noModule xenModule = iota
	xenKernel
	xenInitrd
)

// editGRUB changes the command lines of a GRUB script.
func (c *editor) editGRUB() {
	commands, err := grubCommands(c.text)
	if err != nil && strings.Contains(c.text, "linux") {
		c.err = err
	}
	if err != nil {
		return // else no script of GRUB's
	}
	g := grubScript{editor: c, variables: loadingVariables(commands)}
	for _, cmd := range commands {
		g.command(cmd)
	}
}

// loadingVariables finds "set NAME=COMMAND" and "NAME=COMMAND" of commands that load a
// kernel or an initial RAM disk.
func loadingVariables(commands []grubCommand) map[string]string {
	found := map[string]string{}
	for _, cmd := range commands {
		if cmd[0].text == "set" {
			cmd = cmd[1:]
		}
		if len(cmd) != 1 {
			continue
		}
		name, value, _ := strings.Cut(cmd[0].text, "=")
		if kind := kindByCommand(value); kind != "" {
			found[name] = kind
		}
	}
	return found
}

// command edits one command.
func (g *grubScript) command(cmd grubCommand) {
	name, args := cmd[0].text, cmd[1:]
	for len(args) > 0 && strings.HasPrefix(args[0].text, "--") {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	file := args[0].text
	switch kind := g.kind(name, file); {
	case kind == Kernel && isTool(file):
	case kind == Kernel:
		g.kernels++
		g.kernelPaths = append(g.kernelPaths, grubPath(file))
		named := file
		if g.xen != noModule && strings.Contains(name, "module") { // Xen's kernel is given its arguments alone
			named = ""
		}
		g.change(g.edit, args[1:], args[0].end, grubQuote, named)
	case kind == Initrd:
		for _, w := range args {
			g.initrdPaths = append(g.initrdPaths, grubPath(w.text))
		}
	case name == "menuentry":
		g.xen = noModule
	case strings.HasPrefix(name, "multiboot") || name == "xen_hypervisor":
		g.multiboot(name, file)
	case name == "chainloader":
		g.sawOther(name + " " + file)
	}
}

// multiboot takes a command that loads a kernel of the multiboot protocol, which can be Xen.
func (g *grubScript) multiboot(name, file string) {
	g.xen = noModule
	if isXen(grubPath(file)) {
		g.xen = xenKernel
	}
	g.sawOther(name + " " + file)
}

// kind returns the kind of the file that a command loads, "" for other commands.
func (g *grubScript) kind(name, file string) string {
	if kind := kindByCommand(name); kind != "" {
		return kind
	}
	if strings.HasPrefix(name, "$") {
		kind, ok := g.variables[strings.Trim(name, "${}")]
		if !ok { // another file may set the variable
			kind = kindByName(grubPath(file))
		}
		return kind
	}
	if g.xen != noModule && (strings.HasPrefix(name, "module") || name == "xen_module") {
		kind := map[xenModule]string{xenKernel: Kernel, xenInitrd: Initrd}[g.xen]
		g.xen = xenInitrd
		return kind
	}
	return ""
}

// kindByCommand returns the kind of the file that a command loads, "" for other commands:
// linux, linux16, linuxefi, initrd and so on, and the variables with such names through
// which scripts select one of them.
func kindByCommand(name string) string {
	name = strings.Trim(name, "${}")
	if strings.HasPrefix(name, "initrd") {
		return Initrd
	}
	rest, ok := strings.CutPrefix(name, "linux")
	if !ok {
		return ""
	}
	switch rest {
	case "", "16", "efi", "_cmd", "cmd":
		return Kernel
	}
	if strings.HasPrefix(rest, "$") {
		return Kernel
	}
	return ""
}

// isXen reports whether a file is the Xen hypervisor.
func isXen(file string) bool { return strings.HasPrefix(strings.ToLower(path.Base(file)), "xen") }
