package cli

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"glowplug/internal/app"
)

func newServeCommand() *cobra.Command {
	var o app.Options
	var config string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server. The first start makes the store, a CA, a certificate and an admin
token under --data-dir, and prints the kubectl line to use. SIGTERM and SIGINT
stop it gracefully: boots in flight finish, then the store closes.

A flag on the command line comes before its variable of the environment, that
before the file of --config, and the file before the default.`,
		Example: `  glowplug serve
  glowplug serve --admin-listen 127.0.0.1:8081 --manifests examples/
  glowplug serve --config /etc/glowplug/glowplug.yaml
  glowplug serve --listen 192.168.10.2:80 --listen :8082 --data-dir /var/lib/glowplug`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := setFromFile(cmd.Flags(), config, cmd.ErrOrStderr()); err != nil {
				return err
			}
			// Only here: a signal ends a command that waits for its input at once.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			a, err := app.New(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return a.Run(ctx)
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&config, configFlag, "", "YAML file with settings, whose keys are the names of these flags"+
		" and whose lists are for repeatable ones; glowplug config check checks it")
	for flag, choices := range app.Choices {
		completeChoices(cmd, flag, choices...)
	}
	return cmd
}
