package kickstart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"glowplug/internal/domain/report"
)

// fault is something that the installer does not take, at a column.
type fault struct {
	column        int
	message, hint string
}

// checkArguments returns what a version of the installer refuses of a command or of the
// header of a section. The first of the words is its name.
func checkArguments(version string, words []word) []fault {
	s := syntaxes()[words[0].text]
	if s == nil {
		return nil
	}
	a := call{syntax: s, version: version, name: words[0], given: map[string]string{}}
	a.read(words[1:])
	if !a.loose {
		a.count()
		a.require()
		a.judge()
	}
	return a.faults
}

// call is the use of a command in a line.
type call struct {
	*syntax
	version string
	name    word
	faults  []fault
	// given has the value of each option by its usual name, "" for one without a value.
	given map[string]string
	// arguments are the words that are no options.
	arguments []word
	// loose says that an option was not understood. What it stood for may be what
	// seems to be missing.
	loose bool
}

func (a *call) fault(column int, hint, format string, args ...any) {
	a.faults = append(a.faults, fault{column, a.name.text + ": " + fmt.Sprintf(format, args...), hint})
}

// read sorts the words into options with their values and arguments.
func (a *call) read(words []word) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.text == "--" {
			a.arguments = append(a.arguments, words[i+1:]...)
			return
		}
		if !a.isOption(w.text) {
			a.arguments = append(a.arguments, w)
			continue
		}
		written, text, assigned := strings.Cut(w.text, "=")
		o := a.option(w.column, written)
		if o == nil {
			a.loose = true
			continue
		}
		at := w.column
		if next := i + 1; !assigned && o.value.kind != "" && next < len(words) && !a.isOption(words[next].text) {
			text, at, assigned, i = words[next].text, words[next].column, true, next
		}
		a.take(o, written, word{text, at}, assigned)
	}
}

// take checks the value of an option.
func (a *call) take(o *option, written string, w word, assigned bool) {
	a.given[o.names[0]] = w.text
	switch {
	case o.value.kind == "" && assigned:
		a.fault(w.column, "", "%s takes no value", written)
	case o.value.kind != "" && o.value.kind != "?" && !assigned:
		a.loose = true
		a.fault(w.column, "", "%s has no value", written)
	case assigned:
		if must := o.value.mustBe(w.text); must != "" {
			a.fault(w.column, "", "%s must be %s", written, must)
		}
	}
}

var negative = regexp.MustCompile(`^-(\d+|\d*\.\d+)$`)

// isOption tells an option from an argument or a value: as in the installer, a negative
// number is none, and what has a space in it is one only if it has the name of one.
func (a *call) isOption(text string) bool {
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	written, _, _ := strings.Cut(text, "=")
	return len(a.named(written)) > 0 ||
		!negative.MatchString(text) && !strings.Contains(written, " ")
}

// named returns the options of the version that a name, or the beginning of one, means.
func (a *call) named(name string) (found []*option) {
	for i := range a.options {
		o := &a.options[i]
		switch {
		case !o.versions.has(a.version):
		case slices.Contains(o.names, name):
			return []*option{o}
		case slices.ContainsFunc(o.names, func(s string) bool { return strings.HasPrefix(s, name) }):
			found = append(found, o)
		}
	}
	return found
}

// option returns the option of a name, or none with a fault.
func (a *call) option(column int, name string) *option {
	found := a.named(name)
	if len(found) == 1 {
		return found[0]
	}
	name = report.Clip(name, maxQuoted)
	if len(found) > 1 {
		a.fault(column, "", "%s could be %s", name, enumerate(usualNames(found), "or"))
		return nil
	}
	a.fault(column, a.hint(name), "there is no option %s", name)
	return nil
}

// hint helps with an option that the version does not have.
func (a *call) hint(name string) string {
	for _, o := range a.options {
		if slices.Contains(o.names, name) {
			return "it is an option of " + strings.Join(o.versions.list(), ", ")
		}
	}
	if plain := "--" + strings.TrimLeft(name, "-"); plain != name && len(a.named(plain)) == 1 {
		return "options begin with two dashes: " + plain
	}
	return "an installer that does not know it stops; check the spelling"
}

// list returns the names of the versions.
func (s scope) list() []string {
	return slices.DeleteFunc(Versions(), func(version string) bool { return !s.has(version) })
}

// count checks the number of the arguments.
func (a *call) count() {
	n := len(a.arguments)
	switch {
	case n < a.least:
		a.fault(a.name.column, "", "the %s is missing", a.argument)
	case a.most < 0 || n <= a.most:
	case a.most == 0:
		a.fault(a.arguments[0].column, "", "only options stand after it, which begin with --")
	default:
		a.fault(a.arguments[a.most].column, "a value with spaces stands in quotes", "there are too many arguments")
	}
}

// require checks that the options that must be given are.
func (a *call) require() {
	for _, o := range a.options {
		if _, ok := a.given[o.names[0]]; !ok && o.required && o.versions.has(a.version) {
			a.fault(a.name.column, "", "%s is missing", o.names[0])
		}
	}
}

func usualNames(options []*option) (names []string) {
	for _, o := range options {
		names = append(names, o.names[0])
	}
	return names
}

// enumerate joins words: "a, b or c".
func enumerate(words []string, conjunction string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
