package butane

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

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

// Syntax returns the errors of a source as YAML, whatever it is about; nil: it can be read.
func Syntax(source []byte) report.Report {
	var value any
	if err := yaml.Unmarshal(source, &value); err != nil {
		return yamlErrors(source, err)
	}
	return nil
}

// yamlErrors splits an error of the YAML library, which may hold several lines.
func yamlErrors(source []byte, err error) report.Report {
	var r report.Report
	var values map[typed]int // those of the source, where a message is about a type
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
		if m := wrongType.FindStringSubmatch(f.Message); m != nil {
			if values == nil {
				values = columns(source)
			}
			f.Column = values[typed{f.Line, m[1], m[2]}]
		}
		f.Message = reworded(f.Message)
		if f.Hint == "" && f.Line > 0 && f.Line <= len(lines) && noSpace.MatchString(lines[f.Line-1]) {
			f.Hint = spaceHint
		}
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
	if m := accused(f, lines); m != nil {
		f.Line, f.Column, f.Message, f.Hint = m.line, m.column, m.message, m.hint
		return
	}
	switch message := f.Message; {
	case strings.Contains(message, "found character that cannot start any token"):
		explainCharacter(f, lines)
	case strings.HasPrefix(message, "found a tab character"):
		// The library names the line of the value before the tab.
		f.Hint = TabHint
		if line := tabbed(lines, f.Line); line > 0 {
			f.Line, f.Column = line, strings.IndexByte(lines[line-1], '\t')+1
		}
	case message == "did not find expected <document start>":
		// The library names the first line that is indented less than the one before.
		if line, deeper := above(lines, f.Line); line > 0 && deeper > 0 && line < f.Line {
			f.Line, f.Message = line, "this line is indented, and the lines below are not"
			f.Hint = "indent it by " + spaces(deeper) + " less"
		}
	case strings.HasPrefix(message, "mapping values are not allowed"):
		explainValue(f, lines)
	case message == "could not find expected ':'":
		f.Hint = keyHint
	case strings.HasPrefix(message, "unknown anchor "):
		f.Line, f.Column = aliased(lines, message)
		f.Hint = "an alias needs an anchor with & and its name above it, and a text that begins with * is quoted"
	case strings.HasPrefix(message, "invalid map key"):
		f.Message = "a mapping is the key of a mapping"
		for i, line := range lines {
			if at := braces.FindStringSubmatchIndex(line); at != nil {
				f.Line, f.Column, f.Hint = i+1, at[2]+1, "a text that begins with {{ is quoted"
				break
			}
		}
	}
}

// maxAccused bounds the sources in which a mistake is looked for, in bytes: it is parsed
// again.
const maxAccused = 256 << 10

// accused returns the mistake behind an error of the library's grammar; nil: it is not found.
// The lines above a mistake can be parsed, and with it they cannot.
func accused(f *report.Finding, lines []string) *mistake {
	isGrammar := grammar.MatchString(f.Message)
	if !isGrammar && !lexical.MatchString(f.Message) || strings.HasPrefix(f.Message, "found a tab") {
		return nil
	}
	m := findMistake(lines)
	if m == nil || m.line > f.Line && !isGrammar {
		return nil
	}
	if !isYAML(lines[:m.line-1]) || !m.legal && isYAML(lines[:m.line]) {
		return nil
	}
	return m
}

// isYAML reports whether lines can be parsed.
func isYAML(lines []string) bool {
	source := strings.Join(lines, "\n") + "\n"
	var node yaml.Node
	return len(source) <= maxAccused && yaml.Unmarshal([]byte(source), &node) == nil
}

// explainCharacter explains a character with which no text begins.
func explainCharacter(f *report.Finding, lines []string) {
	if f.Line < 1 || f.Line > len(lines) {
		return
	}
	if m := reserved.FindStringSubmatchIndex(lines[f.Line-1]); m != nil {
		f.Column = m[2] + 1
		f.Hint = "a text that begins with " + lines[f.Line-1][m[2]:m[3]] + " is quoted"
		return
	}
	if line := lines[f.Line-1]; strings.Contains(line, "\t") {
		f.Hint = TabHint
	}
}

