package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// page is a manual page of a command, in the macros of man(7).
type page struct {
	cmd  *cobra.Command
	text strings.Builder
}

// nameOf is the name of the page of a command: glowplug-token-create.
func nameOf(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// write writes the whole page.
func (p *page) write(version string, date time.Time) {
	name := nameOf(p.cmd)
	fmt.Fprintf(&p.text, ".TH %s 1 %s \"glowplug %s\" glowplug\n", strings.ToUpper(escape(name)),
		date.Format(time.DateOnly), escape(version))
	// Names of flags and variables are not hyphenated, so lines are not stretched to one length.
	p.text.WriteString(".nh\n.ad l\n")
	p.section("NAME")
	fmt.Fprintf(&p.text, "%s \\- %s\n", escape(name), escape(p.cmd.Short))
	p.section("SYNOPSIS")
	fmt.Fprintf(&p.text, "\\fB%s\\fR%s\n", escape(p.cmd.CommandPath()),
		escape(strings.TrimPrefix(p.cmd.UseLine(), p.cmd.CommandPath())))
	p.section("DESCRIPTION")
	p.paragraphs(cmp.Or(p.cmd.Long, p.cmd.Short+"."))
	p.commands()
	p.options()
	if p.cmd.Example != "" {
		p.section("EXAMPLES")
		p.literal(p.cmd.Example)
	}
	p.section("EXIT STATUS")
	p.paragraphs("0 is success, 1 a command that failed, and 2 wrong usage.")
	p.others()
}

func (p *page) section(title string) { fmt.Fprintf(&p.text, ".SH %s\n", title) }

// paragraphs writes a text that is wrapped by hand. A paragraph with indented lines keeps them.
func (p *page) paragraphs(text string) {
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			p.text.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") || strings.Contains(paragraph, "\n ") ||
			strings.Contains(paragraph, "\n\t") {
			p.literal(paragraph)
			continue
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			p.text.WriteString(escape(line) + "\n")
		}
	}
}

// literal writes lines as they are.
func (p *page) literal(text string) {
	p.text.WriteString(".nf\n")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		p.text.WriteString(escape(line) + "\n")
	}
	p.text.WriteString(".fi\n")
}

// commands writes a line of each command below this one.
func (p *page) commands() {
	var listed bool
	for _, below := range p.cmd.Commands() {
		if below.Hidden || below.Name() == "help" {
			continue
		}
		if !listed {
			p.section("COMMANDS")
			listed = true
		}
		fmt.Fprintf(&p.text, ".TP\n\\fB%s\\fR\n%s\n", escape(below.CommandPath()), escape(below.Short))
	}
}

// options writes each flag with its default and its variable.
func (p *page) options() {
	if !p.cmd.HasAvailableLocalFlags() {
		return
	}
	p.section("OPTIONS")
	p.cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		p.text.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(&p.text, "\\fB\\-%s\\fR, ", f.Shorthand)
		}
		fmt.Fprintf(&p.text, "\\fB\\-\\-%s\\fR", escape(f.Name))
		if value != "" {
			fmt.Fprintf(&p.text, "=\\fI%s\\fR", escape(value))
		}
		fmt.Fprintf(&p.text, "\n%s.\n", escape(usage))
		if def := strings.Trim(f.DefValue, "[]"); def != "" && def != "false" {
			fmt.Fprintf(&p.text, "The default is %s.\n", escape(def))
		}
		if f.Name != "help" && f.Name != "version" {
			fmt.Fprintf(&p.text, "The variable is GLOWPLUG_%s.\n", strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")))
		}
	})
}

// others writes the references to the pages above and below this one.
func (p *page) others() {
	var names []string
	if p.cmd.HasParent() {
		names = append(names, nameOf(p.cmd.Parent()))
	}
	if p.cmd.Name() != "completion" {
		for _, below := range p.cmd.Commands() {
			if !below.Hidden && below.Name() != "help" {
				names = append(names, nameOf(below))
			}
		}
	}
	if len(names) == 0 {
		return
	}
	p.section("SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Fprintf(&p.text, ".BR %s (1)%s\n", escape(name), end)
	}
}

// escape lets roff print a line as it is: a backslash and a minus have a meaning there, and so has
// a point or an apostrophe at the beginning of a line.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
