package cli

import (
	"bytes"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/client"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/egress"
	"glowplug/internal/remote"
)

func newRenderCommand() *cobra.Command {
	var (
		options clientOptions
		spec    string
		host    string
		format  string
		allow   []string
	)
	cmd := &cobra.Command{
		Use:   "render NAME|FILE|-",
		Short: "Show an Ignition config with all configs that it refers to merged",
		Long: `Follow the references of an Ignition config to other configs (ignition.config.merge,
replace and append) as Ignition does, and write the resulting config. It has no
references, and contains the fetched certificate authorities.

NAME is a config on the server, which fetches from the hosts of its own --allow-fetch.
A FILE (.bu, .butane, .yaml, .yml, .ign, .json, or a path with a slash in it) is
rendered here, and fetches from the hosts of --allow-fetch: host names, *.domain,
addresses and CIDRs. A name does not allow loopback, link-local and other special
addresses: name the address or a CIDR within their range.

A template on the server is rendered for the host of --host. For a template in a file
see glowplug compile --template.

--spec is the newest Ignition version that the machine reads. The config itself is
converted to it, as the server does; a config that it names is not: the command fails,
as the machine does, where one of those has a newer version.`,
		Example: `  glowplug render worker -n rack-a
  glowplug render worker-template -n rack-a --host node-7
  glowplug render worker.bu --allow-fetch config.example.com,10.0.0.0/8
  glowplug render worker.ign --spec 3.2.0`,
		Args: arguments("NAME or FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if spec != "" && !ignition.IsVersion(spec) {
				return usagef("--spec: there is no Ignition spec %q: there are %s", spec, strings.Join(ignition.Versions(), ", "))
			}
			name := args[0]
			if !isFile(name) {
				query := url.Values{}
				for key, value := range map[string]string{"spec": spec, "host": host} {
					if value != "" {
						query.Set(key, value)
					}
				}
				var body []byte
				err := options.do(cmd.Context(), client.Request{
					Resource: kinds.IgnitionConfigs, Namespace: options.namespace(), Name: name, Subresource: "rendered", Query: query,
				}, &body)
				if err != nil && len(allow) > 0 {
					return withHint(err, "this --allow-fetch is for a FILE; the server fetches from the hosts of its own")
				}
				if client.IsMissing(err, kinds.BareMetalHosts) {
					return withHint(err, "--host NAMESPACE/NAME names a host of another namespace than the config's")
				}
				if err != nil {
					return inNamespace(err, options.namespace())
				}
				return writeRendered(cmd.OutOrStdout(), body)
			}
			if host != "" {
				return usagef("--host is for a config on the server; for a file see glowplug compile --template --host")
			}
			list, err := egress.Listed("--allow-fetch", allow)
			if err != nil {
				return usagef("--allow-fetch: %v", err)
			}
			name, config, err := compileIgnition(cmd, name, format, "names others")
			if err != nil {
				return err
			}
			body, err := remote.New(remote.Options{Allow: list}).Render(cmd.Context(), name, config, spec)
			if err != nil {
				return err
			}
			return writeRendered(cmd.OutOrStdout(), body)
		},
	}
	options.addFlags(cmd)
	options.completeArgument(cmd, kinds.IgnitionConfigs, cobra.ShellCompDirectiveDefault)
	options.addNamespace(cmd, "namespace of NAME")
	cmd.Flags().StringVar(&spec, "spec", "", "newest Ignition version that the machine reads, such as 3.2.0")
	cmd.Flags().StringVar(&host, "host", "",
		"BareMetalHost to render a template for: NAME (in the namespace of the config) or NAMESPACE/NAME")
	options.completeFlag(cmd, "host", kinds.BareMetalHosts)
	cmd.Flags().StringVar(&format, "format", "", "format of a FILE: butane or ignition (default: by extension)")
	cmd.Flags().StringSliceVar(&allow, "allow-fetch", nil,
		"for a FILE: host, *.domain, address or CIDR to fetch configs from (repeatable; default: none)")
	return cmd
}

// writeRendered writes a config and ends it with a newline, which a merged one lacks.
func writeRendered(w io.Writer, body []byte) error {
	if !bytes.HasSuffix(body, []byte("\n")) {
		body = append(body, '\n')
	}
	_, err := w.Write(body)
	return err
}
