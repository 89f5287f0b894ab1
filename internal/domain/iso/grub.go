package iso

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// grubCommand is one command of a GRUB script.
type grubCommand []word

// grubCommands splits a script into its commands, as GRUB's lexer does.
// Variables stay as they are written.
func grubCommands(text string) ([]grubCommand, error) {
	var out []grubCommand
	var cmd grubCommand
	for i := 0; i < len(text); {
		if n, ends := grubSeparator(text[i:]); n > 0 {
			if ends && len(cmd) > 0 {
				out = append(out, cmd)
				cmd = nil
			}
			i += n
			continue
		}
		w, err := grubWord(text, i)
		if err != nil {
			return nil, err
		}
		i = w.end
		if len(cmd) > 0 || !grubReserved(text[w.start:w.end]) {
			cmd = append(cmd, w)
		}
	}
	if len(cmd) > 0 {
		out = append(out, cmd)
	}
	return out, nil
}

// grubSeparator returns the length of the separator or the comment that s begins with,
// 0 for a word, and reports whether it ends a command.
func grubSeparator(s string) (n int, ends bool) {
	switch c := s[0]; {
	case strings.IndexByte("\n;{}&|", c) >= 0:
		return 1, true
	case strings.IndexByte(" \t\r<>", c) >= 0:
		return 1, false
	case c == '#':
		if end := strings.IndexByte(s, '\n'); end >= 0 {
			return end, false
		}
		return len(s), false
	}
	return continuation(s), false
}

// continuation returns the length of the backslash and the line end that s begins
// with, 0 where it does not.
func continuation(s string) int {
	switch {
	case strings.HasPrefix(s, "\\\n"):
		return 2
	case strings.HasPrefix(s, "\\\r\n"):
		return 3
	}
	return 0
}

// grubReserved reports whether a command follows the word.
func grubReserved(w string) bool {
	switch w {
	case "if", "then", "else", "elif", "while", "until", "do", "!", "time":
		return true
	}
	return false
}

// grubWord reads the word at i, which ends before the next separator.
func grubWord(text string, i int) (word, error) {
	var b strings.Builder
	w := word{start: i}
	for i < len(text) && strings.IndexByte(" \t\r\n;{}&|<>", text[i]) < 0 {
		part, n, err := grubPart(text[i:])
		if err != nil {
			return w, err
		}
		b.WriteString(part)
		i += n
	}
	w.end, w.text = i, b.String()
	return w, nil
}

// grubPart returns the first part of a word (a quoted string, an escape, a variable or
// a plain character) without its quotes, and its length in s.
func grubPart(s string) (part string, n int, err error) {
	switch {
	case s[0] == '\'':
		end := strings.IndexByte(s[1:], '\'')
		if end < 0 {
			return "", 0, errUnclosed
		}
		return s[1 : 1+end], end + 2, nil
	case s[0] == '"':
		return grubDoubleQuoted(s)
	case continuation(s) > 0:
		return "", continuation(s), nil
	case s == `\`:
		return "", 0, errUnclosed
	case s[0] == '\\':
		return s[1:2], 2, nil
	case strings.HasPrefix(s, "${"):
		end := strings.IndexAny(s, "}\n")
		if end < 0 || s[end] == '\n' {
			return "", 0, errors.New("a ${ is not closed")
		}
		return s[:end+1], end + 1, nil
	}
	return s[:1], 1, nil
}

// grubDoubleQuoted returns the content of the string in double quotes that s begins
// with, and its length with the quotes.
func grubDoubleQuoted(s string) (content string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] == '"' {
			return b.String(), i + 1, nil
		}
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return "", 0, errUnclosed
}

// isTool reports whether a program boots like a kernel, but takes no kernel arguments.
func isTool(file string) bool {
	base := strings.ToLower(path.Base(file))
	for _, prefix := range []string{"memtest", "mt86plus", "memdisk", "hdt", "ipxe", "netboot.xyz"} {
		if strings.HasPrefix(base, prefix) {
			return true
		}
	}
	return strings.HasSuffix(base, ".lkrn")
}

// grubPath returns a path without the device and the variables before it.
func grubPath(p string) string {
	if i := strings.LastIndexAny(p, ")}"); i >= 0 {
		p = p[i+1:]
	}
	return p
}

// grubQuote quotes an argument so that GRUB passes it on unchanged. GRUB puts an
// argument with blanks into double quotes by itself, and a backslash before
// each quote and backslash, which a kernel does not undo.
func grubQuote(a argument) (string, error) {
	text := string(a)
	if key, value, _ := strings.Cut(text, "="); isQuoted(value) {
		text = key + "=" + value[1:len(value)-1]
	} else if isQuoted(text) {
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

func isQuoted(s string) bool { return len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' }
