package console

import (
	"fmt"
	"strings"
	"unicode"
)

// visible is a text that a machine may have sent, on one line: a character that is not shown as itself, such as one
// that reverses the direction of writing, is written as its code.
func visible(s string) string { return visibleBut("", s) }

// visibleLines is visible for a text of lines.
func visibleLines(s string) string { return visibleBut("\n\t", s) }

func visibleBut(kept, s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range s { // bytes that are no text become U+FFFD
		switch {
		case unicode.IsPrint(c) || strings.ContainsRune(kept, c):
			b.WriteRune(c)
		case c < 0x80:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}
