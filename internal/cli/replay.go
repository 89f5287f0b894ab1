package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/status"
)

func newReplayCommand() *cobra.Command {
	var (
		options clientOptions
		script  bool
	)
	cmd := &cobra.Command{
		Use:   "replay [NAMESPACE/]BOOT",
		Short: "Show the bytes that a machine was given at a boot",
		Long: `Write the config that a machine received at a boot, byte for byte as it was served, or with
--script the boot script. The name of a boot is HOST.NUMBER; glowplug boots lists them.

Placeholders stand for the values of Secrets, and marks in a script for the token of the boot
and for the names and passwords of a login: the server does not keep them. A config needs the
verb get on ignitionconfigs/rendered in its namespace, besides that on boots/rendered.`,
		Example: `  glowplug replay node-1.7 -n rack-a
  glowplug replay rack-a/node-1.7 --script`,
		Args: arguments("BOOT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := bootName(cmd.Context(), &options, args[0])
			if err != nil {
				return err
			}
			part := status.PartConfig
			if script {
				part = status.PartScript
			}
			body, err := status.Replay(cmd.Context(), options.do, namespace, name, part)
			if err != nil {
				return err
			}
			if status.IsMarked(body) {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: "+status.Marked)
			}
			_, err = cmd.OutOrStdout().Write(body)
			return err
		},
	}
	options.addFlags(cmd)
	options.completeArgument(cmd, kinds.Boots, cobra.ShellCompDirectiveNoFileComp)
	options.addHostNamespace(cmd, "BOOT")
	cmd.Flags().BoolVar(&script, "script", false, "show the boot script instead of the config")
	return cmd
}

// bootPattern is the name of a boot.
var bootPattern = regexp.MustCompile(`^.+\.\d+$`)

// bootName returns the namespace and the name of a boot in the command line.
func bootName(ctx context.Context, o *clientOptions, arg string) (namespace, name string, err error) {
	if err := checkBootName(arg); err != nil {
		return "", "", err
	}
	if strings.HasPrefix(arg, model.Stranger("").Name) { // no host
		return metav1.NamespaceDefault, arg, nil
	}
	host, number := arg[:strings.LastIndex(arg, ".")], arg[strings.LastIndex(arg, "."):]
	namespace, host, err = o.findBoots(ctx, host)
	return namespace, host + number, err
}

func checkBootName(arg string) error {
	if bootPattern.MatchString(arg) {
		return nil
	}
	return withHint(usagef("%q is not the name of a boot, which is HOST.NUMBER, as node-1.7", arg),
		"glowplug boots HOST lists the boots of a host")
}

// boots compares two boots.
func (d *diffCommand) boots(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 1:
		return usagef("missing the other BOOT: two boots are compared")
	case len(d.preparer.files) > 0 || d.preparer.deletes || d.show:
		return usagef("-f, --delete and --show are for manifests, and not for boots")
	}
	for _, arg := range args {
		if err := checkBootName(arg); err != nil {
			return err
		}
	}
	var requests [2]client.Request
	for i, arg := range args {
		namespace, name, err := bootName(cmd.Context(), &d.clientOptions, arg)
		if err != nil {
			return err
		}
		requests[i] = client.Request{Resource: kinds.Boots, Namespace: namespace, Name: name}
	}
	var boots [2]v1.Boot
	for i, request := range requests {
		if err := d.do(cmd.Context(), request, &boots[i]); err != nil {
			return inNamespace(err, request.Namespace)
		}
	}
	difference, err := status.Compare(cmd.Context(), d.do, &boots[0], &boots[1])
	if err != nil {
		return err
	}
	err = writeAs(cmd.OutOrStdout(), d.output, difference, asText(difference.Text()))
	if err == nil && len(difference.Differences) > 0 {
		return exitError(exitChanges)
	}
	return err
}
