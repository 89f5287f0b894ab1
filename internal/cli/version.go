package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"glowplug/internal/version"
)

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  glowplug version
  glowplug version -o json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeAs(cmd.OutOrStdout(), output, map[string]string{
				"version": version.Version, "commit": version.Commit(), "kubernetesVersion": version.KubernetesVersion,
				"goVersion": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}, asText(version.Line()+"\n"))
		},
	}
	addOutput(cmd, &output)
	return cmd
}
