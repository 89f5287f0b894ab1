package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"glowplug/internal/loader"
)

func newBootLoadersCommand() *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "boot-loaders",
		Short: "List the boot loaders on this machine that serve --pxe-interface gives to others",
		Long: `List the boot loaders in the folders of Debian's and Fedora's packages, or in a folder. The
columns are the firmware, the signature for Secure Boot, and the SBAT generations, by which
firmware revokes loaders. An asterisk marks the default loader of each kind of firmware;
spec.pxe.loader of a host names another one.`,
		Example: `  glowplug boot-loaders
  glowplug boot-loaders --boot-loaders /srv/loaders -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := loader.In(dir)
			if err != nil {
				return err
			}
			return writeAs(cmd.OutOrStdout(), output, set.All(), func(out io.Writer) error {
				return printLoaders(out, cmd.ErrOrStderr(), set)
			})
		},
	}
	cmd.Flags().StringVar(&dir, "boot-loaders", "", "folder of boot loaders (default: those of the packages)")
	addOutput(cmd, &output)
	return cmd
}

// printLoaders writes a line for each loader, and what is missing.
func printLoaders(out, notes io.Writer, set *loader.Set) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tFIRMWARE\tDEFAULT\tSIGNED\tSBAT\tFILE")
	for _, l := range set.All() {
		given, signed := "", "no"
		if set.For(l.Arch) == l {
			given = "*"
		}
		if l.Signed {
			signed = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Arch, given, signed,
			cmp.Or(strings.Join(l.SBAT, " "), "-"), l.Path)
	}
	if len(set.All()) > 0 {
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, arch := range loader.Arches {
		if set.For(arch) == nil {
			fmt.Fprintf(notes, "there is no iPXE for %s: %s\n", arch, loader.Package(arch))
		}
	}
	return nil
}
