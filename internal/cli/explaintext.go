package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"glowplug/internal/domain/decide"
)

// writeExplanationText writes an explanation as text: the client, its facts, the answer,
// and a table of all candidates.
func writeExplanationText(w io.Writer, e *decide.Explanation) error {
	var b strings.Builder
	line := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			fmt.Fprintf(&b, "%-10s %s\n", name, strings.Join(parts, ", "))
		}
	}
	line("client", cmp.Or(e.Client.Address, "unknown"), prefixed("neighbour ", e.Client.Neighbor), when(e.Client.Believed, "believed"))
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
	if boot := e.Boot; boot != nil {
		what := "its disk"
		if !boot.Local {
			what = strings.TrimSpace(prefixed("image ", boot.Image) + when(boot.Script, " by its own script"))
		}
		line("boots", what, "state "+boot.State, boot.Reason, boot.Error)
		line("release", boot.Release, prefixed("reads Ignition spec up to ", boot.MaxIgnition))
		line("arguments", boot.KernelArgs...)
		line("warning", boot.Skew)
	}
	if winner := e.Winner; winner != nil {
		line("winner", winner.Config+" by "+winner.Tier, rendered(winner), prefixed("spec ", winner.IgnitionVersion),
			prefixed("given as spec ", winner.Served), winner.Hash,
			when(winner.Stale, "stale: the newest source is not what is served"))
		for _, layer := range winner.Layers {
			line("layer", layerText(layer))
		}
	}
	line("answer", fmt.Sprintf("%d %s", e.Status, e.Endpoint), e.Error)
	for _, n := range e.Notices {
		line("event", strings.TrimSpace(n.Reason+" "+n.Host)+": "+n.Message)
	}
	writeOrigins(&b, e.Winner)
	writeCandidates(&b, e.Candidates)
	_, err := io.WriteString(w, b.String())
	return err
}

// layerText returns a layer as text.
func layerText(l decide.ExplainedLayer) string {
	text := l.Name
	if short := l.Hash; len(short) > 19 {
		text += " (" + short[:19] + ")"
	}
	return text + when(l.Changed, " which has changed since") + when(l.Failing, ", its last good compilation")
}

// rendered describes the rendering of a template.
func rendered(w *decide.Winner) string {
	switch {
	case !w.Template:
		return ""
	case w.Size == 0:
		return "a template, not rendered"
	}
	return fmt.Sprintf("a template, rendered to %d bytes", w.Size)
}

// writeOrigins writes from which layer each entry of the winner came.
func writeOrigins(b *strings.Builder, winner *decide.Winner) {
	if winner == nil || len(winner.Origins) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nENTRY\tFROM")
	for _, o := range winner.Origins {
		fmt.Fprintf(t, "%s %s\t%s\n", o.Kind, printable(o.Name), strings.Join(o.From, ", "))
	}
	_ = t.Flush() // a Builder never fails
}

func writeCandidates(b *strings.Builder, candidates []decide.Candidate) {
	if len(candidates) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nCONFIG\tTYPE\tTIER\tOUTCOME\tREASON")
	for _, c := range candidates {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Config, c.Type, cmp.Or(c.Tier, "-"), c.Outcome, c.Reason)
	}
	_ = t.Flush()
}

// printable replaces what is not text on one line in a name.
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
