package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errSilent ends a command with exit code 1 when it has already said why.
var errSilent = errors.New("failed")

// usageError is a command line that cannot be carried out: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return usageError{err: fmt.Errorf(format, args...)}
}

func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u)
}

// hintedError carries the line that says what to do about it.
type hintedError struct {
	err  error
	hint string
}

func (e hintedError) Error() string { return e.err.Error() }
func (e hintedError) Unwrap() error { return e.err }

// withHint adds a remedy to err.
func withHint(err error, hint string) error { return hintedError{err: err, hint: hint} }

func hintOf(err error, cmd *cobra.Command) string {
	var h hintedError
	if errors.As(err, &h) {
		return h.hint
	}
	// Errors of other packages bring their remedy along in this way.
	var remedy interface{ Hint() string }
	if errors.As(err, &remedy) {
		return remedy.Hint()
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedName() == "loopback-admin" {
		return "--admin-listen 127.0.0.1:8081 took its place: a listener of its own," +
			" for root and the user that the server runs as"
	}
	if isUsage(err) {
		return fmt.Sprintf("'%s --help' lists the arguments and flags", cmd.CommandPath())
	}
	return ""
}
