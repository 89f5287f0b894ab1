package ipxe

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxText bounds a value that is printed, in bytes.
const maxText = 200

// isPlain reports whether a character may be part of a word: it ends none, is no operator
// and begins no variable.
func isPlain(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("-._~:/?%=&@+,[]", c)
}

// word returns a value that is one word of a line, or an error that names it without
// quoting it.
func word(name, value string) (string, error) {
	if value == "" {
		return "", fmt.Errorf("%s cannot stand in a boot script: it is empty", name)
	}
	if value == "&&" || strings.ContainsFunc(value, func(c rune) bool { return !isPlain(c) }) {
		return "", fmt.Errorf("%s cannot stand in a boot script: it has a character that is not a letter, a digit or one "+
			"of -._~:/?%%=&@+,[]", name)
	}
	return value, nil
}

// Argument returns a kernel argument as the words of a line. A value with blanks
// is put in double quotes, as the kernel reads it; iPXE keeps them.
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

// escape returns a value as one word: every character that may not be part of a word, and
// every ampersand, becomes an underscore.
func escape(value string) string {
	if len(value) > maxText {
		value = value[:maxText]
	}
	return strings.Map(func(c rune) rune {
		if c == '&' || !isPlain(c) {
			return '_'
		}
		return c
	}, value)
}

// text returns a value as text to print: characters of operators, variables and comments,
// and those that are not ASCII, become question marks, a semicolon a comma, a tab a space.
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

// secret returns the assignment of a setting. A value that is no word is assigned as bytes
// in hexadecimal.
func secret(setting, value string) string {
	if value != "" && !strings.ContainsFunc(value, func(c rune) bool { return c == '&' || !isPlain(c) }) {
		return "set " + setting + " " + value
	}
	return "set " + setting + ":hex " + strings.ReplaceAll(fmt.Sprintf("% x", value), " ", ":")
}

// credentials finds the assignments of the names and passwords of a login. A value goes on to the next command.
var credentials = regexp.MustCompile(
	`(?m)\b(set[ \t]+(?:reverse-)?(username|password))(?::\w+)?[ \t]+\S.*?([ \t]+(?:&&|\|\|)|$)`)

// Masked returns a script with marks in place of the token of a boot, which may be "", and of the names and passwords
// that it sets.
func Masked(script, token string) string {
	if token != "" {
		script = strings.ReplaceAll(script, token, "<token>")
	}
	if !strings.Contains(script, "username") && !strings.Contains(script, "password") { // most scripts set none
		return script
	}
	return credentials.ReplaceAllString(script, "$1 <chap $2>$3")
}
