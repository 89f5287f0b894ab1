package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
)

// Explanation returns an explanation as lines: who asks, the facts, what is booted, and the answer.
func Explanation(e *explain.Explanation) []Line {
	var t lines
	t.client(e)
	t.facts(&e.Facts)
	t.boot(e.Boot)
	t.winner(e.Winner)
	t.add("answer", whoAsks(e.As)+answerText(e))
	t.add("plain HTTP", prefixed("a request over plain HTTP gets ", e.PlainHTTP))
	for _, o := range e.Others {
		t.add("otherwise", o.Client+otherText(&o.Answer))
	}
	for _, n := range e.Notices {
		message := n.Message
		if e.DependsOnAddress && n.Reason == decide.ReasonNoConfig {
			message = unlessForAddress + ", " + message
		}
		t.add("event", strings.TrimSpace(n.Reason+" "+n.Host)+": "+message)
	}
	return t
}

// ExplanationText returns an explanation as a text, with a table of the origins of the config's entries and one of all
// candidates.
func ExplanationText(e *explain.Explanation) string {
	var b strings.Builder
	for _, line := range Explanation(e) {
		fmt.Fprintf(&b, "%-10s %s\n", line.Name+":", line.Text)
	}
	writeOrigins(&b, e.Winner)
	writeCandidates(&b, e.Candidates, e.Hidden)
	return b.String()
}

// whoAsks is the subject of the answer.
func whoAsks(as string) string {
	if as == explain.AsBelieved {
		return "a believed caller"
	}
	return "the machine"
}

// unlessForAddress is the condition of an answer that depends on the address of the machine.
const unlessForAddress = "if no config with matchIPs is for its address"

// answerText returns the answer as text, after its subject.
func answerText(e *explain.Explanation) string {
	text := fmt.Sprintf(" gets %d from /api/v1/%s", e.Status, e.Endpoint)
	if e.DependsOnAddress {
		text = ", " + unlessForAddress + "," + text
	}
	if e.Error == "" && e.Winner != nil {
		text += " with config " + e.Winner.Config
	}
	return text + prefixed(": ", e.Error)
}

// otherText returns the answer to another client as text, after its subject.
func otherText(a *explain.Answer) string {
	text := fmt.Sprintf(" gets %d", a.Status) + prefixed(" with config ", a.Config)
	return text + prefixed(", as spec ", a.IgnitionVersion) + prefixed(": ", a.Error)
}

// foundBy has the ways in which a host is found.
var foundBy = map[string]string{
	"address": "the client's address", "neighbor": "the client's hardware address in the neighbour table",
	"mac": "the parameter mac", "ip": "the parameter ip", "uuid": "the parameter uuid",
	"hostname": "the parameter hostname",
}

// client adds who asks, with which headers, and which host that is.
func (t *lines) client(e *explain.Explanation) {
	c := &e.Client
	who := whoAsks(e.As) + " asks"
	switch {
	case len(c.Addresses) > 0:
		who = fmt.Sprintf("%s is taken to ask from %s; the neighbour table has %s for its hardware address %s"+
			" (--from names one of them)", whoAsks(e.As), c.Address, strings.Join(c.Addresses, " and "), c.Neighbor)
	case c.Address != "":
		who += " from " + c.Address + prefixed(", whose hardware address in the neighbour table is ", c.Neighbor)
	case c.Neighbor != "":
		who += " on the server's network with the hardware address " + c.Neighbor +
			"; the server does not know its address (--from names it)"
	case !c.Believed:
		who += " from an unknown address (--from names it)"
	}
	t.add("client", who, prefixed("and claims a hardware address that is none of Ethernet: ", c.OtherMAC))
	if c.Headers != "" {
		t.add("headers", "they are those of "+c.Headers)
	} else {
		t.add("headers", prefixed("the client sends Accept: ", c.Accept), prefixed("the client sends User-Agent: ", c.UserAgent))
	}
	t.add("identity", e.Identity)
	switch {
	case e.Host != "":
		found := e.Host + " is found by " + cmp.Or(foundBy[e.FoundBy], e.FoundBy)
		if e.FoundBy == "neighbor" && c.Address == "" {
			found = e.Host + " is found by the neighbour table, if the machine is on the server's own network"
		}
		if e.Named != "" && e.Named != e.Host {
			found += "; this request does not identify " + e.Named
		}
		t.add("host", found)
	case e.Named != "":
		t.add("host", "none is found; this request does not identify "+e.Named)
	default:
		t.add("host", "none is found")
	}
}

