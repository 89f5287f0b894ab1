package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"glowplug/internal/app"
)

// errSilent ends a command with exit code 1 when the reason has been printed already.
var errSilent = errors.New("failed")

// usageError is an invalid command line: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// isUsage reports whether an error is of the command line, or of an option in app.
func isUsage(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(*app.OptionError))
}

// hintedError is an error with a remedy.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }

// Hint returns the remedy. Errors of other packages have such a method, too.
func (e hintedError) Hint() string { return e.hint }

// withHint adds a remedy to err.
func withHint(err error, hint string) error { return hintedError{err, hint} }

func hintOf(err error, cmd *cobra.Command) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
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

// fileError adds a remedy to an error of opening a file.
func fileError(err error) error {
	var at *fs.PathError
	switch {
	case errors.As(err, &at) && errors.Is(err, fs.ErrNotExist):
		return withHint(fmt.Errorf("there is no file %s", at.Path),
			"check the path; \"-\" reads standard input where a FILE is expected")
	case errors.As(err, &at) && errors.Is(err, fs.ErrPermission):
		return withHint(fmt.Errorf("%s may not be read", at.Path), "check the file's owner and mode")
	}
	return err
}
