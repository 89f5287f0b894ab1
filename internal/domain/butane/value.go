package butane

import "regexp"

// blockText finds the beginning of a text that is in the lines below its key; its digit is
// the indentation of the text, where that is given.
var blockText = regexp.MustCompile(`^[|>][+-]?([1-9]?)[+-]?\s*(?:#.*)?$`)

// text is the text of a key, in the lines below that.
type text struct {
	// key is the offset of the key, and at that of the text; 0: no line of it was read.
	key, at int
	// comment is the number of a comment that ends the text, and column its place; 0: there
	// is none.
	comment, column int
}

// read reports whether a line with an indentation is a part of the text, or a comment behind
// it. found is the mistake of a line that ends the text and is part of nothing else.
func (t *text) read(number, indent int, comment bool) (isPart bool, found *mistake) {
	switch {
	case comment && (indent <= t.key || indent < t.at):
		if t.comment == 0 {
			t.comment, t.column = number, indent+1
		}
		return true, nil
	case indent <= t.key:
		return false, nil
	case t.at == 0:
		t.at = indent
	case indent < t.at:
		return false, &mistake{
			line: number, column: indent + 1,
			message: "this line is indented less than the first line of the text that it belongs to",
			hint: "indent it by " + spaces(t.at-indent) + " more, like the text, or by " + spaces(indent-t.key) +
				" less, like the key of the text",
		}
	case t.comment > 0:
		return false, &mistake{
			line: t.comment, column: t.column, message: "this comment ends the text above it", legal: true,
			hint: "indent it like the text, or put it behind the text",
		}
	}
	return true, nil
}

// quoted is a value in quotes or brackets, which may go on for several lines.
type quoted struct {
	// line and column are its place, and first is its first character.
	line, column int
	first        byte
	// quote is the open quote, or 0, and depth the number of open brackets.
	quote byte
	depth int
	begun bool
}

// read reads a line of the value. done is true at its end, and rest is what is behind that.
func (q *quoted) read(line string) (rest string, done bool) {
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case q.quote == '"' && c == '\\':
			i++
		case q.quote == '\'' && c == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
		case q.quote != 0 && c == q.quote:
			q.quote = 0
		case q.quote != 0:
			continue
		case (c == '"' || c == '\'') && q.opens(line, i):
			q.quote = c
		case c == '[' || c == '{':
			q.depth++
		case c == ']' || c == '}':
			q.depth--
		case c == '#' && (i == 0 || line[i-1] == ' '):
			return "", false
		}
		q.begun = true
		if q.quote == 0 && q.depth <= 0 {
			return line[i+1:], true
		}
	}
	return "", false
}

// opens reports whether a quote in a line opens a text: one within a word does not.
func (q *quoted) opens(line string, at int) bool {
	if !q.begun || at == 0 {
		return true
	}
	switch line[at-1] {
	case ' ', ',', '[', '{', ':':
		return true
	}
	return false
}

// name is what the value is in, for messages.
func (q *quoted) name() string {
	switch q.first {
	case '"', '\'':
		return "text in quotes"
	case '[':
		return "list in brackets"
	}
	return "mapping in braces"
}

// remedy is the hint about a value that does not end, or has more text behind it.
func (q *quoted) remedy() string {
	switch q.first {
	case '"':
		return `end it with ", and write a quote in it as \"`
	case '\'':
		return "end it with ', and double an apostrophe in it"
	case '[':
		return "end it with ], or quote a text that begins with ["
	}
	return "end it with }, or quote a text that begins with {"
}
