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

// editIsolinux changes the append lines of an isolinux or syslinux
// configuration. A Linux entry without one gets one.
func editIsolinux(text string, e *edit, dir string) (outcome, error) {
	out := outcome{text: text}
	lines := configLines(text)
	var (
		global []*configLine
		labels []*label
		now    *label
		help   bool
	)
	for i := range lines {
		line := &lines[i]
		value := strings.TrimSpace(text[line.value:line.end])
		if help {
			help = line.keyword != "endtext"
			continue
		}
		switch line.keyword {
		case "text":
			help = strings.EqualFold(value, "help")
		case "label":
			now = &label{}
			labels = append(labels, now)
		case "kernel", "linux":
			if now != nil && value != "" {
				now.kernel = line
				now.tool = isTool(value) || line.keyword == "kernel" && isModule(value)
			}
		case "com32", "boot", "bss", "pxe", "fdimage", "localboot", "config":
			if now != nil {
				now.tool = true
			}
		case "append":
			if now != nil {
				now.appends = append(now.appends, line)
			} else {
				global = append(global, line)
			}
		case "initrd":
			out.initrdPaths = append(out.initrdPaths, relative(dir, value))
		}
	}
	out.defaults = len(global) > 0
	var changes []splice
	change := func(line *configLine) error {
		words, err := splitWords(text, line.value, line.end)
		if err != nil {
			return err
		}
		for _, w := range words {
			if list, ok := strings.CutPrefix(w.text, "initrd="); ok {
				for p := range strings.SplitSeq(list, ",") {
					out.initrdPaths = append(out.initrdPaths, relative(dir, p))
				}
			}
		}
		if len(words) == 1 && words[0].text == "-" { // nothing, not even the default
			changes = append(changes, splice{line.value, words[0].end, ""})
			words = nil
		}
		s, err := e.splices(words, line.value, plain)
		changes = append(changes, s...)
		return err
	}
	for _, l := range labels {
		if l.kernel == nil || l.tool {
			continue
		}
		out.kernels++
		out.kernelPaths = append(out.kernelPaths, relative(dir, strings.TrimSpace(text[l.kernel.value:l.kernel.end])))
		for _, line := range l.appends {
			if err := change(line); err != nil {
				return out, err
			}
		}
		if len(l.appends) == 0 {
			out.leans = true
			if len(global) == 0 && len(e.set) > 0 {
				s, err := e.splices(nil, l.kernel.end, plain)
				if err != nil {
					return out, err
				}
				indent := text[l.kernel.start : l.kernel.value-len(l.kernel.keyword)]
				changes = append(changes, splice{l.kernel.end, l.kernel.end, newline(text) + indent + "append" + s[0].text})
			}
		}
	}
	if out.leans {
		for _, line := range global {
			if err := change(line); err != nil {
				return out, err
			}
		}
	}
	out.text = apply(text, changes)
	return out, nil
}

// newline is how the lines of the file end.
func newline(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// isModule tells by the extension, as syslinux does, what is no Linux kernel.
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
