// Package report holds what compiling a source found: each finding has a
// severity, a path in the document, a position and, where there is one, a remedy.
package report

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Severity says what a finding means for the source.
type Severity string

// A Warning does not stop a config from being served; an Error does.
const (
	Warning Severity = "warning"
	Error   Severity = "error"
)

// MaxFindings bounds a tidied report.
const MaxFindings = 100

// maxSummary bounds Summary, in bytes: it goes into an object's status.
const maxSummary = 1024

// Finding is one thing found in a source.
type Finding struct {
	Severity Severity `json:"severity"`
	// Path is the place in the document, such as "$.storage.files.0.path"; may be empty.
	Path string `json:"path,omitempty"`
	// Line and Column count from 1; 0 is unknown. A column counts bytes.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message says what is wrong, in a sentence without a full stop.
	Message string `json:"message"`
	// Hint says what to do about it; may be empty.
	Hint string `json:"hint,omitempty"`
}

// String is the finding on one line, without severity and hint:
// "line 3:5: $.storage.files.0.path: message". Parts that are unknown are left out.
func (f Finding) String() string {
	text := f.Message
	if f.Path != "" && f.Path != "$" {
		text = f.Path + ": " + text
	}
	switch {
	case f.Line > 0 && f.Column > 0:
		return fmt.Sprintf("line %d:%d: %s", f.Line, f.Column, text)
	case f.Line > 0:
		return fmt.Sprintf("line %d: %s", f.Line, text)
	}
	return text
}

// WithHint is String with the hint behind it.
func (f Finding) WithHint() string {
	if f.Hint == "" {
		return f.String()
	}
	return f.String() + " (" + f.Hint + ")"
}

// Moved returns the finding for a text that has further lines above the source.
func (f Finding) Moved(above int) Finding {
	if f.Message = MoveLines(f.Message, above); f.Line > 0 {
		f.Line += above
	}
	return f
}

// otherLine finds the further line that a message of the compiler, or of a YAML library
// about a key that is defined twice, names.
var otherLine = regexp.MustCompile(`( defined (?:twice: first on|at) line )(\d+)$`)

// MoveLines moves the line that a message names.
func MoveLines(message string, above int) string {
	m := otherLine.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	line, _ := strconv.Atoi(m[2])
	return message[:len(message)-len(m[0])] + m[1] + strconv.Itoa(line+above)
}

// Report is the findings of one source, in the order of the source.
type Report []Finding

// Errorf returns a report of one error without a position.
func Errorf(format string, args ...any) Report {
	return ErrorWithHint("", format, args...)
}

// ErrorWithHint returns a report of one error without a position.
func ErrorWithHint(hint, format string, args ...any) Report {
	return Report{{Severity: Error, Message: fmt.Sprintf(format, args...), Hint: hint}}
}

// ErrorAt returns an error at the byte offset of a source.
func ErrorAt(source []byte, offset int, message, hint string) Finding {
	line, column := Position(source, offset)
	return Finding{Severity: Error, Line: line, Column: column, Message: message, Hint: hint}
}

// HasError reports whether a finding stops the source from being served.
func (r Report) HasError() bool {
	return slices.ContainsFunc(r, func(f Finding) bool { return f.Severity == Error })
}

// Errors returns the findings that are errors.
func (r Report) Errors() Report { return r.of(Error) }

// Warnings returns the findings that are warnings.
func (r Report) Warnings() Report { return r.of(Warning) }

func (r Report) of(severity Severity) Report {
	return slices.DeleteFunc(slices.Clone(r), func(f Finding) bool { return f.Severity != severity })
}

// Strings returns each finding as one line, with its hint.
func (r Report) Strings() (lines []string) {
	for _, f := range r {
		lines = append(lines, f.WithHint())
	}
	return lines
}

// Tidy returns the report in the order of the source, each finding once, those without a
// position first. At most MaxFindings are kept, errors before warnings, and a last
// finding counts the others. The order does not depend on that of the receiver.
func (r Report) Tidy() Report {
	out := slices.Clone(r)
	slices.SortFunc(out, compare)
	out = slices.Compact(out)
	if len(out) <= MaxFindings {
		return out
	}
	all := out
	out = all.Errors()
	severity := Error
	if len(out) < MaxFindings {
		severity = Warning
		out = append(out, all.Warnings()[:MaxFindings-len(out)]...)
		slices.SortFunc(out, compare)
	}
	return append(out[:MaxFindings], Finding{
		Severity: severity,
		Message:  fmt.Sprintf("and %d more findings", len(all)-MaxFindings),
	})
}

func compare(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Column, b.Column),
		cmp.Compare(a.Severity, b.Severity),
		cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Hint, b.Hint),
	)
}

// Summary returns the errors as one text for status.errorMessage, separated by "; "
// and bounded to about 1 KiB; empty where there is no error.
func (r Report) Summary() string {
	var b strings.Builder
	errors := r.Errors()
	for i, f := range errors {
		line := Clip(f.WithHint(), maxSummary/2)
		if i > 0 {
			if b.Len()+len(line) > maxSummary-32 {
				fmt.Fprintf(&b, "; and %d more errors", len(errors)-i)
				break
			}
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// Clip shortens a text to at most limit bytes and an ellipsis, between characters.
func Clip(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// Position returns the line and column, both from 1, of a byte offset in source. An
// offset outside of the source is moved to its nearest end.
func Position(source []byte, offset int) (line, column int) {
	before := source[:min(max(offset, 0), len(source))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, len(before) - start + 1
}

// Size writes a number of bytes as 812B, 4.1Ki, 2.0Mi; nothing as "".
func Size(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKi", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1fMi", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1fGi", float64(n)/(1<<30))
}
