package impact

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"glowplug/internal/domain/wording"
)

// Style is how a report is printed.
type Style struct {
	// Color adds terminal colors.
	Color bool
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[1;33m"
	reset  = "\x1b[0m"
)

// phrases say what an effect is.
var phrases = map[Effect]string{
	Unmatched:      "no config any more",
	Unrecognised:   "no machine is recognised as the host any more",
	Unserved:       "the config is not served",
	Unreadable:     "the image does not read the config",
	Ambiguous:      "ambiguous: only age decides, between two configs or between two hosts with one address",
	Stale:          "stale: an earlier version of the config is served, since the newest cannot be",
	Unbootable:     "the image cannot be booted",
	Unknown:        "the new contents of the config are not known",
	ConfigChanged:  "another config",
	ContentChanged: "other contents of the config",
	BootChanged:    "another boot",
	AddressChanged: "recognised by other addresses, names or sources",
	Mended:         "a config or an image that was not available before",
	HostDeleted:    "deleted",
	HostAdded:      "new",
}

// Phrase says what an effect is, after "N hosts:".
func (e Effect) Phrase() string { return phrases[e] }

// Fprint writes the report for a person.
func (r *Report) Fprint(w io.Writer, style Style) error {
	p := &printer{Writer: bufio.NewWriter(w), style: style}
	for _, o := range r.Objects {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		p.line("", "%s %s %s", strings.ToLower(o.Kind), name, o.Change)
	}
	p.line("", "")
	switch {
	case r.Changed > 0:
		p.line("", "Something changes for %d of %s.", r.Changed, hosts(r.Hosts))
	case r.Strangers != nil:
		p.line("", "Nothing changes for any of %s, but for machines that are no known hosts.", hosts(r.Hosts))
	default:
		p.line("", "Nothing changes for any of %s.", hosts(r.Hosts))
	}
	for i := range r.Groups {
		p.group(&r.Groups[i])
	}
	if r.More > 0 {
		p.line("", "")
		p.line("", "There are more groups, of %s; -o json has the number of hosts with each effect.", hosts(r.More))
	}
	if r.Strangers != nil {
		p.line("", "")
		p.line("", "Machines that are no known hosts: %s", r.OnStrangers().Phrase())
		p.pair(r.Strangers)
	}
	p.disks(r.Disks)
	return p.Flush()
}

func hosts(n int) string { return wording.Count(n, "host", "hosts") }

type printer struct {
	*bufio.Writer
	style Style
}

// line writes a line, without the control characters that a config may contain.
func (p *printer) line(color, format string, args ...any) {
	text := strings.Map(printable, fmt.Sprintf(format, args...))
	if p.style.Color && color != "" {
		text = color + text + reset
	}
	fmt.Fprintln(p, text)
}

func printable(c rune) rune {
	isHidden := unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) // such as marks that turn the direction of a text
	if unicode.IsControl(c) && c != '\t' || isHidden {
		return utf8.RuneError
	}
	return c
}

func (p *printer) group(g *Group) {
	p.line("", "")
	for i, e := range g.Effects {
		color := ""
		if e.IsWorse() || e == Unknown {
			color = yellow
		}
		if i == 0 {
			p.line(color, "%s: %s", hosts(g.Hosts), e.Phrase())
		} else {
			p.line(color, "  and %s", e.Phrase())
		}
	}
	names := strings.Join(g.Names, ", ")
	if more := g.Hosts - len(g.Names); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	p.line("", "  %s", names)
	for i := range g.Answers {
		p.pair(&g.Answers[i])
	}
	if g.MoreAnswers > 0 {
		p.line("", "    and %d more answers that differ", g.MoreAnswers)
	}
	for line := range strings.Lines(g.Difference) {
		color := map[byte]string{'-': red, '+': green}[line[0]]
		p.line(color, "      %s", strings.TrimSuffix(line, "\n"))
	}
}

// pair writes the answers before and after.
func (p *printer) pair(pair *Pair) {
	count := ""
	if pair.Hosts > 0 {
		count = " (" + hosts(pair.Hosts) + ")"
	}
	if pair.Before != nil {
		p.line("", "    before: %s%s", strings.Join(pair.Before.lines(), "; "), count)
		count = ""
	}
	if pair.After != nil {
		p.line("", "    after:  %s%s", strings.Join(pair.After.lines(), "; "), count)
	}
}

// lines describe an answer.
func (a *Answer) lines() (all []string) {
	if a.Host != "" {
		all = append(all, "its machine is taken for host "+a.Host)
	}
	for i := range a.Configs {
		all = append(all, a.Configs[i].String())
	}
	if a.Boot != nil {
		all = append(all, a.Boot.String())
	}
	return all
}

// String describes what is served.
func (s *Served) String() string {
	switch {
	case s.Config == "":
		return "no config of type " + s.Type
	case s.Status == 0:
		return s.Config + ", " + s.Error
	case s.Status != ok:
		return fmt.Sprintf("%s, answered with %d: %s", s.Config, s.Status, s.Error)
	}
	text := s.Config + " by " + s.Match
	if s.IgnitionVersion != "" {
		text += ", spec " + s.IgnitionVersion
	}
	text += ", " + short(s.Hash)
	if s.Stale {
		text += ", stale"
	}
	if s.SecretsChanged {
		text += ", with other values of Secrets"
	}
	return text
}

// short returns the beginning of a hash, which tells two apart.
func short(hash string) string {
	const shown = len("sha256:") + 12
	if len(hash) > shown {
		return hash[:shown]
	}
	return hash
}

// String describes what is booted.
func (b *Booted) String() string {
	switch {
	case b.Error != "":
		return "boots nothing: " + b.Error
	case b.Local:
		return "boots its disk"
	case b.Image != "":
		text := "boots image " + b.Image
		if b.Script {
			text += " by a script"
		}
		if b.Pending {
			text += ", once it is ready"
		}
		return text
	}
	return "boots a script"
}

// disks writes what would be lost.
func (p *printer) disks(d *Disks) {
	if d == nil {
		return
	}
	p.line("", "")
	p.line("", "Hosts with known disks that receive other contents: %d; plans compared: %d", d.Known, d.Planned)
	if len(d.Hosts) == 0 && d.Planned > 0 {
		p.line("", "  Ignition destroys nothing that it does not destroy before.")
	}
	for _, h := range d.Hosts {
		p.line(yellow, "  Ignition would destroy data on %s:", h.Host)
		for _, loss := range h.Loses {
			p.line("", "    %s", loss)
		}
	}
}
