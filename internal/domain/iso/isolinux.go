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
}

// label is an entry of an isolinux menu.
type label struct {
	kernel  *configLine
	appends []*configLine
	tool    bool
}

// editIsolinux changes the append lines of an isolinux or syslinux
// configuration. A Linux entry without one gets one.
func (c *editor) editIsolinux(dir string) {
	m := isolinuxMenu{editor: c, dir: dir}
	m.parse()
	for _, l := range m.labels {
		if l.kernel == nil || l.tool {
			continue
		}
		c.kernels++
		c.kernelPaths = append(c.kernelPaths, m.absolute(l.kernel.value))
		for _, line := range l.appends {
			m.editAppend(line)
		}
		if len(l.appends) > 0 {
			continue
		}
		c.leans = true
		if len(m.global) == 0 {
			c.insertLine(l.kernel, l.kernel.indent+"append")
		}
	}
	if c.leans {
		for _, line := range m.global {
			m.editAppend(line)
		}
	}
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
			current = &label{}
			m.labels = append(m.labels, current)
		case line.keyword == "initrd":
			m.initrdPaths = append(m.initrdPaths, m.absolute(line.value))
		case current != nil:
			current.add(line)
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
		}
	case "com32", "boot", "bss", "pxe", "fdimage", "localboot", "config":
		l.tool = true
	case "append":
		l.appends = append(l.appends, line)
	}
}

// editAppend changes an append line, and notes the initrds in it.
func (m *isolinuxMenu) editAppend(line *configLine) {
	words := m.words(line)
	for _, w := range words {
		if list, ok := strings.CutPrefix(w.text, "initrd="); ok {
			for p := range strings.SplitSeq(list, ",") {
				m.initrdPaths = append(m.initrdPaths, m.absolute(p))
			}
		}
	}
	if len(words) == 1 && words[0].text == "-" { // no arguments, not even the global ones
		m.changes = append(m.changes, splice{line.start, words[0].end, ""})
		words = nil
	}
	m.change(m.edit, words, line.start, unquoted)
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
		c.insertLine(linux, "options")
	}
	removal := edit{drop: slices.Clone(c.edit.drop)}
	for _, a := range c.edit.set {
		removal.drop = append(removal.drop, a.key())
	}
	for i, line := range options {
		do := &removal
		if i == len(options)-1 {
			do = c.edit
		}
		c.change(do, c.words(line), line.start, unquoted)
	}
}
