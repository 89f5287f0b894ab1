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
		Long: `Print the metadata of a stream's current release as the server has it, or without a
server what is in a file, once it has been checked: the bytes are those that were
imported.

--legacy prints the older rhcos.json form of one architecture, for programs that do
not yet read stream metadata.`,
		Example: `  glowplug coreos print-stream-json --stream stable |
    jq -r .architectures.x86_64.artifacts.vmware.formats.ova.disk.location
  glowplug coreos print-stream-json rhcos-amd64.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("arch") && !legacy {
				return usagef("--arch goes with --legacy alone: stream metadata is of all architectures")
			}
			var doc *coreos.Document
			var err error
			if len(args) == 1 {
				if release != "" {
					return usagef("--release is asked of a server, and %s is given", args[0])
				}
				doc, err = readMetadata(cmd.Context(), cmd.InOrStdin(), stream, args[0])
			} else {
				doc, _, err = askMetadata(cmd, &client, stream, release)
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
	cmd.Flags().StringVar(&stream, "stream", "", "the stream (default: the only one that the server has)")
	cmd.Flags().StringVar(&release, "release", "", "a certain release (default: the current one)")
	cmd.Flags().BoolVar(&legacy, "legacy", false, "print the older rhcos.json form of one architecture")
	cmd.Flags().StringVar(&arch, "arch", "x86_64", "architecture for --legacy")
	return cmd
}

// askMetadata fetches a stream's document from the server and reads it.
func askMetadata(cmd *cobra.Command, client *clientOptions, stream, release string) (*coreos.Document, string, error) {
	data, name, err := serverMetadata(cmd.Context(), client, stream, release)
	if err != nil {
		return nil, "", err
	}
	doc, err := coreos.Parse(data)
	if err != nil {
		return nil, "", fmt.Errorf("the server's document: %w", err)
	}
	return doc, name, nil
}
