package butane

import (
	"fmt"
	"regexp"
	"strings"
)

// mistake is a line that fits nothing around it.
type mistake struct {
	line, column  int
	message, hint string
	// legal is true where YAML takes the line itself, and fails below it.
	legal bool
}

// level is a mapping or a list that encloses a line.
type level struct {
	// at is the offset of its keys or dashes in their lines.
	at   int
	list bool
}

// valueKind is what a line leaves for the lines below it.
type valueKind int

// A plain text may go on below, a value that has ended may not, and the value of a key
// without one is below.
const (
	noValue valueKind = iota
	plainValue
	endedValue
)

// structure reads the lines of a YAML source in block style, and knows what is open at
// each. The YAML library names the line where an outer mapping or list begins, and has no
// words for the mistake.
type structure struct {
	open []level
	text *text
	// quoted is a value in quotes or brackets that has not ended; nil: there is none.
	quoted *quoted
	// value is the kind of the value on the last line. Lines that are indented by more than parent
	// continue it. key is the indentation of its key, or of its text where keyed is false.
	value       valueKind
	parent, key int
	keyed       bool
	found       *mistake
	lost        bool // a line was not understood: there is nothing to say of those below it
}

// findMistake returns the first line that fits nothing around it; nil: there is none.
func findMistake(lines []string) *mistake {
	s := &structure{parent: -1}
	for i, line := range lines {
		s.read(i+1, strings.TrimPrefix(strings.TrimSuffix(line, "\r"), "\ufeff"))
		if s.found != nil || s.lost {
			return s.found
		}
	}
	if q := s.quoted; q != nil {
		return &mistake{line: q.line, column: q.column, message: "the " + q.name() + " that begins here is not closed",
			hint: q.remedy()}
	}
	return nil
}

func (s *structure) fail(line, column int, message, hint string) {
	s.found = &mistake{line: line, column: column, message: message, hint: hint}
}

// read reads a line.
func (s *structure) read(number int, line string) {
	trimmed, indent := strings.TrimSpace(line), indentOf(line)
	if s.quoted != nil {
		s.end(s.quoted.read(line))
		return
	}
	switch {
	case trimmed == "":
		return
	case s.text != nil:
		isPart, found := s.text.read(number, indent, trimmed[0] == '#')
		if s.found = found; isPart || found != nil {
			return
		}
	}
	switch {
	case trimmed[0] == '#':
		if s.value == plainValue {
			s.value = endedValue
		}
	case indent == 0 && (trimmed == "---" || trimmed == "..." || trimmed[0] == '%'):
		*s = structure{parent: -1}
	case trimmed[0] == '?' || strings.HasPrefix(trimmed, "--- "):
		s.lost = true
	case !s.belongs(number, indent, line):
		s.place(number, indent, line)
	}
}

// belongs reads a line below the key or the text that it belongs to, and reports whether it
// does.
func (s *structure) belongs(number, indent int, line string) bool {
	if indent <= s.parent {
		return false
	}
	hasKey, dash := keyEnd(line[indent:]) > 0, isItem(line[indent:])
	switch {
	case s.value == noValue && (hasKey || dash || !s.keyed):
		return false
	case s.value == noValue: // the value of a key begins on a line of its own
		s.key, s.keyed = indent, false
		s.assign(number, indent, line)
	case s.value == plainValue && !hasKey: // it goes on
		s.value = valueOf(line[indent:])
	case s.value == plainValue && !s.keyed && indent < s.key:
		s.fail(number, indent+1, "this line is indented like none of the lines that it could belong to",
			s.remedy(indent, -1, innermost(s.open, dash)))
	case s.value == plainValue && !s.keyed:
		s.lost = true // one of the two lines is wrong
	default:
		hint := "if it belongs beside that line, indent it by " + spaces(indent-s.key) + " less"
		switch {
		case !s.keyed:
			hint = "if it belongs beside the list of that line, indent it less"
		case !hasKey && !dash:
			hint = "a text of several lines is below a key with |"
		}
		s.fail(number, indent+1, "this line is indented deeper than the line above, which has a value already", hint)
	}
	return true
}

// place reads a line that begins a key or an item, and opens and closes what that does.
func (s *structure) place(number, indent int, line string) {
	dash := isItem(line[indent:])
	var closed []level
	for len(s.open) > 0 && s.open[len(s.open)-1].at > indent {
		closed, s.open = append(closed, s.open[len(s.open)-1]), s.open[:len(s.open)-1]
	}
	if n := len(s.open); n > 1 && s.open[n-1] == (level{indent, true}) && !dash && s.open[n-2].at == indent {
		s.open = s.open[:n-1]
	}
	var top level
	n := len(s.open)
	if n > 0 {
		top = s.open[n-1]
	}
	fail := func(message string) {
		s.fail(number, indent+1, message, s.remedy(indent, outermost(closed, dash), innermost(s.open, dash)))
	}
	switch {
	case !dash && noSpace.MatchString(line):
		s.fail(number, indent+1, spaceMissing, spaceHint)
	case n == 0 && !dash && strings.IndexByte("[{", line[indent]) >= 0: // the whole source
		s.assign(number, indent, line)
	case !dash && keyEnd(line[indent:]) == 0:
		s.withoutKey(number, indent, line)
	case len(closed) > 0 && (n == 0 || top.at < indent):
		fail("this line is indented like none of the lines that it could belong to")
	case n > 0 && top == (level{indent, true}) && !dash:
		s.fail(number, indent+1, "this key is indented like the items of the list above it",
			"indent it deeper, if it belongs to the last item, or less, if it belongs beside the list")
	case n > 0 && top == (level{indent, false}) && dash && (len(closed) > 0 || s.value != noValue):
		fail("this item of a list stands where a key is expected")
	default:
		if n == 0 || top.at < indent || dash != top.list {
			s.open = append(s.open, level{indent, dash})
		}
		s.text = nil
		s.begin(number, indent, line)
	}
}

