package cli

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

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
		}
	})
	return first
}

// environmentName is the variable of a flag: GLOWPLUG_DATA_DIR for data-dir.
func environmentName(flag string) string {
	return "GLOWPLUG_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
