// Package option has the error of an option that cannot be used.
package option

import "fmt"

// Error is an option that cannot be used; it names the flag.
type Error struct {
	// Flag is the name of the flag, without its dashes.
	Flag   string
	Reason string
}

func (e *Error) Error() string { return "--" + e.Flag + ": " + e.Reason }

// Bad returns the error about the value of a flag.
func Bad(flag, format string, args ...any) error {
	return &Error{Flag: flag, Reason: fmt.Sprintf(format, args...)}
}