// withoutKey fails for a line that is no item and has no key.
func (s *structure) withoutKey(number, indent int, line string) {
	hint := keyHint
	switch {
	case s.text != nil && s.text.at == 0:
		hint = "the lines of a text after | are indented deeper than its key"
	case s.text != nil:
		hint += "; the lines of a text after | are indented like its first one"
	case strings.HasPrefix(line[indent:], "//"):
		hint = "a comment begins with #"
	case innermost(s.open, true) == indent:
		hint += "; an item begins with a dash and a space"
	}
	s.fail(number, indent+1, keyMissing, hint)
	s.found.legal = true
}

// begin reads the dashes, the key and the value of a line.
func (s *structure) begin(number, indent int, line string) {
	at := indent
	s.parent = indent
	for isItem(line[at:]) {
		s.parent = at
		rest := line[at+1:]
		if at += 1 + indentOf(rest); strings.TrimSpace(rest) == "" {
			s.value, s.key, s.keyed = noValue, at, false
			return
		}
		if isItem(line[at:]) {
			s.open = append(s.open, level{at, true})
		}
	}
	end := keyEnd(line[at:])
	if end > 0 {
		s.parent = at
	}
	if end > 0 && at > indent {
		s.open = append(s.open, level{at, false})
	}
	s.key, s.keyed = at, end > 0
	s.assign(number, at+end, line)
}

// assign reads the value of a line, which begins at an offset.
func (s *structure) assign(number, at int, line string) {
	rest := strings.TrimLeft(line[at:], " ")
	for rest != "" && (rest[0] == '&' || rest[0] == '!') { // an anchor or a tag
		_, rest, _ = strings.Cut(rest, " ")
		rest = strings.TrimLeft(rest, " ")
	}
	at = len(line) - len(rest)
	switch m := blockText.FindStringSubmatch(rest); {
	case m != nil:
		s.text, s.value = &text{key: s.parent}, endedValue
		if m[1] != "" {
			s.text.at = s.parent + int(m[1][0]-'0')
		}
	case rest != "" && strings.IndexByte(`"'[{`, rest[0]) >= 0:
		s.quoted = &quoted{line: number, column: at + 1, first: rest[0]}
		s.end(s.quoted.read(rest))
	default:
		s.value = valueOf(rest)
		s.lost = s.value != noValue && keyEnd(rest) > 0 // a key in a text
	}
}

// end ends a value in quotes or brackets, behind which is rest.
func (s *structure) end(rest string, done bool) {
	if !done {
		return
	}
	q := s.quoted
	s.quoted, s.value = nil, endedValue
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		s.fail(q.line, q.column, "there is other text behind the "+q.name()+" that begins here", q.remedy())
	}
}

// remedy is the hint to indent a line like the lines that it belongs to: deeper and less are
// their offsets, -1 for none.
func (s *structure) remedy(indent, deeper, less int) string {
	if deeper < 0 && s.text != nil {
		deeper = s.text.at
	}
	var ways []string
	if deeper > indent {
		ways = append(ways, "by "+spaces(deeper-indent)+" more")
	}
	if less >= 0 && less < indent {
		ways = append(ways, "by "+spaces(indent-less)+" less")
	}
	switch {
	case s.text != nil && s.text.at == 0:
		return "the lines of a text after | are indented deeper than its key"
	case len(ways) == 0:
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

// valueOf returns what a value without quotes and brackets is for the lines below it.
func valueOf(value string) valueKind {
	value = strings.TrimSpace(value)
	switch {
	case value == "" || value[0] == '#':
		return noValue
	case value[0] == '*' || strings.Contains(value, " #"):
		return endedValue
	}
	return plainValue
}

// keyEnd returns the offset behind the key and the colon with which a text begins; 0: it
// begins with no key.
func keyEnd(text string) int {
	if text == "" || text[0] == '[' || text[0] == '{' {
		return 0
	}
	start := 0
	if text[0] == '"' || text[0] == '\'' {
		q := quoted{first: text[0]}
		rest, done := q.read(text)
		if !done || !strings.HasPrefix(strings.TrimLeft(rest, " "), ":") {
			return 0
		}
		start = len(text) - len(rest)
	}
	at := oneKey.FindStringIndex(text[start:])
	if at == nil || strings.Contains(text[start:start+at[0]], " #") {
		return 0
	}
	return start + at[0] + 1
}

// oneKey finds the end of a key: a colon at the end of a line or before a space.
var oneKey = regexp.MustCompile(`:(?:\s|$)`)

// The messages and hints about lines without a key, and items without a space behind their
// dash.
const (
	keyMissing   = "this line has no key"
	keyHint      = "a key ends with a colon, and a space or a new line behind that"
	spaceMissing = "a space is missing behind the dash of this item"
	spaceHint    = "an item of a list begins with a dash and a space"
)

// noSpace finds an item without a space behind its dash.
var noSpace = regexp.MustCompile(`^\s*-[^\s-]`)

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
