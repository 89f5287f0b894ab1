// Package cli is the command line: one file a subcommand, errors with their
// remedy, and the exit codes 0 (success), 1 (the thing asked for failed) and
// 2 (wrong usage).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Main runs the program with args and gives its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
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

// Root is the whole command tree, for generated documentation.
func Root() *cobra.Command { return newRootCommand() }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "glowplug",
		Short: "Serve each booting machine its own Ignition or Kickstart config",
		Long: `glowplug stores Ignition and Kickstart configs as Kubernetes-style objects and
serves each booting machine the right one, matched by MAC, IP, host name or label.

Every flag can also be given as an environment variable: --data-dir is
GLOWPLUG_DATA_DIR.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Called for every subcommand: flags not given come from the environment.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return flagsFromEnvironment(cmd.Flags())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err: err} })
	root.AddCommand(
		newServeCommand(),
		newCompileCommand(),
		newValidateCommand(),
		newApplyCommand(),
		newExplainCommand(),
		newRenderCommand(),
		newISOCommand(),
		newCoreOSCommand(),
		newStoreCommand(),
		newVersionCommand(),
	)
	strictBuiltins(root)
	return root
}

// strictBuiltins makes the commands that the library brings refuse what they do
// not know, like ours; by themselves they print help and succeed.
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
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usagef("no completion for %q: it is bash, zsh, fish or powershell", args[0])
				}
				return c.Help()
			}
		}
	}
}

// exactArgs is cobra.ExactArgs with a usage error that names what is missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("missing argument %s", names[len(args)])
		case len(args) > len(names):
			return usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}
