package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/coreos"
)

func newCoreOSPrintCommand() *cobra.Command {
	var (
		client                clientOptions
		stream, release, arch string
		legacy                bool
	)
	cmd := &cobra.Command{
		Use:   "print-stream-json [FILE-or-URL]",
		Short: "Print the metadata of a CoreOS stream as JSON",
		Long: `Print the metadata of a stream's current release as the server has it, exactly as it
was imported, or the checked contents of a file or URL. An imported rhcos.json is
printed in the form of stream metadata.

--legacy prints the older rhcos.json form of one architecture, for programs that do
not read stream metadata yet.`,
		Example: `  glowplug coreos print-stream-json --stream stable |
    jq -r .architectures.x86_64.artifacts.vmware.formats.ova.disk.location
  glowplug coreos print-stream-json rhcos-amd64.json`,
		Args: arguments("[FILE-or-URL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("arch") && !legacy {
				return usagef("--arch goes with --legacy alone: stream metadata has all architectures")
			}
			var doc *coreos.Document
			var err error
			if len(args) == 1 {
				if release != "" {
					return usagef("--release is for a stream of the server, and %s is given", args[0])
				}
				doc, err = readMetadata(cmd.Context(), cmd.InOrStdin(), stream, args[0])
				if err == nil && stream != "" && doc.Stream.Stream != stream {
					err = fmt.Errorf("%s is of the stream %s, and --stream is %s", shown(args[0]), doc.Stream.Stream, stream)
				}
			} else {
				doc, _, err = serverMetadata(cmd.Context(), &client, stream, release)
			}
			if err != nil {
				return err
			}
			data := doc.Raw
			if legacy {
				if data, err = doc.Legacy(arch); err != nil {
					return err
				}
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&stream, "stream", "", "stream (default: the server's only one)")
	cmd.Flags().StringVar(&release, "release", "", "release (default: the current one)")
	cmd.Flags().BoolVar(&legacy, "legacy", false, "print the older rhcos.json form of one architecture")
	cmd.Flags().StringVar(&arch, "arch", "x86_64", "architecture for --legacy")
	return cmd
}
