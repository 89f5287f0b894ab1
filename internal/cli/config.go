package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"glowplug/internal/app"
	"glowplug/internal/option"
	"glowplug/internal/store/natsd"
)

func newConfigCommand() *cobra.Command {
	return newGroup("config", "Check the config file of serve",
		`Check the config file of serve --config: YAML whose keys are the names of the flags of
serve.`,
		newConfigCheck())
}

// configCheck is `glowplug config check`.
type configCheck struct {
	all    bool
	output string
	out    io.Writer
}

func newConfigCheck() *cobra.Command {
	var c configCheck
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a config file, and print what serve would run with",
		Long: `Check a config file as serve --config reads it: its keys, its values, and the files
that they name. Without a mistake it prints the settings of the file and of the
environment, whose variables win, and where each is from. A password in a URL is
not shown.`,
		Example: `  glowplug config check /etc/glowplug/glowplug.yaml
  glowplug config check --all -o yaml glowplug.yaml`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.out = cmd.OutOrStdout()
			return c.check(args[0], cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&c.all, "all", false, "print the defaults as well")
	addOutput(cmd, &c.output)
	return cmd
}

// check checks a file, and prints its mistakes or the settings.
func (c configCheck) check(path string, stderr io.Writer) error {
	var o app.Options
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flagsFromEnvironment(flags); err != nil {
		return err
	}
	file, err := readConfigFile(path, flags)
	if err != nil {
		return fileError(err)
	}
	if file.set(flags); !file.found.HasError() {
		if err := file.tryOptions(o, flags); err != nil {
			return err
		}
	}
	if file.found.HasError() {
		if err := printReport(stderr, path, file.shown(), file.found.Tidy()); err != nil {
			return err
		}
		return errSilent
	}
	return c.print(file, flags)
}

// tryOptions checks the values as serve does. An error about a setting of the file is a mistake
// at its line; others are returned.
func (c *configFile) tryOptions(o app.Options, flags *pflag.FlagSet) error {
	err := o.Check()
	var bad *option.Error
	if !errors.As(err, &bad) {
		return err
	}
	for _, s := range c.settings {
		if s.name == bad.Flag && !strings.HasPrefix(originOf(flags, s.name), variableOrigin) {
			c.refuse(s.at, bad.Flag+": "+bad.Reason, "")
			return nil
		}
	}
	if from := originOf(flags, bad.Flag); from != "" {
		return withHint(err, "the value is that of "+from)
	}
	return err
}

// effective is a setting that serve would run with.
type effective struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	From    string `json:"from"`
}

// print prints the settings that serve would run with.
func (c configCheck) print(file *configFile, flags *pflag.FlagSet) error {
	settings := []effective{}
	flags.VisitAll(func(f *pflag.Flag) {
		from := originOf(flags, f.Name)
		if from == "" && !c.all {
			return
		}
		value := f.Value.String()
		if _, list := f.Value.(pflag.SliceValue); list {
			value = strings.Trim(value, "[]")
		}
		if f.Name == "nats-url" && value != "" {
			value = natsd.Redacted(value)
		}
		settings = append(settings, effective{Setting: f.Name, Value: value, From: cmp.Or(from, "the default")})
	})
	if c.output != outputText {
		return writeOutput(c.out, c.output, settings)
	}
	fmt.Fprintf(c.out, "%s: valid\n", file.path)
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	if len(settings) > 0 {
		fmt.Fprintln(table, "SETTING\tVALUE\tFROM")
	}
	for _, s := range settings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Setting, s.Value, s.From)
	}
	return table.Flush()
}
