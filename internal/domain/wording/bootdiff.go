package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
)

// BootDifference is what two boots do not have in common.
type BootDifference struct {
	// Before and After are the names of the boots, as namespace/name.
	Before string `json:"before"`
	After  string `json:"after"`
	// Differences are the facts of the boots that differ.
	Differences []Difference `json:"differences,omitempty"`
	// Content is the difference of the bytes of their configs, as a text, and Note says why it is not there.
	Content string `json:"content,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Difference is a fact of two boots, or a kernel argument that one of them has; "": a boot does not have it.
type Difference struct {
	What   string `json:"what"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// DifferenceOf compares two boots, without the bytes of their configs.
func DifferenceOf(before, after *v1.Boot) *BootDifference {
	d := &BootDifference{Before: before.Namespace + "/" + before.Name, After: after.Namespace + "/" + after.Name}
	was, is := factsOf(before), factsOf(after)
	for i, fact := range was {
		if fact.value != is[i].value {
			d.Differences = append(d.Differences, Difference{fact.what, fact.value, is[i].value})
		}
	}
	d.Differences = append(d.Differences, argumentsOf(before.KernelArguments, after.KernelArguments)...)
	return d
}

// argumentsOf compares kernel arguments, each by itself; their order counts where nothing else differs.
func argumentsOf(before, after string) (all []Difference) {
	was, is := words(before), words(after)
	for _, arg := range was {
		if !slices.Contains(is, arg) {
			all = append(all, Difference{What: "kernel argument", Before: arg})
		}
	}
	for _, arg := range is {
		if !slices.Contains(was, arg) {
			all = append(all, Difference{What: "kernel argument", After: arg})
		}
	}
	if len(all) == 0 && before != after {
		return []Difference{{"kernel arguments", before, after}}
	}
	return all
}

// fact is one of a boot.
type fact struct{ what, value string }

// factsOf returns the facts of a boot that are compared, always the same ones.
func factsOf(b *v1.Boot) []fact {
	image, config, match, facts := v1.BootImage{}, v1.BootConfig{}, v1.BootMatch{}, v1.BootFacts{}
	if b.Image != nil {
		image = *b.Image
	}
	if b.Config != nil {
		config = *b.Config
	}
	if b.Match != nil {
		match = *b.Match
	}
	if b.Facts != nil {
		facts = *b.Facts
	}
	generation := ""
	if config.Generation > 0 {
		generation = strconv.FormatInt(config.Generation, 10)
	}
	return []fact{
		{"outcome", b.Outcome}, {"reason", b.Reason}, {"client", b.Client}, {"found by", facts.FoundBy},
		{"image", image.Name}, {"release", image.Release}, {"image digest", image.Digest}, {"why", match.Reason},
		{"script", compile.ShortHash(b.Script)},
		{"config", config.Name}, {"config chosen by", match.Tier}, {"config generation", generation},
		{"Ignition version", config.Version}, {"config hash", compile.ShortHash(config.Hash)},
		{"user agent", b.UserAgent},
	}
}

// words returns the words of a line, of which one in double quotes may have blanks.
func words(line string) (all []string) {
	word := ""
	for _, part := range strings.Fields(line) {
		word = strings.TrimPrefix(word+" "+part, " ")
		if strings.Count(word, `"`)%2 == 0 {
			all, word = append(all, word), ""
		}
	}
	if word != "" {
		all = append(all, word)
	}
	return all
}

// Text returns the difference for people.
func (d *BootDifference) Text() string {
	var b strings.Builder
	if len(d.Differences) == 0 {
		return "nothing differs between the boots " + d.Before + " and " + d.After + "\n"
	}
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\t%s\t%s\n", d.Before, d.After)
	for _, one := range d.Differences {
		fmt.Fprintf(table, "%s\t%s\t%s\n", one.What, printable(cmp.Or(one.Before, "-")), printable(cmp.Or(one.After, "-")))
	}
	_ = table.Flush() // a Builder never fails
	if d.Content != "" {
		b.WriteString("\n")
	}
	for line := range strings.Lines(d.Content) {
		b.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	if note := d.NotCompared(); note != "" {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// NotCompared says why the bytes of the configs are not compared; "": they are, or need not be.
func (d *BootDifference) NotCompared() string {
	return prefixed("the configs are not compared: ", printable(d.Note))
}
