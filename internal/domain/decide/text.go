package decide

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// WriteText writes the explanation for people: who asks, what is known, the
// answer, and a table of all candidates.
func (e *Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			fmt.Fprintf(&b, "%-10s %s\n", name, strings.Join(parts, ", "))
		}
	}
	client := e.Client.Address
	if client == "" {
		client = "unknown"
	}
	line("client", client, prefixed("neighbour ", e.Client.Neighbor), when(e.Client.Believed, "believed"))
	if e.Host == "" {
		line("host", "unknown")
	} else {
		line("host", e.Host+" (found by "+e.FoundBy+")")
	}
	line("mac", e.Facts.MACs...)
	line("ip", e.Facts.IPs...)
	line("hostname", e.Facts.Hostnames...)
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(e.Facts.Labels)) {
		labels = append(labels, k+"="+e.Facts.Labels[k])
	}
	line("labels", labels...)
	line("role", e.Facts.Role)
	line("image", prefixed("names ", e.Facts.ImageConfig))
	if b := e.Boot; b != nil {
		what := "its disk"
		if !b.Local {
			what = strings.TrimSpace(prefixed("image ", b.Image) + when(b.Script, " by its own script"))
		}
		line("boots", what, "state "+b.State, b.Reason, b.Error)
		line("release", b.Release, prefixed("reads Ignition spec up to ", b.MaxIgnition))
		line("arguments", b.KernelArgs...)
		line("warning", b.Skew)
	}
	if e.Winner != nil {
		line("winner", e.Winner.Config+" by "+e.Winner.Tier, rendered(e.Winner), prefixed("spec ", e.Winner.IgnitionVersion),
			prefixed("given as spec ", e.Winner.Served), e.Winner.Hash,
			when(e.Winner.Stale, "stale: the newest source is not what is served"))
	}
	if e.Winner != nil {
		for _, layer := range e.Winner.Layers {
			line("layer", layer.String())
		}
	}
	line("answer", fmt.Sprintf("%d %s", e.Status, e.Endpoint), e.Error)
	for _, n := range e.Notices {
		line("event", strings.TrimSpace(n.Reason+" "+n.Host)+": "+n.Message)
	}
	if err := e.writeOrigins(&b); err != nil {
		return err
	}
	if len(e.Candidates) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "CONFIG\tTYPE\tTIER\tOUTCOME\tREASON")
		for _, c := range e.Candidates {
			tier := c.Tier
			if tier == "" {
				tier = "-"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Config, c.Type, tier, c.Outcome, c.Reason)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rendered says what became of a template.
func rendered(w *Winner) string {
	switch {
	case !w.Template:
		return ""
	case w.Size == 0:
		return "a template, not rendered"
	}
	return fmt.Sprintf("a template, rendered to %d bytes", w.Size)
}

// writeOrigins writes which layer each entry of the winner came from.
func (e *Explanation) writeOrigins(w io.Writer) error {
	if e.Winner == nil || len(e.Winner.Origins) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nENTRY\tFROM")
	for _, o := range e.Winner.Origins {
		fmt.Fprintf(t, "%s\t%s\n", nameOf(o), strings.Join(o.From, ", "))
	}
	return t.Flush()
}

// printable keeps a name from being more than text on one line.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '\uFFFD'
	}, s)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func when(cond bool, s string) string {
	if cond {
		return s
	}
	return ""
}
