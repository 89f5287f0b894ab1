package iso

import (
	"path"
	"slices"
	"strings"
)

// configLine is a line of an isolinux or systemd-boot configuration.
type configLine struct {
	indent     string
	keyword    string // in lower case
	value      string // the text after the keyword, without blanks around it
	start, end int    // the range from behind the keyword to the end of the line
}

func configLines(text string) []*configLine {
	const blanks = " \t\r\n"
	var out []*configLine
	at := 0
	for raw := range strings.Lines(text) {
		line := strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
		rest := strings.TrimLeft(line, blanks)
		keyword := rest
		if i := strings.IndexAny(rest, blanks); i >= 0 {
			keyword = rest[:i]
		}
		indent := line[:len(line)-len(rest)]
		out = append(out, &configLine{
			indent: indent, keyword: strings.ToLower(keyword), value: strings.TrimSpace(rest[len(keyword):]),
			start: at + len(indent) + len(keyword), end: at + len(line),
		})
		at += len(raw)
	}
	return out
}

// isolinuxMenu is a configuration of isolinux or syslinux.
type isolinuxMenu struct {
	*editor
	dir string // of the configuration; relative paths start there
	// global are the append lines before the first label. They apply to the labels
	// that have none.
	global []*configLine
	labels []*label
	// commands are the command lines that isolinux runs without a choice.
	commands []*configLine
}

// label is an entry of an isolinux menu.
type label struct {
	name    string
	kernel  *configLine
	appends []*configLine
	tool    bool
	// multiboot is true if the entry starts mboot.c32, which loads Xen and its modules.
	multiboot bool
}

// editIsolinux changes the append lines of an isolinux or syslinux
// configuration. A Linux entry without one gets one.
func (c *editor) editIsolinux(dir string) {
	m := isolinuxMenu{editor: c, dir: dir}
	m.parse()
	for _, l := range m.labels {
		if l.multiboot {
			for _, line := range l.appends {
				m.editXen(line)
			}
		}
		if l.kernel == nil || l.tool {
			continue
		}
		c.kernels++
		c.kernelPaths = append(c.kernelPaths, m.absolute(l.kernel.value))
		for _, line := range l.appends {
			m.editAppend(line, l.kernel.value)
		}
		if len(l.appends) > 0 {
			continue
		}
		c.leans = true
		if len(m.global) == 0 {
			c.insertLine(l.kernel, l.kernel.indent+"append", l.kernel.value)
		}
	}
	for _, line := range m.commands {
		m.editCommand(line)
	}
	if c.leans {
		for _, line := range m.global {
			m.editAppend(line, m.longestKernel())
		}
	}
}

// editCommand changes a command line that names a kernel instead of a label. Isolinux adds
// the arguments of the global append lines to it.
func (m *isolinuxMenu) editCommand(line *configLine) {
	words := m.words(line)
	if len(words) == 0 || !m.isKernel(words[0].text) {
		return
	}
	m.kernels++
	m.kernelPaths = append(m.kernelPaths, m.absolute(words[0].text))
	m.findInitrds(words)
	m.leans = true
	do := m.edit
	if len(m.global) > 0 {
		do = m.edit.removal()
	}
	m.change(do, words[1:], words[0].end, unquoted, words[0].text)
}

// isKernel reports whether the first word of a command line is the file of a kernel. A word
// without a directory may be a label of another file, unless it is a usual name of a kernel.
func (m *isolinuxMenu) isKernel(name string) bool {
	if slices.ContainsFunc(m.labels, func(l *label) bool { return strings.EqualFold(l.name, name) }) {
		return false
	}
	return !isTool(name) && !isModule(name) && (strings.Contains(name, "/") || kindByName(name) == Kernel)
}

// editXen changes the arguments of the kernel that mboot.c32 loads as the first module of
// Xen. The hypervisor and its modules are separated by "---".
func (m *isolinuxMenu) editXen(line *configLine) {
	var modules [][]word
	rest := m.words(line)
	for len(rest) > 0 {
		end := slices.IndexFunc(rest, func(w word) bool { return w.text == "---" })
		if end < 0 {
			end = len(rest) - 1
			modules = append(modules, rest)
		} else {
			modules = append(modules, rest[:end])
		}
		rest = rest[end+1:]
	}
	if len(modules) < 2 || len(modules[0]) == 0 || len(modules[1]) == 0 || !isXen(modules[0][0].text) {
		return
	}
	kernel := modules[1]
	m.kernels++
	m.kernelPaths = append(m.kernelPaths, m.absolute(kernel[0].text))
	for _, module := range modules[2:] {
		if len(module) > 0 {
			m.initrdPaths = append(m.initrdPaths, m.absolute(module[0].text))
		}
	}
	m.change(m.edit, kernel[1:], kernel[0].end, unquoted, "")
}

