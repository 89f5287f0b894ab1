package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
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
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usagef("--output: %q is neither text nor json", output)
			}
			var body []byte
			if err := options.get(cmd.Context(), client.Request{Resource: cdroms, Namespace: namespace}, &body); err != nil {
				return err
			}
			if output == "json" {
				_, err := cmd.OutOrStdout().Write(body)
				return err
			}
			var list v1.ISCSICdromList
			if err := json.Unmarshal(body, &list); err != nil {
				return fmt.Errorf("the server's answer cannot be read: %w", err)
			}
			return writeISOList(cmd.OutOrStdout(), list.Items)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only this namespace (default all)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func writeISOList(w io.Writer, list []v1.ISCSICdrom) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tNAME\tPHASE\tSIZE\tDISTRO\tVOLUME\tRELEASE\tREADERS\tMESSAGE")
	for i := range list {
		c, s := &list[i], &list[i].Status
		size := ""
		if s.ISOSize > 0 {
			size = byteCount(s.ISOSize)
		}
		message := s.ErrorMessage
		if message == "" {
			message = progressSentence(s)
		}
		if c.Spec.External != nil {
			message = "external: " + c.Spec.External.Portal + " " + c.Spec.External.IQN
		}
		fields := []string{c.Namespace, c.Name, s.Phase, size, s.Distro, s.VolumeID, s.ServedRelease,
			fmt.Sprint(len(s.Subscribers)), message}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(fields, "\t"), "\t"))
	}
	return t.Flush()
}
