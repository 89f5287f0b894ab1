package iso

import (
	"path"
	"strings"
)

// configLine is a line of an isolinux or systemd-boot configuration.
type configLine struct {
	keyword    string // in lower case
	start, end int    // the whole line, without its end
	value      int    // where what follows the keyword starts
}

func configLines(text string) []configLine {
	var out []configLine
	for at := 0; at < len(text); {
		end := at + strings.IndexByte(text[at:], '\n')
		next := end + 1
		if end < at {
			end, next = len(text), len(text)
		}
		if end > at && text[end-1] == '\r' {
			end--
		}
		line := configLine{start: at, end: end}
		for at < end && isBlank(text[at]) {
			at++
		}
		word := at
		for at < end && !isBlank(text[at]) {
			at++
		}
		line.keyword, line.value = strings.ToLower(text[word:at]), at
		out = append(out, line)
		at = next
	}
	return out
}

// label is an entry of an isolinux menu.
type label struct {
	kernel  *configLine
	appends []*configLine
	tool    bool
}

// isolinuxMenu is a configuration of isolinux or syslinux.
type isolinuxMenu struct {
	text string
	dir  string // of the configuration; relative paths start there
	// global are the append lines before the first label. They apply to the labels
	// that have none.
	global []*configLine
	labels []*label
	out    outcome
}

// editIsolinux changes the append lines of an isolinux or syslinux
// configuration. A Linux entry without one gets one.
func editIsolinux(text string, e *edit, dir string) (outcome, error) {
	c := &isolinuxMenu{text: text, dir: dir, out: outcome{text: text}}
	c.parse()
	var changes []splice
	for _, l := range c.labels {
		if l.kernel == nil || l.tool {
			continue
		}
		s, err := c.editLabel(l, e)
		if err != nil {
			return c.out, err
		}
		changes = append(changes, s...)
	}
	if c.out.leans {
		for _, line := range c.global {
			s, err := c.editAppend(line, e)
			if err != nil {
				return c.out, err
			}
			changes = append(changes, s...)
		}
	}
	c.out.text = apply(text, changes)
	return c.out, nil
}

// parse finds the labels, the append lines and the initrds.
func (c *isolinuxMenu) parse() {
	lines := configLines(c.text)
	var current *label
	help := false // within a help text, which has no keywords
	for i := range lines {
		line := &lines[i]
		value := strings.TrimSpace(c.text[line.value:line.end])
		switch {
		case help:
			help = line.keyword != "endtext"
		case line.keyword == "text":
			help = strings.EqualFold(value, "help")
		case line.keyword == "label":
			current = &label{}
			c.labels = append(c.labels, current)
		case line.keyword == "initrd":
			c.out.initrdPaths = append(c.out.initrdPaths, relative(c.dir, value))
		case current != nil:
			current.add(line, value)
		case line.keyword == "append":
			c.global = append(c.global, line)
		}
	}
	c.out.defaults = len(c.global) > 0
}

// add adds a line to an entry.
func (l *label) add(line *configLine, value string) {
	switch line.keyword {
	case "kernel", "linux":
		if value != "" {
			l.kernel = line
			l.tool = isTool(value) || line.keyword == "kernel" && isModule(value)
		}
	case "com32", "boot", "bss", "pxe", "fdimage", "localboot", "config":
		l.tool = true
	case "append":
		l.appends = append(l.appends, line)
	}
}

// editLabel returns the changes of a Linux entry.
func (c *isolinuxMenu) editLabel(l *label, e *edit) ([]splice, error) {
	c.out.kernels++
	kernel := strings.TrimSpace(c.text[l.kernel.value:l.kernel.end])
	c.out.kernelPaths = append(c.out.kernelPaths, relative(c.dir, kernel))
	var changes []splice
	for _, line := range l.appends {
		s, err := c.editAppend(line, e)
		if err != nil {
			return nil, err
		}
		changes = append(changes, s...)
	}
	if len(l.appends) > 0 {
		return changes, nil
	}
	c.out.leans = true
	if len(c.global) > 0 || len(e.set) == 0 {
		return nil, nil
	}
	s, err := e.splices(nil, l.kernel.end, plain)
	if err != nil {
		return nil, err
	}
	indent := c.text[l.kernel.start : l.kernel.value-len(l.kernel.keyword)]
	return []splice{{l.kernel.end, l.kernel.end, newline(c.text) + indent + "append" + s[0].text}}, nil
}

// editAppend returns the changes of an append line, and notes the initrds in it.
func (c *isolinuxMenu) editAppend(line *configLine, e *edit) ([]splice, error) {
	words, err := splitWords(c.text, line.value, line.end)
	if err != nil {
		return nil, err
	}
	for _, w := range words {
		if list, ok := strings.CutPrefix(w.text, "initrd="); ok {
			for p := range strings.SplitSeq(list, ",") {
				c.out.initrdPaths = append(c.out.initrdPaths, relative(c.dir, p))
			}
		}
	}
	var changes []splice
	if len(words) == 1 && words[0].text == "-" { // no arguments, not even the global ones
		changes = append(changes, splice{line.value, words[0].end, ""})
		words = nil
	}
	s, err := e.splices(words, line.value, plain)
	return append(changes, s...), err
}

// newline returns the line ending of a file.
func newline(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
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

// relative resolves a path that may be relative to its configuration.
func relative(dir, p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return path.Join(dir, p)
}

// editEntry changes the options of a systemd-boot entry. Its options lines
// make one command line together; new arguments go to the last.
func editEntry(text string, e *edit) (outcome, error) {
	out := outcome{text: text}
	var linux *configLine
	var options []configLine
	lines := configLines(text)
	for i, line := range lines {
		value := strings.TrimSpace(text[line.value:line.end])
		switch line.keyword {
		case "linux":
			linux = &lines[i]
			out.kernelPaths = append(out.kernelPaths, value)
		case "initrd":
			out.initrdPaths = append(out.initrdPaths, value)
		case "options":
			options = append(options, line)
		}
	}
	if linux == nil {
		return out, nil
	}
	out.kernels = 1
	var changes []splice
	if len(options) == 0 {
		s, err := e.splices(nil, linux.end, plain)
		if err != nil || len(s) == 0 {
			return out, err
		}
		changes = append(changes, splice{linux.end, linux.end, newline(text) + "options" + s[0].text})
	}
	removal := edit{drop: e.drop}
	for _, a := range e.set {
		removal.drop = append(removal.drop[:len(removal.drop):len(removal.drop)], a.key())
	}
	for i, line := range options {
		do := &removal
		if i == len(options)-1 {
			do = e
		}
		words, err := splitWords(text, line.value, line.end)
		if err != nil {
			return out, err
		}
		s, err := do.splices(words, line.value, plain)
		if err != nil {
			return out, err
		}
		changes = append(changes, s...)
	}
	out.text = apply(text, changes)
	return out, nil
}
