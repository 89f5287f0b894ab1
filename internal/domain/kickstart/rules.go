package kickstart

import (
	"slices"
	"strings"
)

// judge checks the rules about options that are given together.
func (a *call) judge() {
	for _, r := range a.rules {
		if r.versions.has(a.version) {
			a.apply(r)
		}
	}
}

func (a *call) apply(r rule) {
	given := slices.DeleteFunc(slices.Clone(r.operands), func(operand string) bool { return !a.has(operand) })
	at := a.name.column
	switch r.verb {
	case "some", "one":
		if len(given) == 0 && len(r.operands) == 1 {
			a.fault(at, "", "%s is missing", a.called(r.operands[0]))
		} else if len(given) == 0 {
			a.fault(at, "", "one of %s is missing", a.enumerate(r.operands, "or"))
		}
	case "needs":
		if a.has(r.operands[0]) && !slices.ContainsFunc(strings.Split(r.operands[1], "|"), a.has) {
			a.fault(at, "", "%s needs %s", r.operands[0], strings.ReplaceAll(r.operands[1], "|", " or "))
		}
	case "never":
		name, text, _ := strings.Cut(r.operands[0], "=")
		if a.given[name] == text {
			a.fault(at, "", "%s cannot be %s", name, text)
		}
	}
	if (r.verb == "one" || r.verb == "either") && len(given) > 1 {
		a.fault(at, "", "only one of %s can be given", a.enumerate(given, "and"))
	}
}

// has says whether an operand of a rule is given.
func (a *call) has(operand string) bool {
	switch operand {
	case "argument":
		return len(a.arguments) > 0 && a.arguments[0].text != ""
	case "members":
		return len(a.arguments) > 1
	}
	text, ok := a.given[operand]
	return ok && !a.kindOf(operand).empty(text)
}

func (a *call) kindOf(name string) value {
	for _, o := range a.options {
		if o.names[0] == name && o.versions.has(a.version) {
			return o.value
		}
	}
	return value{}
}

// called is what an operand of a rule is called in a message.
func (a *call) called(operand string) string {
	switch operand {
	case "argument":
		return "a " + a.argument
	case "members":
		return "a list of members"
	}
	return operand
}

func (a *call) enumerate(operands []string, conjunction string) string {
	var names []string
	for _, operand := range operands {
		names = append(names, a.called(operand))
	}
	return enumerate(names, conjunction)
}
