package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/report"
)

func newISOListCommand() *cobra.Command {
	var (
		options   clientOptions
		namespace string
		output    string
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the server's ISO images",
		Example: `  glowplug iso list
  glowplug iso list -n g10 -o json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			request := client.Request{Resource: cdroms, Namespace: namespace}
			var list v1.ISCSICdromList
			if err := options.do(cmd.Context(), request, &list); err != nil {
				return err
			}
			if output != outputText {
				return writeOutput(cmd.OutOrStdout(), output, &list)
			}
			return writeISOList(cmd.OutOrStdout(), list.Items)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only this namespace (default all)")
	addOutput(cmd, &output)
	return cmd
}

func writeISOList(w io.Writer, list []v1.ISCSICdrom) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tNAME\tPHASE\tSIZE\tDISTRO\tVOLUME\tRELEASE\tREADERS\tMESSAGE")
	for i := range list {
		c, s := &list[i], &list[i].Status
		message := cmp.Or(s.ErrorMessage, progressSentence(s))
		if c.Spec.External != nil {
			message = "external: " + c.Spec.External.Portal + " " + c.Spec.External.IQN
		}
		fields := []string{c.Namespace, c.Name, s.Phase, report.Size(s.ISOSize), s.Distro, s.VolumeID, s.ServedRelease,
			fmt.Sprint(len(s.Subscribers)), message}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(fields, "\t"), "\t"))
	}
	return t.Flush()
}
