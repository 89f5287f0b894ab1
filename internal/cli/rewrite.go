package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"glowplug/internal/client"
)

func newRewriteCommand() *cobra.Command {
	var options clientOptions
	cmd := &cobra.Command{
		Use: "rewrite", Short: "Encrypt all stored objects with the server's present key",
		Long: `Write those objects again that are stored with another encryption key than the first one
in the server's encryption configuration, or without encryption. Run it after a change
of that file, once all servers of the store have the new one. When it has ended, the
server removes the files with the former values, and former keys are not needed any more.`,
		Example: `  glowplug rewrite
  glowplug rewrite --server http://127.0.0.1:8081`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var bar *progress
			total := 0
			for { // until nothing is left
				var answer struct{ Rewritten, Left int }
				request := client.Request{Method: http.MethodPost, Path: "/api/v1/rewrite"}
				if err := options.do(cmd.Context(), request, &answer); err != nil {
					if total > 0 {
						return fmt.Errorf("%d objects are rewritten, others are left: %w", total, err)
					}
					return err
				}
				total += answer.Rewritten
				if bar == nil {
					bar = newCountProgress(cmd.ErrOrStderr(), "rewriting", int64(answer.Rewritten+answer.Left))
				}
				bar.add(int64(answer.Rewritten))
				if answer.Left == 0 {
					break
				}
			}
			bar.done()
			if total == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "all objects are stored with the present key already")
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d objects rewritten with the present key\n", total)
			return nil
		},
	}
	options.addFlags(cmd)
	return cmd
}
