// Command gendocs writes docs/reference: the commands from the program's own
// flags, the API from the comments of the types in api/v1, the metrics from a server's
// registry.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"glowplug/internal/cli"
)

func main() {
	dir := filepath.Join("docs", "reference")
	api, err := apiReference(filepath.Join("api", "v1"))
	if err != nil {
		log.Fatal(err)
	}
	metrics, err := metricReference()
	if err != nil {
		log.Fatal(err)
	}
	pages := map[string]string{"commands.md": commandReference(), "api.md": api, "metrics.md": metrics}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// commandReference returns a page with every command, its flags and their variables.
func commandReference() string {
	var b strings.Builder
	b.WriteString("# Commands\n\nGenerated from the program by `make generate`. " +
		"Every flag is also an environment variable; repeatable flags take a comma-separated list there, " +
		"but --karg one argument. " +
		"Exit codes: 0 success, 1 the command failed, 2 wrong usage.\n")
	writeCommands(&b, cli.Root())
	return b.String()
}

// writeCommands writes the commands of a command, each before its own.
func writeCommands(b *strings.Builder, of *cobra.Command) {
	for _, cmd := range of.Commands() {
		if cmd.Hidden || cmd.Name() == "help" || of.Name() == "completion" {
			continue
		}
		writeCommand(b, cmd)
		writeCommands(b, cmd)
	}
}

func writeCommand(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## glowplug %s\n\n", strings.TrimPrefix(strings.TrimSuffix(cmd.UseLine(), " [flags]"), "glowplug "))
	fmt.Fprintf(b, "%s\n", cmp.Or(cmd.Long, cmd.Short+"."))
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.Example)
	}
	if !cmd.HasAvailableLocalFlags() {
		return
	}
	b.WriteString("\n| flag | variable | default | meaning |\n|---|---|---|---|\n")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		def := f.DefValue
		if f.Value.Type() == "stringSlice" {
			def = strings.Trim(def, "[]")
		}
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `--%s` | `GLOWPLUG_%s` | %s | %s |\n", f.Name,
			strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), def, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
}
