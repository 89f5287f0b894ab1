package ipxe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// maxText bounds a value that is shown, in bytes.
const maxText = 200

// plain reports whether a character may stand in a word: it ends none, is no
// operator and begins no variable.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~:/?%=&@+,[]",
		c) >= 0
}

// word returns a value that is one word of a line, or an error that names it and
// does not quote it.
func word(name, value string) (string, error) {
	if value == "" {
		return "", fmt.Errorf("%s cannot stand in a boot script: it is empty", name)
	}
	for i := range len(value) {
		if !plain(value[i]) || value == "&&" {
			return "", fmt.Errorf("%s cannot stand in a boot script: it has a character that is not a letter, a digit or one "+
				"of -._~:/?%%=&@+,[]", name)
		}
	}
	return value, nil
}

// Argument returns a kernel argument as the words of a line. A value with blanks
// stands in double quotes, as the kernel reads it; iPXE keeps them.
func Argument(value string) (string, error) {
	words := strings.Fields(value)
	for _, w := range words {
		if _, err := word("the kernel argument", strings.ReplaceAll(w, `"`, "")); err != nil && strings.Trim(w, `"`) != "" {
			return "", fmt.Errorf("%w, or \"", err)
		}
	}
	if len(words) == 0 || strings.Count(value, `"`)%2 != 0 {
		return "", errors.New("the kernel argument is empty, or has a quote that is not closed")
	}
	return strings.Join(words, " "), nil
}

// escape returns a value as one word, or nothing where it is empty: every
// character that may not stand in a word is an underscore, an ampersand too.
func escape(value string) string {
	if len(value) > maxText {
		value = value[:maxText]
	}
	return strings.Map(func(r rune) rune {
		if r > '~' || r == '&' || !plain(byte(r)) {
			return '_'
		}
		return r
	}, value)
}

// text returns a value as words that are shown: operators, variables, comments and
// what is not ASCII are question marks, a semicolon is a comma, all white space is
// a space.
func text(value string) string {
	if len(value) > maxText {
		value = value[:maxText]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '\t':
			return ' '
		case r == ';':
			return ','
		case r <= ' ' || r > '~' || strings.ContainsRune("$#{}|&\\`<>", r):
			return '?'
		}
		return r
	}, value))
}

// secret gives the assignment of a setting, which iPXE takes as bytes in
// hexadecimal where it cannot stand as it is.
func secret(setting, value string) string {
	safe := value != ""
	for i := range len(value) {
		safe = safe && plain(value[i]) && value[i] != '&'
	}
	if safe {
		return "set " + setting + " " + value
	}
	var b strings.Builder
	for i := range len(value) {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(hex.EncodeToString([]byte{value[i]}))
	}
	return "set " + setting + ":hex " + b.String()
}