// parse finds the labels, the append lines and the initrds.
func (m *isolinuxMenu) parse() {
	var current *label
	help := false // within a help text, which has no keywords
	for _, line := range configLines(m.text) {
		switch {
		case help:
			help = line.keyword != "endtext"
		case line.keyword == "text":
			help = strings.EqualFold(line.value, "help")
		case line.keyword == "label":
			current = &label{name: line.value}
			m.labels = append(m.labels, current)
		case line.keyword == "default" || line.keyword == "ontimeout":
			m.commands = append(m.commands, line)
		case line.keyword == "initrd":
			m.initrdPaths = append(m.initrdPaths, m.absolute(line.value))
		case current != nil:
			current.add(line)
			if current.tool {
				m.sawOther(line.keyword + " " + line.value)
			}
		case line.keyword == "append":
			m.global = append(m.global, line)
		}
	}
	m.defaults = len(m.global) > 0
}

// add adds a line to an entry.
func (l *label) add(line *configLine) {
	switch line.keyword {
	case "kernel", "linux":
		if line.value != "" {
			l.kernel = line
			l.tool = isTool(line.value) || line.keyword == "kernel" && isModule(line.value)
			l.multiboot = strings.EqualFold(path.Base(line.value), "mboot.c32")
		}
	case "com32", "boot", "bss", "pxe", "fdimage", "localboot", "config":
		l.tool = true
	case "append":
		l.appends = append(l.appends, line)
	}
}

// longestKernel returns the longest name of a kernel of the labels.
func (m *isolinuxMenu) longestKernel() (longest string) {
	for _, l := range m.labels {
		if l.kernel != nil && !l.tool && len(l.kernel.value) > len(longest) {
			longest = l.kernel.value
		}
	}
	return longest
}

// editAppend changes an append line of a kernel, and notes the initrds in it.
func (m *isolinuxMenu) editAppend(line *configLine, kernel string) {
	words := m.words(line)
	m.findInitrds(words)
	if len(words) == 1 && words[0].text == "-" { // no arguments, not even the global ones
		m.changes = append(m.changes, splice{line.start, words[0].end, ""})
		words = nil
	}
	m.change(m.edit, words, line.start, unquoted, kernel)
}

// findInitrds notes the initrds among the arguments of a kernel.
func (m *isolinuxMenu) findInitrds(words []word) {
	for _, w := range words {
		if list, ok := strings.CutPrefix(w.text, "initrd="); ok {
			for p := range strings.SplitSeq(list, ",") {
				m.initrdPaths = append(m.initrdPaths, m.absolute(p))
			}
		}
	}
}

// isModule reports whether the extension of a file, by which syslinux decides, is not
// that of a Linux kernel.
func isModule(file string) bool {
	file, _, _ = strings.Cut(file, " ")
	switch strings.ToLower(path.Ext(file)) {
	case ".c32", ".com", ".cbt", ".0", ".bin", ".bs", ".bss", ".img":
		return true
	}
	return false
}

// absolute resolves a path that may be relative to the configuration.
func (m *isolinuxMenu) absolute(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return path.Join(m.dir, p)
}

// editEntry changes the options of a systemd-boot entry. Its options lines
// make one command line together; new arguments go to the last.
func (c *editor) editEntry() {
	var linux *configLine
	var options []*configLine
	for _, line := range configLines(c.text) {
		switch line.keyword {
		case "linux":
			linux = line
			c.kernelPaths = append(c.kernelPaths, line.value)
		case "initrd":
			c.initrdPaths = append(c.initrdPaths, line.value)
		case "options":
			options = append(options, line)
		}
	}
	if linux == nil {
		return
	}
	c.kernels = 1
	if len(options) == 0 {
		c.insertLine(linux, "options", "")
	}
	for i, line := range options {
		do := c.edit.removal()
		if i == len(options)-1 {
			do = c.edit
		}
		c.change(do, c.words(line), line.start, unquoted, "")
	}
}
