package iso

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// outcome is what came of a boot configuration.
type outcome struct {
	text string
	// kernels counts the command lines of Linux kernels that it has.
	kernels int
	// kernelPaths and initrdPaths are the files that it loads.
	kernelPaths, initrdPaths []string
	// defaults tells that it sets arguments for entries of other files too.
	defaults bool
	// leans tells that an entry takes its arguments from such defaults.
	leans bool
}

// grubCommand is one command of a GRUB script.
type grubCommand []word

// grubCommands splits a script into its commands, as GRUB's lexer does.
// Variables stay as they are written.
func grubCommands(text string) ([]grubCommand, error) {
	var (
		out []grubCommand
		cmd grubCommand
	)
	flush := func() {
		if len(cmd) > 0 {
			out = append(out, cmd)
			cmd = nil
		}
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n' || strings.IndexByte(";{}&|", c) >= 0:
			flush()
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '<' || c == '>':
			i++
		case c == '\\' && continuation(text[i:]) > 0:
			i += continuation(text[i:])
		case c == '#':
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				n = len(text) - i
			}
			i += n
		default:
			w, err := grubWord(text, i)
			if err != nil {
				return nil, err
			}
			i = w.end
			if len(cmd) == 0 && grubReserved(text[w.start:w.end]) {
				continue
			}
			cmd = append(cmd, w)
		}
	}
	flush()
	return out, nil
}

// continuation gives the length of a backslash and the line end after it.
func continuation(s string) int {
	switch {
	case strings.HasPrefix(s, "\\\n"):
		return 2
	case strings.HasPrefix(s, "\\\r\n"):
		return 3
	}
	return 0
}

// grubReserved tells the words after which a command follows.
func grubReserved(w string) bool {
	switch w {
	case "if", "then", "else", "elif", "while", "until", "do", "!", "time":
		return true
	}
	return false
}

// grubWord reads the word at i.
func grubWord(text string, i int) (word, error) {
	var b strings.Builder
	w := word{start: i}
	for i < len(text) {
		c := text[i]
		switch {
		case c == '\'':
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				return w, errUnclosed
			}
			b.WriteString(text[i+1 : i+1+n])
			i += n + 2
		case c == '"':
			for i++; ; i++ {
				if i >= len(text) {
					return w, errUnclosed
				}
				if text[i] == '"' {
					i++
					break
				}
				if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$\n", text[i+1]) >= 0 {
					if i++; text[i] == '\n' {
						continue
					}
				}
				b.WriteByte(text[i])
			}
		case c == '\\':
			if n := continuation(text[i:]); n > 0 {
				i += n
				continue
			}
			if i+1 == len(text) {
				return w, errUnclosed
			}
			b.WriteByte(text[i+1])
			i += 2
		case c == '$' && strings.HasPrefix(text[i:], "${"):
			n := strings.IndexAny(text[i:], "}\n")
			if n < 0 || text[i+n] == '\n' {
				return w, errors.New("a ${ is not closed")
			}
			b.WriteString(text[i : i+n+1])
			i += n + 1
		case strings.IndexByte(" \t\r\n;{}&|<>", c) >= 0:
			w.end, w.text = i, b.String()
			return w, nil
		default:
			b.WriteByte(c)
			i++
		}
	}
	w.end, w.text = i, b.String()
	return w, nil
}

// editGRUB changes the command lines of a GRUB script.
func editGRUB(text string, e *edit) (outcome, error) {
	out := outcome{text: text}
	commands, err := grubCommands(text)
	if err != nil {
		if !strings.Contains(text, "linux") {
			return out, nil // no script of GRUB's
		}
		return out, err
	}
	var changes []splice
	for _, cmd := range commands {
		switch name := cmd[0].text; {
		case isLinuxCommand(name):
			kernel := 1
			for kernel < len(cmd) && strings.HasPrefix(cmd[kernel].text, "--") {
				kernel++
			}
			if kernel >= len(cmd) || isTool(cmd[kernel].text) {
				continue
			}
			out.kernels++
			out.kernelPaths = append(out.kernelPaths, grubPath(cmd[kernel].text))
			s, err := e.splices(cmd[kernel+1:], cmd[kernel].end, grubQuote)
			if err != nil {
				return out, err
			}
			changes = append(changes, s...)
		case strings.HasPrefix(strings.TrimLeft(name, "${"), "initrd"):
			for _, w := range cmd[1:] {
				out.initrdPaths = append(out.initrdPaths, grubPath(w.text))
			}
		}
	}
	out.text = apply(text, changes)
	return out, nil
}

// isLinuxCommand tells the commands that load a Linux kernel: linux, linux16,
// linuxefi, and the variables that scripts choose one of them by.
func isLinuxCommand(name string) bool {
	name = strings.Trim(name, "${}")
	rest, ok := strings.CutPrefix(name, "linux")
	if !ok {
		return false
	}
	switch rest {
	case "", "16", "efi", "_cmd", "cmd":
		return true
	}
	return strings.HasPrefix(rest, "$")
}

// isTool tells programs that boot like a kernel and take no kernel arguments.
func isTool(file string) bool {
	base := strings.ToLower(path.Base(file))
	for _, prefix := range []string{"memtest", "mt86plus", "memdisk", "hdt", "ipxe", "netboot.xyz"} {
		if strings.HasPrefix(base, prefix) {
			return true
		}
	}
	return strings.HasSuffix(base, ".lkrn")
}

// grubPath takes the device and the variables from before a path.
func grubPath(p string) string {
	if i := strings.LastIndexAny(p, ")}"); i >= 0 {
		p = p[i+1:]
	}
	return p
}

// grubQuote writes an argument so that GRUB hands it on as it is. GRUB puts an
// argument with blanks into double quotes by itself, and a backslash before
// each quote and backslash, which a kernel does not undo.
func grubQuote(a argument) (string, error) {
	text := string(a)
	if key, value, ok := strings.Cut(text, "="); ok && len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		text = key + "=" + value[1:len(value)-1]
	} else if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if strings.ContainsAny(text, `"'\`) {
		return "", fmt.Errorf("GRUB cannot hand on the kernel argument %s: it has a quote or a backslash", a)
	}
	if strings.ContainsAny(text, " \t;{}&|<>$") || strings.HasPrefix(text, "#") {
		return "'" + text + "'", nil
	}
	return text, nil
}