// reserved finds a text that begins with a character with which none begins in YAML.
var reserved = regexp.MustCompile("^(?:\\s*-)*(?:[^#\"']*?:)?\\s+([@%`])")

// explainValue says what is wrong with a line in which YAML finds a key within a text: the
// text is on the line itself, or it begins on the line above.
func explainValue(f *report.Finding, lines []string) {
	if f.Line < 1 || f.Line > len(lines) {
		return
	}
	own := lines[f.Line-1]
	line, before := above(lines, f.Line)
	inside := strings.TrimSpace(own[keyOffset(own):])
	switch {
	case len(oneKey.FindAllString(inside, -1)) > 1:
		f.Hint = `a text that contains ": " is quoted, and a second key is on a line of its own`
		if strings.Contains(inside, ": '") {
			f.Hint += "; in single quotes an apostrophe is doubled"
		}
	case line == 0:
		f.Hint = `a text that contains ": " is quoted`
	case noSpace.MatchString(lines[line-1]):
		f.Line, f.Column = line, indentOf(lines[line-1])+1
		f.Message, f.Hint = spaceMissing, spaceHint
	case withoutKey(lines[line-1]) && !isWord.MatchString(lines[line-1]):
		f.Line, f.Column = line, before+1
		f.Message, f.Hint = keyMissing, keyHint
	case withoutKey(lines[line-1]):
		f.Hint = "the line above is a text, to which no keys belong; indent this line less, if it belongs beside its list"
	case !withoutValue.MatchString(lines[line-1]) && indentOf(own) > before:
		f.Hint = "the line above has a value already; if this line belongs beside it, indent it by " +
			spaces(indentOf(own)-before) + " less"
	}
}

var (
	// isWord finds an item that is one word, as in a list of texts.
	isWord = regexp.MustCompile(`^\s*-\s+[^\s:]+\s*$`)
	// withoutValue finds a key that has no value on its own line.
	withoutValue = regexp.MustCompile(`:\s*([#|>&!].*)?$`)
)

// withoutKey reports whether a line is a text without a key.
func withoutKey(line string) bool { return !oneKey.MatchString(line) }

// above returns the number of the line before a line, without blank lines and comments, and
// the offset of its key or text; zero: there is none.
func above(lines []string, line int) (number, offset int) {
	for i := min(line, len(lines)) - 1; i > 0; i-- {
		if text := strings.TrimSpace(lines[i-1]); text != "" && text[0] != '#' {
			return i, keyOffset(lines[i-1])
		}
	}
	return 0, 0
}

// braces finds a text that begins with {{, which is a mapping in a mapping.
var braces = regexp.MustCompile(`(?:^|[:-])\s+({{)`)

// anchor finds the name of an alias.
var anchor = regexp.MustCompile(`^unknown anchor '([^']*)' referenced`)

// aliased returns the line and column of the alias that has no anchor; zero: it is not found.
func aliased(lines []string, message string) (line, column int) {
	m := anchor.FindStringSubmatch(message)
	if m == nil {
		return 0, 0
	}
	alias := regexp.MustCompile(`(?:^|[\s,\[{])(\*` + regexp.QuoteMeta(m[1]) + `)(?:$|[\s,\]}])`)
	for i, text := range lines {
		if at := alias.FindStringSubmatchIndex(text); at != nil {
			return i + 1, at[2] + 1
		}
	}
	return 0, 0
}

// TabHint is the hint for a line that is indented with a tab.
const TabHint = "YAML is indented with spaces, not with tabs"

// tabbed returns the first line from line on that is indented with a tab; 0: there is none.
func tabbed(lines []string, line int) int {
	for i := max(line, 1); i <= len(lines); i++ {
		text := strings.TrimLeft(lines[i-1], " \t")
		if strings.Contains(strings.TrimSuffix(lines[i-1], text), "\t") {
			return i
		}
	}
	return 0
}
