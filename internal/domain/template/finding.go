package template

import (
	"errors"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"glowplug/internal/domain/report"
)

var (
	// syntaxError is "template: config:LINE: MESSAGE".
	syntaxError = regexp.MustCompile(`(?s)^template: ` + name + `:(\d+): (.*)$`)
	// runError is "template: config:LINE:COLUMN: executing "NAME" at <CONTEXT>: MESSAGE";
	// the column counts from 0.
	runError = regexp.MustCompile(`(?s)^template: ` + name + `:(\d+):(\d+): executing ".*?" at <(.*?)>: (.*)$`)
	// quoted is what an error names.
	quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|<([^>]*)>|(\{\{\w+\}\})`)
	// began is where an action began that does not end.
	began = regexp.MustCompile(` started at ` + name + `:(\d+)$`)
	// missing is the library's word for a key that is not there.
	missing = regexp.MustCompile(`map has no entry for key "(.*)"`)
	// undefined is the library's word for a function that is not there.
	undefined = regexp.MustCompile(`^function "(.*)" not defined$`)
)

// syntaxFinding makes a finding of an error of Parse, which has a line and no column.
func syntaxFinding(source string, err error) report.Finding {
	f := report.Finding{Severity: report.Error, Message: strings.TrimPrefix(err.Error(), "template: ")}
	m := syntaxError.FindStringSubmatch(err.Error())
	if m == nil {
		return f
	}
	f.Line, _ = strconv.Atoi(m[1])
	f.Message = clip(m[2])
	if at := began.FindStringSubmatch(m[2]); at != nil {
		f.Message = strings.TrimSuffix(m[2], at[0])
		f.Line, _ = strconv.Atoi(at[1])
	}
	if line, column := openAction(source, f.Line); line > 0 {
		f.Message = "the action that begins here does not end on its line; below it: " + f.Message
		f.Line, f.Column, f.Hint = line, column, "end it with }} on its line"
		return f
	}
	if f.Message == "unclosed action" {
		_, text := lineOf(source, f.Line)
		f.Column = strings.LastIndex(text, "{{") + 1
	} else {
		f.Column = column(source, f.Line, m[2])
	}
	if name := undefined.FindStringSubmatch(m[2]); name != nil {
		return noFunction(name[1], f.Line, f.Column)
	}
	switch {
	case f.Message == "unexpected EOF":
		// The library names the line behind the last one.
		f.Line, f.Column = lastLine(source)
		f.Message = "the source ends before an {{ end }}"
		f.Hint = "each {{ if }}, {{ range }}, {{ with }} and {{ define }} has one"
	case strings.HasPrefix(f.Message, "bad character U+002D"):
		f.Hint = `a label with - in its name is read with get: {{ get .Labels "a-b" }}`
	default:
		f.Hint = `the source is a Go text/template, for template is true; where {{ is no action but text, write {{ "{{" }}`
	}
	return f
}

// openAction returns the place of the action that is open at the beginning of a line; zero:
// there is none.
func openAction(source string, at int) (line, column int) {
	start, _ := lineOf(source, at)
	before := source[:start]
	open := strings.LastIndex(before, "{{")
	if open < 0 || strings.Contains(before[open:], "}}") {
		return 0, 0
	}
	return report.Position([]byte(source), open)
}

// lastLine returns the number of the last line with text, and the column of its first word.
func lastLine(source string) (line, column int) {
	source = strings.TrimRight(source, " \t\r\n")
	start := strings.LastIndexByte(source, '\n') + 1
	word := strings.TrimLeft(source[start:], " \t")
	return report.Position([]byte(source), len(source)-len(word))
}

// lineOf returns the offset of a line of a source, and the line.
func lineOf(source string, line int) (start int, text string) {
	for range line - 1 {
		next := strings.IndexByte(source[start:], '\n')
		if next < 0 {
			return len(source), ""
		}
		start += next + 1
	}
	text, _, _ = strings.Cut(source[start:], "\n")
	return start, text
}

// maxLine bounds the lines on which the place of an error is looked for, and
// maxBefore the text before them, in bytes: all of it is parsed for each search.
const (
	maxLine   = 4096
	maxBefore = 256 << 10
)

// column returns the column of a syntax error on its line; 0: unknown. The parser names the line alone, so
// column looks for the shortest beginning of the source that gives the same message: it ends with the mistake.
func column(source string, line int, message string) int {
	start, text := lineOf(source, line)
	end := len(text)
	if end > maxLine || start > maxBefore {
		return 0
	}
	same := func(length int) bool {
		_, err := parseSource(source[:start+length])
		if err == nil {
			return false
		}
		m := syntaxError.FindStringSubmatch(err.Error())
		return m != nil && m[2] == message && m[1] == strconv.Itoa(line)
	}
	if !same(end) {
		return 0 // it is of what follows
	}
	length := sort.Search(end, same) // of the shortest beginning of the line that has the error
	at := max(length, 1)
	for _, m := range quoted.FindAllStringSubmatch(message, -1) {
		if word := m[1] + m[2] + m[3]; word != "" && strings.HasSuffix(source[:start+length], word) {
			return at - len(word) + 1
		}
	}
	return at
}

// runFinding makes a finding of an error of Execute.
func (t *Template) runFinding(err error, failed *execution) report.Finding {
	f := report.Finding{Severity: report.Error}
	m := runError.FindStringSubmatch(err.Error())
	f.Message = strings.TrimPrefix(err.Error(), "template: ")
	if m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		f.Column, _ = strconv.Atoi(m[2])
		f.Column++
		f.Message = m[4]
	}
	var stop *stopped
	switch {
	case errors.As(err, &stop):
		f.Message = stop.Error()
		if stop.at >= 0 {
			f.Line, f.Column = report.Position([]byte(t.source), stop.at)
		}
		f.Hint = "a template is for a few values of a host: let it loop over less"
		if stop.error == errValue {
			f.Hint = "write it in parts, with an action each, or let the machine fetch large files by URL"
		}
	case errors.Is(err, errLong):
		f.Message, f.Hint = errLong.Error(), "let the machine fetch large files by URL"
	case m != nil && missing.MatchString(f.Message):
		t.missing(&f, err, missing.FindStringSubmatch(f.Message)[1], m[3], failed)
	default:
		f.Message = clip(f.Message)
	}
	return f
}

// clip shortens a text of the source that is quoted in a message.
func clip(s string) string { return report.Clip(s, 200) }
