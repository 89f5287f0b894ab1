package cli

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/plan"
	"glowplug/internal/domain/wording"
)

// statusCommand has the flags of status.
type statusCommand struct {
	clientOptions
	output string
}

func newStatusCommand() *cobra.Command {
	s := &statusCommand{}
	cmd := &cobra.Command{
		Use:   "status [NAMESPACE/]HOST",
		Short: "Show what a host boots and receives now, what it received last, and what needs attention",
		Long: `Show the state of a host on one screen: what it would boot and receive now, what it
received last and when, and what needs attention: conditions that are not met, a config
that is served in an older result or that the image cannot read, warnings of events, and
a plan that destroys data or fails on the disks of the host (status.hardware).

glowplug explain shows why a host receives its config, and glowplug plan --host what
Ignition will do with it.`,
		Example: `  glowplug status node-1 -n rack-a
  glowplug status rack-a/node-1 -o json`,
		Args: arguments("HOST"),
		RunE: s.run,
	}
	s.addFlags(cmd)
	s.completeArgument(cmd, "baremetalhosts", cobra.ShellCompDirectiveNoFileComp)
	s.addHostNamespace(cmd, "HOST")
	addOutput(cmd, &s.output)
	return cmd
}

func (s *statusCommand) run(cmd *cobra.Command, args []string) error {
	if err := checkOutput(s.output); err != nil {
		return err
	}
	ctx := cmd.Context()
	namespace, name, err := s.findHost(ctx, hostName(args[0]))
	if err != nil {
		return err
	}
	host := &v1.BareMetalHost{}
	err = s.do(ctx, client.Request{Resource: "baremetalhosts", Namespace: namespace, Name: name}, host)
	if err != nil {
		return inNamespace(err, namespace)
	}
	status := wording.StatusOf(host)
	if err := s.explain(ctx, status); err != nil {
		return err
	}
	if err := s.plan(ctx, host, status); err != nil {
		return err
	}
	if err := s.events(ctx, host, status); err != nil {
		return err
	}
	if err := s.boots(ctx, host, status); err != nil {
		return err
	}
	if s.output != outputText {
		return writeOutput(cmd.OutOrStdout(), s.output, status)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), status.Text(time.Now()))
	return err
}

// explain asks what the machine boots and receives: an Ignition config or, without one, a kickstart.
func (s *statusCommand) explain(ctx context.Context, status *wording.Status) error {
	var answer *explain.Explanation
	for _, endpoint := range []string{decide.Ignition, decide.Kickstart} {
		answer = &explain.Explanation{}
		query := url.Values{"host": {status.Host}, "endpoint": {endpoint}}
		if err := s.do(ctx, client.Request{Path: "/api/v1/explain", Query: query}, answer); err != nil {
			return err
		}
		if answer.Winner != nil {
			break
		}
	}
	status.Explain(answer)
	return nil
}

// plan plans the config on the disks that the host has reported.
func (s *statusCommand) plan(ctx context.Context, host *v1.BareMetalHost, status *wording.Status) error {
	if status.Gets == nil || status.Gets.Hash == "" || host.Status.Hardware == nil {
		return nil
	}
	namespace, name, _ := strings.Cut(status.Gets.Config, "/")
	result := &plan.Plan{}
	err := s.do(ctx, client.Request{
		Resource: "ignitionconfigs", Namespace: namespace, Name: name, Subresource: "plan",
		Query: url.Values{"host": {status.Host}},
	}, result)
	switch {
	case err != nil && client.Code(err) != 0: // such as for a kickstart, or where a reference cannot be fetched
		status.NotPlanned(err)
		return nil
	case err != nil:
		return err
	}
	status.Planned(result)
	return nil
}

// boots adds the newest boot and the one before.
func (s *statusCommand) boots(ctx context.Context, host *v1.BareMetalHost, status *wording.Status) error {
	list := &v1.BootList{}
	query := url.Values{"fieldSelector": {"host=" + host.Name}, "limit": {"2"}}
	err := s.do(ctx, client.Request{Resource: "boots", Namespace: host.Namespace, Query: query}, list)
	if client.Code(err) == http.StatusForbidden || client.Code(err) == http.StatusNotFound {
		return nil // a role without boots, or a server without them
	}
	if err != nil {
		return err
	}
	status.LastBoots, err = timelinesOf(ctx, &s.clientOptions, host.Namespace, list.Items)
	return err
}

// events adds the newest warnings about the host.
func (s *statusCommand) events(ctx context.Context, host *v1.BareMetalHost, status *wording.Status) error {
	list := &v1.EventList{}
	selector := "involvedObject.kind=BareMetalHost,involvedObject.name=" + host.Name + ",type=" + v1.EventWarning
	err := s.do(ctx, client.Request{
		Resource: "events", Namespace: host.Namespace, Query: url.Values{"fieldSelector": {selector}},
	}, list)
	if err != nil {
		return err
	}
	status.Warn(list.Items, host.Status.Conditions, time.Now())
	return nil
}
