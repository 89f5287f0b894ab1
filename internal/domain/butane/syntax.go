package butane

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"glowplug/internal/domain/report"
)

// yamlLine finds the position in the messages of the YAML library.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:)?\s*line (\d+): (.*)$`)

// The YAML library counts lines from 0 where its grammar fails, and from 1
// elsewhere; it leaves the first line out.
var (
	grammar = regexp.MustCompile(
		`^(?:did not find expected (?:<document start>|node content|'-' indicator|key|',' or '[\]}]')|found undefined tag handle|found duplicate %(?:YAML|TAG) directive|found incompatible YAML document)$`)
	lexical = regexp.MustCompile(
		`^(?:did not find|could not find|found |mapping values are not allowed|block sequence entries are not allowed)`)
)

// yamlErrors splits an error of the YAML library, which may hold several lines.
func yamlErrors(source []byte, err error) report.Report {
	var r report.Report
	lines := strings.Split(string(source), "\n")
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "Error unmarshaling yaml: ")) {
		line = strings.TrimSpace(line)
		f := report.Finding{Severity: report.Error, Message: strings.TrimPrefix(line, "yaml: ")}
		if m := yamlLine.FindStringSubmatch(line); m != nil {
			f.Line, _ = strconv.Atoi(m[1])
			f.Message = m[2]
		}
		if f.Message == "unmarshal errors:" || f.Message == "" {
			continue
		}
		switch {
		case grammar.MatchString(f.Message):
			f.Line++
		case f.Line == 0 && lexical.MatchString(f.Message):
			f.Line = 1
		}
		explainSyntax(&f, lines)
		f.Message = reworded(f.Message)
		if f.Column == 0 {
			f.Column = columnOf(lines, f.Line)
		}
		r = append(r, f)
	}
	if len(r) == 0 {
		return report.Report{report.ErrorAt(source, 0, "the YAML cannot be read", "")}
	}
	return r
}

// columnOf returns the column of the first word of a line; 0 for a line that the source
// does not have.
func columnOf(lines []string, line int) int {
	if line < 1 || line > len(lines) {
		return 0
	}
	return keyOffset(lines[line-1]) + 1
}

// explainSyntax adds what the mistake behind a message of the YAML library mostly is.
func explainSyntax(f *report.Finding, lines []string) {
	switch message := f.Message; {
	case strings.Contains(message, "found character that cannot start any token"):
		f.Hint = TabHint
	case strings.HasPrefix(message, "found a tab character"):
		// The library names the line of the value before the tab.
		f.Hint = TabHint
		if line := tabbed(lines, f.Line); line > 0 {
			f.Line, f.Column = line, strings.IndexByte(lines[line-1], '\t')+1
		}
	case message == "did not find expected key" || message == "did not find expected '-' indicator":
		// The library names the line where the mapping or list begins.
		if line, message, hint := misplaced(lines); line > 0 {
			f.Line, f.Column = line, indentOf(lines[line-1])+1
			f.Message, f.Hint = message, hint
		}
	case strings.HasPrefix(message, "mapping values are not allowed"):
		f.Hint = `a text that contains ": " is quoted`
		if deeper := besideValue(lines, f.Line); deeper > 0 {
			f.Hint = "the line above has a value already; if this line belongs beside it, indent it by " +
				spaces(deeper) + " less"
		}
	case message == "could not find expected ':'":
		f.Hint = "the line has no key; the lines of a text after | are indented deeper than its key"
	}
}

// withoutValue finds a key that has no value on its own line.
var withoutValue = regexp.MustCompile(`:\s*([#|>&!].*)?$`)

// besideValue returns how many spaces deeper a line is indented than the key of the line
// above it, if that has a value on its line; else 0. Blank lines and comments do not count.
func besideValue(lines []string, line int) int {
	if line > len(lines) {
		return 0
	}
	for i := line - 2; i >= 0; i-- {
		above := strings.TrimSpace(lines[i])
		if above == "" || above[0] == '#' {
			continue
		}
		if withoutValue.MatchString(above) {
			return 0
		}
		return max(0, indentOf(lines[line-1])-keyOffset(lines[i]))
	}
	return 0
}

// TabHint is the hint for a line that is indented with a tab.
const TabHint = "YAML is indented with spaces, not with tabs"

// tabbed returns the first line from line on that is indented with a tab; 0: there is none.
func tabbed(lines []string, line int) int {
	for i := max(line, 1); i <= len(lines); i++ {
		text := strings.TrimLeft(lines[i-1], " \t")
		if text != "" && strings.Contains(strings.TrimSuffix(lines[i-1], text), "\t") {
			return i
		}
	}
	return 0
}

// wrongType is how the YAML library says that a value is of a wrong type.
var wrongType = regexp.MustCompile("^cannot unmarshal !!(\\w+)( `[^`]*`)? into (.+)$")

// definedTwice is how it says that a mapping has a key twice.
var definedTwice = regexp.MustCompile(`^mapping key (".*") already defined at line (\d+)$`)

// kinds are the names of YAML's types.
var kinds = map[string]string{
	"str": "a string", "int": "a number", "float": "a number", "bool": "a boolean",
	"map": "a mapping", "seq": "a list", "timestamp": "a date", "null": "null",
}

// reworded puts the words of a config for the library's words of Go.
func reworded(message string) string {
	if m := definedTwice.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("key %s is defined twice: first on line %s", m[1], m[2])
	}
	m := wrongType.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	found := cmp.Or(kinds[m[1]], "a value of type "+m[1])
	expected := "a mapping"
	switch t := strings.TrimLeft(m[3], "*"); {
	case strings.HasPrefix(t, "[]"):
		expected = "a list"
	case t == "string":
		expected = "a string"
	case t == "bool":
		expected = "true or false"
	case strings.HasPrefix(t, "int"):
		expected = "a whole number"
	}
	return "expected " + expected + ", found " + found + m[2]
}
