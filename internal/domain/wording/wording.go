// Package wording says in sentences what is known of a machine: what glowplug status, explain and adopt print, and
// what a page or the API says of the same machine.
package wording

import (
	"fmt"
	"slices"
	"strings"
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
