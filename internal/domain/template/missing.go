package template

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"glowplug/internal/domain/report"
)

// ofCard are what a template can name of a network card.
var ofCard = []string{"MAC", "IP", "Hostname"}

// describe says what is missing, of what, and what to do.
func (l *lookup) describe(f *report.Finding) {
	key, card := clip(l.key), l.card()
	isHost, isLabels, isAnnotations := same(l.in, l.data), same(l.in, l.data["Labels"]), same(l.in, l.data["Annotations"])
	isKnown := slices.Contains(known, l.key)
	f.Message = fmt.Sprintf("%s: there is no %q", clip(l.context), key)
	switch {
	case isHost && isKnown:
		f.Message = fmt.Sprintf("the host has no %s", key)
	case isHost:
		f.Message = fmt.Sprintf("there is no .%s", key)
	case card >= 0 && slices.Contains(ofCard, l.key):
		f.Message = fmt.Sprintf("the network card spec.nics[%d] has no %s", card, key)
	case card >= 0:
		f.Message = fmt.Sprintf("a network card has no .%s", key)
	case isLabels && !strings.HasSuffix(l.of, "Labels"):
		f.Message = fmt.Sprintf("%s: there is no label %q", clip(l.context), key)
	case isAnnotations && !strings.HasSuffix(l.of, "Annotations"):
		f.Message = fmt.Sprintf("%s: there is no annotation %q", clip(l.context), key)
	}
	get := ""
	if l.in != nil && l.of != "" && len(l.of) <= maxExpression && !strings.Contains(l.of, "\n") && key == l.key {
		get = fmt.Sprintf(`{{ get %s %q | default "…" }}`, l.of, key)
	}
	switch f.Hint = ""; {
	case isHost && isKnown:
		f.Hint = "set it on the host" + or(", or write ", get)
	case isHost:
		f.Hint = "a template can name " + names(l.of, known)
	case card >= 0 && slices.Contains(ofCard, l.key):
		f.Hint = fmt.Sprintf("set spec.nics[%d].%s of the host", card, strings.ToLower(key)) + or(", or write ", get)
	case l.in != nil && l.isRoot && l.of == "." && isKnown:
		f.Hint = fmt.Sprintf("write $.%s for that of the host: . is not the host here", key)
	case card >= 0:
		f.Hint = "a network card has " + names(l.of, ofCard)
		if l.isRoot {
			f.Hint += "; the host has " + names("$", known)
		}
	case isLabels, isAnnotations:
		f.Hint = "set it on the host" + or(", or let the template do without: ", get)
	default:
		f.Hint = or("let the template do without: ", get)
	}
}

// maxExpression bounds the expressions that hints have, in bytes.
const maxExpression = 100

// card returns the number of the network card that has no such key, -1 of another map.
func (l *lookup) card() int {
	cards, _ := l.data["NICs"].([]any)
	return slices.IndexFunc(cards, func(card any) bool { return same(l.in, card) })
}

// same reports whether two values are the same map.
func same(a map[string]any, b any) bool {
	other, ok := b.(map[string]any)
	return ok && a != nil && reflect.ValueOf(a).Pointer() == reflect.ValueOf(other).Pointer()
}

// names lists fields of an expression.
func names(of string, fields []string) string {
	all := make([]string, len(fields))
	for i, field := range fields {
		all[i] = join(of, field)
	}
	return strings.Join(all, ", ")
}

// or returns a text with what it is about, and nothing without that.
func or(text, about string) string {
	if about == "" {
		return ""
	}
	return text + about
}

// join returns the expression of a field of an expression.
func join(of, field string) string { return strings.TrimSuffix(of, ".") + "." + field }
