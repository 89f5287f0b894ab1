// Package wording says in sentences what is known of a machine: what glowplug status, explain and adopt print, and
// what a page or the API says of the same machine.
package wording

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Line is one thing that is said, and its name.
type Line struct{ Name, Text string }

type lines []Line

// add adds a line of the parts that are not empty, if there is one.
func (l *lines) add(name string, parts ...string) {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) > 0 {
		*l = append(*l, Line{name, strings.Join(parts, ", ")})
	}
}

// writeLines writes lines as a table.
func writeLines(b *strings.Builder, all []Line) {
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	for _, line := range all {
		fmt.Fprintf(t, "%s:\t%s\n", line.Name, printable(line.Text))
	}
	_ = t.Flush() // a Builder never fails
}

// writeList writes texts below a heading, if there are any.
func writeList(b *strings.Builder, heading string, texts []string) {
	if len(texts) > 0 {
		fmt.Fprintln(b, "\n"+heading)
	}
	for _, text := range texts {
		fmt.Fprintln(b, "- "+printable(text))
	}
}

// nothing stands in place of an empty list of what needs attention.
const nothing = "\nNothing needs attention.\n"

// Count returns a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Ago is how long ago a time was; "" for none.
func Ago(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time))) + " ago"
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
