package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const variablePrefix = "GLOWPLUG_"

// serviceVariable matches what Kubernetes sets in a Pod for a Service named glowplug-…:
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
var serviceVariable = regexp.MustCompile(`(^|_)(SERVICE_(HOST|PORT)(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP).*)?)$`)

// flagsFromEnvironment sets every flag that is not on the command line from GLOWPLUG_<FLAG>.
// A repeatable flag takes a comma-separated list.
func flagsFromEnvironment(flags *pflag.FlagSet) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(environmentName(f.Name))
		if !ok || f.Changed || first != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = usagef("%s: %w", environmentName(f.Name), err)
			return
		}
		_ = flags.SetAnnotation(f.Name, origin, []string{variableOrigin + environmentName(f.Name)})
	})
	return first
}

const (
	// origin annotates a flag that has its value from elsewhere than the command line.
	origin = "origin"
	// variableOrigin is the beginning of an origin that is a variable.
	variableOrigin = "the variable "
)

// originOf returns where a flag has its value from; "" for the command line and the default.
func originOf(flags *pflag.FlagSet, name string) string {
	f := flags.Lookup(name)
	if f == nil || len(f.Annotations[origin]) == 0 {
		return ""
	}
	return f.Annotations[origin][0]
}

// originOfError returns where the value is from that an error is about, whose text begins with
// the flag; "" for the command line, the default or another error.
func originOfError(flags *pflag.FlagSet, err error) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "--"), ":")
	return originOf(flags, name)
}

// environmentName is the variable of a flag: GLOWPLUG_DATA_DIR for data-dir.
func environmentName(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// warnOfVariables warns of variables that are no flag of any command, such as
// GLOWPLUG_LISTENN: they have no effect.
func warnOfVariables(cmd *cobra.Command) {
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	addVariables(known, cmd.Root())
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		rest, ok := strings.CutPrefix(name, variablePrefix)
		isName := func(c *cobra.Command) bool { return c.Use == name }
		if !ok || serviceVariable.MatchString(rest) || slices.ContainsFunc(known.Commands(), isName) {
			continue
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the variable %s is ignored: no command has the flag --%s\n", name,
			strings.ToLower(strings.ReplaceAll(rest, "_", "-")))
		if near := known.SuggestionsFor(name); len(near) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "hint: did you mean %s?\n", near[0])
		}
	}
}

// addVariables adds the variable of each flag of a command, and of those below it, as
// commands, since cobra finds similar names of commands.
func addVariables(known, of *cobra.Command) {
	of.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		known.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	})
	for _, c := range of.Commands() {
		addVariables(known, c)
	}
}
