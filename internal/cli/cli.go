// Package cli is the command line: one file a command, errors with a remedy, and the
// exit codes 0 (success), 1 (the command failed) and 2 (wrong usage); plan has two more.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"glowplug/internal/option"
	"glowplug/internal/version"
)

// Main runs the program with args and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	var code exitError
	if errors.As(err, &code) {
		return int(code)
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintf(stderr, "error: %v\n", err)
		if hint := hintOf(err, cmd); hint != "" {
			fmt.Fprintf(stderr, "hint: %s\n", hint)
		}
	}
	if isUsage(err) {
		return 2
	}
	return 1
}

// Root returns the whole command tree.
func Root() *cobra.Command {
	root := newGroup("glowplug", "Serve each booting machine its own Ignition or Kickstart config",
		`glowplug stores Ignition and Kickstart configs as Kubernetes-style objects and
serves each booting machine the right one, matched by MAC, IP, host name or label.

Every flag can also be set as an environment variable: --data-dir is
GLOWPLUG_DATA_DIR. The flags of serve can be in a file, too: serve --config.`,
		newServeCommand(), newCompileCommand(), newValidateCommand(), newApplyCommand(), newDiffCommand(),
		newExplainCommand(), newConfigCommand(), newProbeCommand(),
		newPlanCommand(), newStatusCommand(), newBootsCommand(), newReplayCommand(), newAdoptCommand(), newRenderCommand(),
		newISOCommand(), newBootLoadersCommand(), newReinstallCommand(), newDoctorCommand(), newConsoleCommand(),
		newCoreOSCommand(), newStoreCommand(), newTokenCommand(), newRewriteCommand(),
		newKubeconfigCommand(), newBackupCommand(), newRestoreCommand(), newExportCommand(), newFsckCommand(),
		newVersionCommand())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version.Version
	root.SetVersionTemplate(version.Line() + "\n")
	// It is called for every subcommand: flags that are not set come from the environment.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		warnOfVariables(cmd)
		return cmp.Or(flagsFromEnvironment(cmd.Flags()), checkChoices(cmd.Flags()))
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// An unknown subcommand is the mistake, not the flags that it was given.
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return showHelp(cmd, args)
		}
		return usageError{err}
	})
	strictBuiltins(root)
	return root
}

// newGroup returns a command that has subcommands and does nothing itself.
func newGroup(use, short, long string, subcommands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: showHelp}
	group.AddCommand(subcommands...)
	return group
}

// showHelp runs a group. Its arguments are unknown subcommands.
func showHelp(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown command %q", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "glowplug "))
	}
	return cmd.Help()
}

// strictBuiltins makes cobra's own commands refuse unknown arguments, like ours. Without
// it they print help and succeed.
func strictBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run, c.PersistentPreRun = nil, nil
			c.RunE = func(_ *cobra.Command, args []string) error {
				topic, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return usagef("unknown command %q", strings.Join(args, " "))
				}
				return topic.Help()
			}
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, showHelp
			for _, shell := range c.Commands() {
				shell.Args = arguments()
			}
		}
	}
}

// arguments returns a check that there is one argument for each name, for "[NAME]" at
// most one, and for "NAME…" at least one.
func arguments(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return usagef("missing argument %s", strings.TrimSuffix(name, "…"))
			}
			if strings.HasSuffix(name, "…") {
				return nil
			}
		}
		if len(args) > len(names) {
			return usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// choicesOf annotates a flag with the values that it takes, beside its default.
const choicesOf = "choices"

// addChoices gives a flag its values: the shell completes them, and others are refused before the command runs.
func addChoices(cmd *cobra.Command, flag string, choices ...string) {
	completeChoices(cmd, flag, choices...)
	_ = cmd.Flags().SetAnnotation(flag, choicesOf, choices) // it exists: completeChoices has found it
}

// checkChoices refuses flags whose value is not one of their choices.
func checkChoices(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if choices := f.Annotations[choicesOf]; err == nil && choices != nil && f.Value.String() != f.DefValue {
			err = checkChoice(f.Name, f.Value.String(), choices...)
		}
	})
	return err
}

// checkChoice refuses a value of a flag that is not one of the choices.
func checkChoice(flag, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool { return choice == "" })
	return usagef("--%s: %q is not one of %s", flag, value, strings.Join(named, ", "))
}

// errSilent ends a command with exit code 1 when the reason has been printed already.
var errSilent = errors.New("failed")

// usageError is an invalid command line: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// isUsage reports whether an error is of the command line, or of an option in app.
func isUsage(err error) bool {
	return errors.As(err, new(usageError)) || errors.As(err, new(*option.Error))
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
		if cmd.Name() == "help" {
			cmd = cmd.Root()
		}
		if from := originOfError(cmd.Flags(), err); from != "" {
			return "the value is that of " + from
		}
		return fmt.Sprintf("'%s --help' lists the arguments and flags", cmd.CommandPath())
	}
	var at *fs.PathError
	if errors.As(err, &at) && errors.Is(err, fs.ErrPermission) {
		return permissionHint(at.Path)
	}
	return ""
}

// warner returns a function that prints a warning with its remedy.
func warner(cmd *cobra.Command) func(message, remedy string) {
	return func(message, remedy string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\nhint: %s\n", message, remedy)
	}
}

// permissionHint is the remedy for a file that the user of this program may not use.
func permissionHint(path string) string {
	return fmt.Sprintf("this program runs as user %d: check the owners and modes of %s and the folders above it",
		os.Geteuid(), path)
}

// fileError adds a remedy to an error of opening a file.
func fileError(err error) error {
	var at *fs.PathError
	switch {
	case errors.As(err, &at) && errors.Is(err, fs.ErrNotExist):
		if at.Path == "-" {
			return withHint(usagef("this command does not read standard input"), "name a file")
		}
		return withHint(fmt.Errorf("there is no file or folder %s", at.Path), "check the path")
	case errors.As(err, &at) && errors.Is(err, fs.ErrPermission):
		return withHint(fmt.Errorf("%s may not be read", at.Path), permissionHint(at.Path))
	}
	return err
}
