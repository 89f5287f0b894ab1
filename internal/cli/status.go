package cli

import (
	"time"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/status"
)

// statusCommand has the flags of status.
type statusCommand struct {
	clientOptions
	output string
}

func newStatusCommand() *cobra.Command {
	s := &statusCommand{}
	cmd := &cobra.Command{
		Use:   "status [[NAMESPACE/]HOST]",
		Short: "Show how the servers are, or what a host boots, and what needs attention",
		Long: `Show on one screen how the servers are, the store, the disks, the last backup, how many
hosts, images and configs are in which state, and what needs attention: servers that are
missing or not ready, hosts whose boot failed or takes no further step or whose
conditions are not met, and configs and images in phase Error. With -n, hosts, images and
configs are those of one namespace. What the user may not read is left out, and named, as
is what the store does not have now.

With a host, show its state: what it would boot and receive now, what it
received last and when, and what needs attention: conditions that are not met, a config
that is served in an older result or that the image cannot read, warnings of events, and
a plan that destroys data or fails on the disks of the host (status.hardware).

glowplug explain shows why a host receives its config, and glowplug plan --host what
Ignition will do with it.`,
		Example: `  glowplug status
  glowplug status node-1 -n rack-a
  glowplug status rack-a/node-1 -o json`,
		Args: arguments("[HOST]"),
		RunE: s.run,
	}
	s.addFlags(cmd)
	s.completeArgument(cmd, kinds.BareMetalHosts, cobra.ShellCompDirectiveNoFileComp)
	s.addHostNamespace(cmd, "HOST")
	addOutput(cmd, &s.output)
	return cmd
}

func (s *statusCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if len(args) == 0 {
		found, err := status.Overview(ctx, s.do, s.flagNamespace, time.Now())
		if err != nil {
			return err
		}
		return writeAs(cmd.OutOrStdout(), s.output, found, asText(found.Text(time.Now())))
	}
	host, err := s.readHost(ctx, hostName(args[0]))
	if err != nil {
		return err
	}
	found, _, err := status.Of(ctx, s.do, host, time.Now())
	if err != nil {
		return err
	}
	return writeAs(cmd.OutOrStdout(), s.output, found, asText(found.Text(time.Now())))
}
