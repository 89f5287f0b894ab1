package kickstart

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// whole is a whole number as the installer reads it.
var whole = regexp.MustCompile(`^\s*[+-]?\d+(_\d+)*\s*$`)

// mustBe says what a value must be, where the text is something else.
func (v value) mustBe(text string) string {
	switch v.kind {
	case "number":
		return v.mustBeNumber(text)
	case "boolean":
		if !slices.Contains(booleans, strings.ToLower(text)) {
			return "one of " + strings.Join(booleans, ", ")
		}
	case "choice":
		if !slices.ContainsFunc(v.choices, func(c string) bool {
			return c == text || v.anyCase && strings.EqualFold(c, text)
		}) {
			return "one of " + strings.Join(v.choices, ", ")
		}
	}
	return ""
}

var booleans = []string{"on", "yes", "true", "1", "off", "no", "false", "0"}

func (v value) mustBeNumber(text string) string {
	must := "a whole number"
	switch {
	case v.most != nil:
		must = fmt.Sprintf("a whole number from %d to %d", *v.least, *v.most)
	case v.least != nil:
		must = fmt.Sprintf("a whole number from %d", *v.least)
	}
	if !whole.MatchString(text) {
		return must
	}
	if v.least == nil {
		return ""
	}
	n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(text), "_", ""))
	if err != nil || n < *v.least || v.most != nil && n > *v.most {
		return must
	}
	return ""
}

// empty says that a value is as good as none for the rules: no text, an empty list, 0.
func (v value) empty(text string) bool {
	switch v.kind {
	case "text", "choice":
		return text == ""
	case "list":
		return strings.Trim(text, ", \t") == ""
	case "number":
		return strings.Trim(text, "+-0_ \t") == ""
	}
	return false
}
