package kickstart

import "strings"

// word is a word of a line, without its quotes.
type word struct {
	text string
	// column counts bytes from 1.
	column int
}

// blanks separate words.
const blanks = " \t\r"

// split returns the words of a line, up to a comment, by the rules of the installer,
// which are those of a POSIX shell without variables. The fault says where the line
// breaks them; its column is 0 where it does not.
func split(line string) ([]word, fault) {
	var words []word
	for i := 0; i < len(line); {
		if strings.IndexByte(blanks, line[i]) >= 0 {
			i++
			continue
		}
		if line[i] == '#' {
			break
		}
		text, end, broken := scan(line, i)
		if broken.column > 0 {
			return nil, broken
		}
		words = append(words, word{text, i + 1})
		i = end
	}
	return words, fault{}
}

// scan reads the word at i, and returns its end.
func scan(line string, i int) (string, int, fault) {
	var text strings.Builder
	for i < len(line) && line[i] != '#' && strings.IndexByte(blanks, line[i]) < 0 {
		switch line[i] {
		case '\'', '"':
			n, closed := quoted(&text, line[i:])
			if !closed {
				return "", 0, fault{i + 1, "a quote is not closed on this line",
					"a command with its values stands on one line"}
			}
			i += n
		case '\\':
			if i+1 == len(line) {
				return "", 0, fault{i + 1, "a backslash does not continue a line in a kickstart",
					"write the command on one line"}
			}
			text.WriteByte(line[i+1])
			i += 2
		default:
			text.WriteByte(line[i])
			i++
		}
	}
	return text.String(), i, fault{}
}

// quoted reads a string that begins with its quote, and returns its length with both
// quotes. A backslash in double quotes stands for itself, except before one of the two.
func quoted(text *strings.Builder, s string) (int, bool) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i + 1, true
		case s[0] == '"' && s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		}
		text.WriteByte(s[i])
	}
	return 0, false
}
