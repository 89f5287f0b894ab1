package butane

import (
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

// blockText finds a key whose text is in the lines below it.
var blockText = regexp.MustCompile(`(^|[\s:])[|>][0-9+-]*\s*(#.*)?$`)

// misplaced finds the first line whose indentation fits no mapping and no list that is
// open at it, where the YAML library names the line at which the outer one begins. It
// returns the number of the line, 0 for none. It reads block style only. The hint counts
// spaces from the line itself, so that it holds in a manifest, too, where the config is
// indented.
func misplaced(lines []string) (number int, message, hint string) {
	var open []level
	text := -1 // the offset of the key whose text the lines belong to; -1 outside of one
	for i, line := range lines {
		trimmed, indent := strings.TrimSpace(line), indentOf(line)
		if trimmed == "" || trimmed[0] == '#' || text >= 0 && indent > text {
			continue
		}
		dash := isItem(line[indent:])
		// The offset of the outermost mapping that ends before the line, or list for an item;
		// where none of this kind ends, of the outermost one.
		deeper, fits := -1, false
		for len(open) > 0 && open[len(open)-1].at > indent {
			if last := open[len(open)-1]; last.list == dash || !fits {
				deeper, fits = last.at, last.list == dash
			}
			open = open[:len(open)-1]
		}
		if n := len(open); n > 1 && open[n-1] == (level{indent, true}) && !dash && open[n-2].at == indent {
			open = open[:n-1]
		}
		n := len(open)
		switch {
		case deeper >= 0 && (n == 0 || open[n-1].at < indent):
			hint = "indent it by " + spaces(deeper-indent) + " more"
			if n > 0 {
				hint += ", or by " + spaces(indent-outer(open, dash)) + " less"
			}
			return i + 1, "this line is indented like none of the lines that it could belong to",
				hint + ", like the lines that it belongs to"
		case n > 0 && open[n-1].at == indent && open[n-1].list && !dash:
			return i + 1, "this key is indented like the items of the list above it",
				"indent it deeper, if it belongs to the last item, or less, if it belongs beside the list"
		case deeper >= 0 && open[n-1].at == indent && !open[n-1].list && dash:
			return i + 1, "this item of a list stands where a key is expected",
				fmt.Sprintf("indent it like the items that it belongs to: by %s more", spaces(deeper-indent))
		case n == 0 || open[n-1].at < indent || dash != open[n-1].list:
			open = append(open, level{indent, dash})
		}
		for at := indent; isItem(line[at:]); {
			at += 1 + indentOf(line[at+1:])
			open = append(open, level{at, isItem(line[at:])})
		}
		if text = -1; blockText.MatchString(line) {
			text = open[len(open)-1].at
		}
	}
	return 0, "", ""
}

// outer returns the offset of the innermost open mapping, or list for an item: a key is not
// indented like the items of a list.
func outer(open []level, dash bool) int {
	for i := len(open) - 1; i >= 0; i-- {
		if open[i].list == dash {
			return open[i].at
		}
	}
	return open[len(open)-1].at
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