// facts adds the facts with which configs are matched.
func (t *lines) facts(f *explain.Facts) {
	t.add("mac", f.MACs...)
	t.add("ip", f.IPs...)
	t.add("hostname", f.Hostnames...)
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(f.Labels)) {
		labels = append(labels, k+"="+f.Labels[k])
	}
	t.add("labels", labels...)
	t.add("role", f.Role)
	t.add("island", prefixed("the namespace "+f.Namespace+" is an island, since ", f.Island))
	t.add("image", prefixed("the host's image names the config ", f.ImageConfig))
}

// boot adds what the host boots.
func (t *lines) boot(b *explain.Boot) {
	if b == nil {
		return
	}
	t.add("state", prefixed("the host is ", b.State))
	what := b.ScriptName()
	switch {
	case b.Local:
		what = "its disk"
	case b.Image != "":
		what = "image " + b.Image + when(b.Script, " by "+b.ScriptName())
	}
	if b.Error != "" {
		t.add("boots", "the boot script fails: "+b.Error)
	} else {
		t.add("boots", "the host boots "+what+prefixed(": ", b.Reason))
	}
	t.add("release", prefixed("the image has release ", b.Release))
	t.add("reads", prefixed("the image reads Ignition spec up to ", b.MaxIgnition))
	t.add("arguments", argumentTexts(b.Arguments)...)
	t.add("token", when(b.Token, "the machine needs the token that its boot script has"))
	t.add("warning", b.Skew)
	t.add("warning", b.NoConfig)
}

// argumentTexts returns kernel arguments with their origins.
func argumentTexts(arguments []explain.Argument) (texts []string) {
	for _, a := range arguments {
		texts = append(texts, a.Argument+" ("+a.From+")")
	}
	return texts
}

// winner adds the config that was chosen.
func (t *lines) winner(w *explain.Winner) {
	if w == nil {
		return
	}
	cause := "the newest source or layers give none"
	if w.Template {
		cause = "the template gives none for this host now"
	}
	t.add("winner", w.Config+" wins by "+w.Tier, rendered(w), prefixed("spec ", w.IgnitionVersion),
		prefixed("given as spec ", w.Served), w.Hash,
		when(w.Stale, "stale: an older result is served, since "+cause))
	for _, layer := range w.Layers {
		t.add("layer", layerText(layer))
	}
}

// layerText returns a layer as text.
func layerText(l explain.Layer) string {
	text := l.Name
	if short := l.Hash; len(short) > 19 {
		text += " (" + short[:19] + ")"
	}
	return text + when(l.Changed, " which has changed since") + when(l.Missing, ", which no longer exists") +
		when(l.Failing, ", its last good compilation")
}

// rendered describes the rendering of a template.
func rendered(w *explain.Winner) string {
	switch {
	case !w.Template:
		return ""
	case w.Size == 0:
		return "a template, not rendered"
	}
	return fmt.Sprintf("a template, rendered to %d bytes", w.Size)
}

// writeOrigins writes from which layer each entry of the winner came.
func writeOrigins(b *strings.Builder, winner *explain.Winner) {
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

// writeCandidates writes a table of the candidates, and the number of those that the reader may not see.
func writeCandidates(b *strings.Builder, candidates []explain.Candidate, hidden int) {
	if len(candidates)+hidden == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nCONFIG\tTYPE\tTIER\tOUTCOME\tREASON")
	for _, c := range candidates {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Config, c.Type, cmp.Or(c.Tier, "-"), c.Outcome, c.Reason)
	}
	_ = t.Flush()
	if hidden > 0 {
		fmt.Fprintf(b, "and %d in other namespaces\n", hidden)
	}
}
