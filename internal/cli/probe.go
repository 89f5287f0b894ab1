package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"glowplug/internal/app"
)

const (
	// probeTimeout bounds how long a probe waits for its answer.
	probeTimeout = 5 * time.Second
	// maxProbe bounds what is read of an answer, in bytes.
	maxProbe = 16 << 10
)

func newProbeCommand() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "probe [URL]",
		Short: "Ask the server on this machine whether machines are answered",
		Long: `Ask the server on this machine whether it answers machines, for the health check of a
container, which has no other program. The answer of /readyz/boot is printed if it does
not. The address is the first of --listen, as the file of --config or GLOWPLUG_LISTEN has
it; of a server with other flags on its command line, name the URL.`,
		Example: `  glowplug probe
  glowplug probe http://127.0.0.1:8082/readyz`,
		Args: arguments("[URL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return probe(cmd.Context(), args[0])
			}
			var o app.Options
			flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			o.AddFlags(flags)
			if err := flagsFromEnvironment(flags); err != nil {
				return err
			}
			if err := setFromFile(flags, config, cmd.ErrOrStderr()); err != nil {
				return err
			}
			if len(o.Listeners.Listen) == 0 {
				return withHint(usagef("the server has no plain HTTP"), "name a URL")
			}
			return probe(cmd.Context(), "http://"+local(o.Listeners.Listen[0])+"/readyz/boot")
		},
	}
	cmd.Flags().StringVar(&config, configFlag, "", "config file of the server")
	return cmd
}

// local is the address of a listener as this machine reaches it. It is no name, since a container
// may have no file with names.
func local(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip == netip.IPv4Unspecified():
		host = "127.0.0.1"
	case err == nil && ip == netip.IPv6Unspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// probe asks a URL. Its error has the answer, unless that is 200.
func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{err}
	}
	client := http.Client{Transport: &http.Transport{}} // no proxy: the server is on this machine
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxProbe))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s\n%s", url, answer.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
