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

// maxExpression bounds the expressions that hints have, in bytes.
const maxExpression = 100

// describe says what is missing, of what, and what to do.
func (l *lookup) describe(f *report.Finding) {
	f.Message, f.Hint = l.message(""), ""
	label := l.set() + or(", or let the template do without: ", l.get())
	isKnown := slices.Contains(known, l.key)
	card := l.card()
	isOfCard := card >= 0 && slices.Contains(ofCard, l.key)
	switch {
	case same(l.in, l.data):
		f.Message, f.Hint = l.ofHost(isKnown)
		return
	case isOfCard:
		f.Message = fmt.Sprintf("the network card spec.nics[%d] has no %s", card, l.key)
		f.Hint = fmt.Sprintf("set spec.nics[%d].%s of the host", card, strings.ToLower(l.key)) + or(", or write ", l.get())
	case card >= 0:
		f.Message = fmt.Sprintf("a network card has no .%s", clip(l.key))
		f.Hint = "a network card has " + names(l.of, ofCard)
		if l.isRoot {
			f.Hint += "; the host has " + names("$", known)
		}
	case same(l.in, l.data["Labels"]):
		f.Message, f.Hint = l.message("label"), label
	case same(l.in, l.data["Annotations"]):
		f.Message, f.Hint = l.message("annotation"), label
	default:
		f.Hint = or("let the template do without: ", l.get())
	}
	if l.in != nil && l.isRoot && l.of == "." && isKnown && !isOfCard {
		f.Hint = fmt.Sprintf("write $.%s for that of the host: . is not the host here", l.key)
	}
}

// ofHost is the message and the hint about a key of the host.
func (l *lookup) ofHost(isKnown bool) (message, hint string) {
	if !isKnown {
		return fmt.Sprintf("there is no .%s", clip(l.key)), "a template can name " + names(l.of, known)
	}
	if l.key == "Server" {
		return "the server does not know its own URL", "start it with --http-url" + or(", or write ", l.get())
	}
	who := "the host has no "
	if l.isUnknown() {
		who = "the machine has no "
	}
	return who + l.key, l.set() + or(", or write ", l.get())
}

// set says where a fact has to be set.
func (l *lookup) set() string {
	if l.isUnknown() {
		return "add a BareMetalHost for the machine"
	}
	return "set it on the host"
}

// isUnknown reports whether the machine is no known host: each of these has a name.
func (l *lookup) isUnknown() bool { return l.data["Name"] == nil }

// message says that a key is missing in an expression, with the name of what the key is where
// the expression does not name it.
func (l *lookup) message(what string) string {
	if what != "" && !strings.HasSuffix(strings.ToLower(l.of), what+"s") {
		return fmt.Sprintf("%s: there is no %s %q", clip(l.context), what, clip(l.key))
	}
	return fmt.Sprintf("%s: there is no %q", clip(l.context), clip(l.key))
}

// get is the action that does without the key; "" where none can be given.
func (l *lookup) get() string {
	if l.in == nil || l.of == "" || len(l.of) > maxExpression || strings.Contains(l.of, "\n") || clip(l.key) != l.key {
		return ""
	}
	return fmt.Sprintf(`{{ get %s %q | default "…" }}`, l.of, l.key)
}

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
