package butane

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// level is a mapping or a list that encloses a line.
type level struct {
	// at is the offset of its keys or dashes in their lines.
	at   int
	list bool
}

// blockText finds a key whose text is in the lines below it; its digit is the indentation of
// the text, where that is given.
var blockText = regexp.MustCompile(`(?:^|[\s:])[|>][+-]?([1-9]?)[+-]?\s*(?:#.*)?$`)

// text is the text of a key, in the lines below that.
type text struct {
	// key is the offset of the key, and at that of the text; 0: no line of it was read.
	key, at int
	// comment is the number of a comment that ends the text; 0: there is none.
	comment int
}

// misplaced finds the first line whose indentation fits no mapping, list and text that is
// open at it, where the YAML library names the line at which the outer one begins. It
// returns the number of the line, 0 for none. It reads block style only. The hint counts
// spaces from the line itself, so that it holds in a manifest, too, where the config is
// indented.
func misplaced(lines []string) (number int, message, hint string) {
	var open []level
	var in *text        // nil: outside of a text
	var hasValue = true // the line before has a value or a text
	for i, line := range lines {
		trimmed, indent := strings.TrimSpace(line), indentOf(line)
		if trimmed == "" {
			continue
		}
		if in != nil {
			if reads, message, hint := in.read(i+1, indent, trimmed[0] == '#'); message != "" {
				return cmp.Or(in.comment, i+1), message, hint
			} else if reads {
				continue
			}
		}
		if trimmed[0] == '#' {
			continue
		}
		in = nil
		dash := isItem(line[indent:])
		var popped []level
		for len(open) > 0 && open[len(open)-1].at > indent {
			popped, open = append(popped, open[len(open)-1]), open[:len(open)-1]
		}
		if n := len(open); n > 1 && open[n-1] == (level{indent, true}) && !dash && open[n-2].at == indent {
			open = open[:n-1]
		}
		n := len(open)
		switch {
		case len(popped) > 0 && (n == 0 || open[n-1].at < indent):
			return i + 1, "this line is indented like none of the lines that it could belong to",
				remedy(indent, outermost(popped, dash), innermost(open, dash))
		case n > 0 && open[n-1].at == indent && open[n-1].list && !dash:
			return i + 1, "this key is indented like the items of the list above it",
				"indent it deeper, if it belongs to the last item, or less, if it belongs beside the list"
		case n > 0 && open[n-1] == (level{indent, false}) && dash && (len(popped) > 0 || hasValue):
			return i + 1, "this item of a list stands where a key is expected",
				remedy(indent, outermost(popped, dash), innermost(open, dash))
		case n == 0 || open[n-1].at < indent || dash != open[n-1].list:
			open = append(open, level{indent, dash})
		}
		for at := indent; isItem(line[at:]) && strings.TrimSpace(line[at+1:]) != ""; {
			at += 1 + indentOf(line[at+1:])
			open = append(open, level{at, isItem(line[at:])})
		}
		hasValue = !withoutValue.MatchString(trimmed) && trimmed != "-"
		if m := blockText.FindStringSubmatch(line); m != nil {
			in = &text{key: open[len(open)-1].at}
			if m[1] != "" {
				in.at = in.key + int(m[1][0]-'0')
			}
			hasValue = true
		}
	}
	return 0, "", ""
}

// read reports whether a line with an indentation is a part of the text. The message is that
// of a line which ends the text and is part of nothing else.
func (t *text) read(number, indent int, comment bool) (isPart bool, message, hint string) {
	switch {
	case indent <= t.key:
		if comment && t.comment == 0 {
			t.comment = number
		}
		return comment, "", ""
	case t.comment > 0 && !comment:
		return false, "this comment ends the text above it", "indent it like the text, or put it behind the text"
	case t.at == 0:
		t.at = indent
	case indent < t.at && comment && t.comment == 0:
		t.comment = number
	case indent < t.at && !comment:
		return false, "this line is indented less than the first line of the text that it belongs to",
			"indent it by " + spaces(t.at-indent) + " more, like the text, or by " + spaces(indent-t.key) + " less, like the key of the text"
	}
	return true, "", ""
}

// remedy is the hint to indent a line like the lines that it belongs to: deeper and less are
// their offsets, -1 for none.
func remedy(indent, deeper, less int) string {
	var ways []string
	if deeper > indent {
		ways = append(ways, "by "+spaces(deeper-indent)+" more")
	}
	if less >= 0 && less < indent {
		ways = append(ways, "by "+spaces(indent-less)+" less")
	}
	if len(ways) == 0 {
		return ""
	}
	return "indent it " + strings.Join(ways, ", or ") + ", like the lines that it belongs to"
}

// outermost returns the offset of the outermost of the mappings that end before a line, or of
// the lists before an item; -1: there is none. closed has the innermost first.
func outermost(closed []level, dash bool) int {
	for i := len(closed) - 1; i >= 0; i-- {
		if closed[i].list == dash {
			return closed[i].at
		}
	}
	return -1
}

// innermost returns the offset of the innermost open mapping, or list for an item; -1: there
// is none. A key is not indented like the items of a list.
func innermost(open []level, dash bool) int {
	for i := len(open) - 1; i >= 0; i-- {
		if open[i].list == dash {
			return open[i].at
		}
	}
	return -1
}

// isItem reports whether a text begins with the dash of a list.
func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// keyOffset is the offset in a line of its key, behind the dashes of lists.
func keyOffset(line string) int {
	at := indentOf(line)
	for isItem(line[at:]) {
		at += 1 + indentOf(line[at+1:])
	}
	return at
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}
