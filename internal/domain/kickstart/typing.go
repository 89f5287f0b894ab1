package kickstart

import (
	"fmt"
	"slices"
	"strings"
)

// scripts are the sections that are run.
var scripts = []string{"%pre", "%pre-install", "%post", "%onerror", "%traceback"}

// lineEnd checks the end of a line. One warning is about the whole kickstart.
func (c *checker) lineEnd(number int, line string) {
	if !strings.HasSuffix(line, "\r") {
		return
	}
	if c.carriage == 0 {
		c.carriage = number
	}
	if c.inScript != "" || !slices.Contains(scripts, c.open) {
		return
	}
	c.inScript, c.carriage = c.open, number
	if path, ok := strings.CutPrefix(line, "#!"); ok {
		c.interpreter = strings.TrimSpace(path)
	}
}

// warnOfLineEnds adds the warning of lines that end with CR LF.
func (c *checker) warnOfLineEnds() {
	const hint = "write the file with LF alone: dos2unix FILE"
	switch {
	case c.carriage == 0:
	case c.interpreter != "":
		c.warn(c.carriage, fmt.Sprintf(`the lines of %s end with CR LF: the script interpreter becomes "%.60s\r", `+
			"which does not exist, and the script fails", c.inScript, c.interpreter), hint)
	case c.inScript != "":
		c.warn(c.carriage, fmt.Sprintf("the lines of %s end with CR LF: each command of the script gets a carriage "+
			"return at its end, and fails", c.inScript), hint)
	default:
		c.warn(c.carriage, "the lines end with CR LF: a script in the kickstart would fail", hint)
	}
}

// typographic are characters that word processors write in place of quotes and dashes.
const typographic = "“”„‟‘’‚‛«»–—"

// checkTyping warns of typographic quotes and dashes outside of quotes, which the installer takes for letters.
func (c *checker) checkTyping(number int, line string) {
	if !strings.ContainsAny(line, typographic) {
		return
	}
	quote, escaped := rune(0), false
	for i, r := range line {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '#':
			return
		case isDash(r):
			if i == 0 || strings.IndexByte(blanks, line[i-1]) >= 0 {
				c.add(number, fault{i + 1, fmt.Sprintf("%c is a typographic dash, and begins no option", r), "write --"})
				return
			}
		case strings.ContainsRune(typographic, r):
			c.add(number, fault{i + 1, fmt.Sprintf("%c is a typographic quote, and quotes nothing", r), `write " or '`})
			return
		}
	}
}

// declaredVersion returns the version that the first line of a kickstart names, as "#version=RHEL9", with that
// line; "": it names none, or the newest. unknown is a name that is no version.
func declaredVersion(source []byte) (name, unknown string) {
	first, _, _ := strings.Cut(string(source[:min(len(source), maxFirstLine)]), "\n")
	given, ok := strings.CutPrefix(strings.TrimSpace(first), "#version=")
	if given = strings.TrimSpace(given); !ok || given == "" || given == development {
		return "", ""
	}
	major, _, _ := strings.Cut(given, ".")
	if _, known := find(major); known {
		return major, ""
	}
	return "", given
}

const (
	// development is the name of the version that is the newest.
	development  = "DEVEL"
	maxFirstLine = 200
)

// isDash reports whether a program for texts puts this character in the place of two hyphens.
func isDash(r rune) bool { return r == '–' || r == '—' }
