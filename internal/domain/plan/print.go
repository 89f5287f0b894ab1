package plan

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"glowplug/internal/domain/disk"
)

// Style is how a plan is printed.
type Style struct {
	// Color adds terminal colors, and Bars draws disks before and after, Width characters wide.
	Color, Bars bool
	Width       int
}

// colors are those of the actions that a person has to see first.
var colors = map[Action]string{
	Wipe: "\x1b[1;31m", Delete: "\x1b[1;31m", Fail: "\x1b[1;31m", Unknown: "\x1b[1;33m", Overwrite: "\x1b[33m",
	Create: "\x1b[32m", Append: "\x1b[32m", Reuse: "\x1b[34m",
}

const reset = "\x1b[0m"

// Fprint writes the plan for a person: first what is lost and what fails, then each device with
// what is done on it, then the rest of the machine.
func (p *Plan) Fprint(w io.Writer, style Style) error {
	out := &printer{Writer: bufio.NewWriter(w), style: style}
	out.head(p)
	out.important(p)
	for i := range p.Devices {
		out.device(&p.Devices[i])
	}
	if len(p.Machine) > 0 {
		out.line("")
		out.line("On the root file system and the machine:")
		out.steps(p.Machine, 1)
	}
	for _, warning := range p.Warnings {
		out.line("")
		out.wrapped("warning: ", warning)
	}
	return out.Flush()
}

type printer struct {
	*bufio.Writer
	style Style
}

func (p *printer) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(p, strings.TrimRight(printable(text), " "))
}

// printable replaces control characters, with which a config could control a terminal.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\x1b' {
			return utf8.RuneError
		}
		return c
	}, s)
}

// word is an action, as wide as the longest.
func (p *printer) word(a Action) string {
	padded := fmt.Sprintf("%-9s", a)
	if color := colors[a]; p.style.Color && color != "" {
		return color + padded + reset
	}
	return padded
}

// verdicts say what an outcome means.
var verdicts = map[string]string{
	Safe:      "Ignition destroys no data.",
	Destroys:  "IGNITION DESTROYS DATA.",
	Fails:     "IGNITION FAILS.",
	IsUnknown: "The plan is incomplete: the facts do not say what is on the disks.",
}

func (p *printer) head(plan *Plan) {
	subject := "Plan"
	if plan.Config != "" {
		subject += " of " + plan.Config
	}
	if plan.Host != "" {
		subject += " for " + plan.Host
	}
	p.line("%s (Ignition %s, disk facts: %s)", subject, plan.IgnitionVersion, cmp.Or(plan.Facts, "none"))
	p.line("%s", verdicts[plan.Outcome])
}

// important lists the steps that lose data, fail, or are unknown.
func (p *printer) important(plan *Plan) {
	for _, group := range []struct {
		title string
		has   func(*Step) bool
	}{
		{"Data that is lost:", func(s *Step) bool { return len(s.Loses) > 0 }},
		{"What fails:", func(s *Step) bool { return s.Action == Fail }},
		{"What is unknown:", func(s *Step) bool { return s.Action == Unknown }},
	} {
		var last *Step
		plan.Walk(func(s *Step) {
			if !group.has(s) {
				return
			}
			switch {
			case last == nil:
				p.line("")
				p.line("%s", group.title)
			case last.Rule != s.Rule:
				p.wrapped("            ", clean(last.Rule))
			}
			p.line("  %s %s %s [%s]%s", p.word(s.Action), s.Kind, clean(s.Name), s.Field, notReached(s))
			for _, loss := range s.Loses {
				p.wrapped("            loses ", clean(loss))
			}
			last = s
		})
		if last != nil { // a rule is printed once for the steps that it is about
			p.wrapped("            ", clean(last.Rule))
		}
	}
}

func notReached(s *Step) string {
	if s.NotReached {
		return " (not reached: an earlier step fails)"
	}
	return ""
}

func (p *printer) device(d *Device) {
	p.line("")
	title := clean(d.Device)
	if d.Path != "" {
		title += " (" + clean(d.Path) + ")"
	}
	if d.Size > 0 {
		title += "  " + disk.Size(d.Size)
	}
	if d.Name != "" {
		title += "  " + clean(d.Name)
	}
	p.line("%s", title)
	p.parts("before", d.Before)
	p.parts("after", d.After)
	p.steps(d.Steps, 1)
}

// parts writes the parts of a disk, as a bar where the style has bars.
func (p *printer) parts(when string, parts []Part) {
	if len(parts) == 0 {
		return
	}
	if p.style.Bars {
		p.line("  %-6s  %s", when, bar(parts, max(p.style.Width-10, 40)))
	}
	for _, part := range parts {
		name := "free"
		switch {
		case part.Number > 0:
			name = fmt.Sprint(part.Number)
		case part.Content != "":
			name = "whole"
		}
		p.line("  %-6s  %-5s %10s  %-20s %s", when, name, disk.Size(part.Size), clean(part.Label), clean(part.Content))
	}
}

// bar draws the parts of a disk side by side, each at least as wide as its number, and nearly in
// proportion.
func bar(parts []Part, width int) string {
	var total int64
	for _, part := range parts {
		total += part.Size
	}
	var b strings.Builder
	b.WriteByte('|')
	room := max(width-4*len(parts), 0)
	for _, part := range parts {
		cells := 3
		if total > 0 {
			cells += int(float64(part.Size) / float64(total) * float64(room))
		}
		text, fill := fmt.Sprint(part.Number), "="
		if part.Number == 0 {
			text, fill = "", "."
			if part.Content != "" {
				fill = "="
			}
		} else if part.Label != "" && len(part.Label)+len(text)+1 <= cells {
			text += " " + clean(part.Label)
		}
		if len(text) > cells {
			text = text[:cells]
		}
		b.WriteString(text + strings.Repeat(fill, cells-len(text)) + "|")
	}
	return b.String()
}

func (p *printer) steps(steps []Step, depth int) {
	indent := strings.Repeat("  ", depth)
	for i := range steps {
		s := &steps[i]
		text := clean(s.Kind + " " + s.Name)
		if s.Detail != "" {
			text += "  " + clean(s.Detail)
		}
		p.line("%s%s %s%s", indent, p.word(s.Action), text, notReached(s))
		inner := indent + strings.Repeat(" ", 10)
		if s.Rule != "" {
			p.wrapped(inner, clean(s.Rule)+" ["+s.Field+"]")
		}
		for _, note := range s.Notes {
			p.wrapped(inner+"note: ", clean(note))
		}
		p.steps(s.Steps, depth+1)
	}
}

// clean replaces control characters of the config, also those that begin a color.
func clean(s string) string { return strings.ReplaceAll(printable(s), "\x1b", "\uFFFD") }

// wrapped writes text in lines of the width of the style, each behind a prefix; the lines after
// the first have spaces in place of it.
func (p *printer) wrapped(prefix, text string) {
	width := max(p.style.Width-utf8.RuneCountInString(prefix), 40)
	var line string
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			p.line("%s%s", prefix, line)
			prefix, line = strings.Repeat(" ", utf8.RuneCountInString(prefix)), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		p.line("%s%s", prefix, line)
	}
}
