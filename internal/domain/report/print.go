package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	blue   = "\x1b[1;34m"
	reset  = "\x1b[0m"
)

// maxShown bounds how much of a source line is printed, in characters.
const maxShown = 160

// Fprint writes the report for a person: each finding, the line of source that it
// is about, and a caret under the place.
//
//	error: $.storage.files.0.mode: unreasonable mode
//	 --> web.bu:7:13
//	  |
//	7 |       mode: 644
//	  |             ^^^
//	hint: write it in octal
//
// name is what the source is called, such as a file name. color adds terminal
// colors; whether to is the caller's to know.
func Fprint(w io.Writer, name string, source []byte, r Report, color bool) error {
	lines := strings.Split(string(source), "\n")
	p := printer{w: bufio.NewWriter(w), color: color}
	for i, f := range r {
		if i > 0 {
			p.printf("\n")
		}
		p.finding(name, lines, f)
	}
	return p.w.Flush()
}

type printer struct {
	w     *bufio.Writer
	color bool
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

func (p *printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return code + text + reset
}

func (p *printer) finding(name string, lines []string, f Finding) {
	code := red
	if f.Severity == Warning {
		code = yellow
	}
	headline := Finding{Path: f.Path, Message: f.Message}.String()
	p.printf("%s %s\n", p.paint(code, string(f.Severity)+":"), printable(headline))
	place := name
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Line > 0 && f.Column > 0 {
		place += fmt.Sprintf(":%d", f.Column)
	}
	p.printf(" %s %s\n", p.paint(blue, "-->"), place)
	if f.Line > 0 {
		p.excerpt(lines, f)
	}
	if f.Hint != "" {
		p.printf("%s %s\n", p.paint(blue, "hint:"), f.Hint)
	}
}

// excerpt prints the finding's line, unless it is blank, and, where the column is known, carets under
// the word at the column.
func (p *printer) excerpt(lines []string, f Finding) {
	if f.Line > len(lines) || strings.TrimSpace(lines[f.Line-1]) == "" {
		return
	}
	line := strings.TrimSuffix(lines[f.Line-1], "\r")
	number := fmt.Sprint(f.Line)
	gutter := strings.Repeat(" ", len(number))
	bar := p.paint(blue, "|")

	if f.Column < 1 || f.Column > len(line)+1 {
		p.printf("%s %s\n%s %s %s\n", gutter, bar, p.paint(blue, number), bar, printable(clipRunes(line, maxShown)))
		return
	}
	before, rest := line[:f.Column-1], line[f.Column-1:]
	if n := utf8.RuneCountInString(before); n > maxShown*3/4 {
		runes := []rune(before)
		before = "…" + string(runes[n-maxShown/2:])
	}
	word := rest
	if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
		word = rest[:i]
	}
	// A tab stays a tab, so that the caret is under its character.
	padding := strings.Map(func(c rune) rune {
		if c == '\t' {
			return c
		}
		return ' '
	}, before)
	room := max(maxShown-utf8.RuneCountInString(before), maxShown/4)
	width := max(min(utf8.RuneCountInString(word), room), 1)
	p.printf("%s %s\n%s %s %s\n", gutter, bar, p.paint(blue, number), bar, printable(before+clipRunes(rest, room)))
	p.printf("%s %s %s%s\n", gutter, bar, padding, p.paint(blue, strings.Repeat("^", width)))
}

// clipRunes cuts s to limit characters.
func clipRunes(s string, limit int) string {
	seen := 0
	for i := range s {
		if seen == limit {
			return s[:i] + "…"
		}
		seen++
	}
	return s
}

// printable replaces control characters, with which a source could control a terminal.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c != '\t' && unicode.IsControl(c) {
			return utf8.RuneError
		}
		return c
	}, s)
}
