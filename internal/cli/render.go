package cli

import (
	"bytes"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/client"
	"glowplug/internal/egress"
	"glowplug/internal/remote"
)

func newRenderCommand() *cobra.Command {
	var (
		options   clientOptions
		namespace string
		spec      string
		host      string
		format    string
		allow     []string
	)
	cmd := &cobra.Command{
		Use:   "render NAME|FILE|-",
		Short: "Show the Ignition config that a machine ends up with",
		Long: `Follow the references of an Ignition config to others (ignition.config.merge,
replace and append) as Ignition does, and write what they come to: without
references, and with the certificate authorities that are fetched written into it.

NAME is a config on the server, which fetches from where its own --allow-fetch says.
A FILE (.bu, .butane, .yaml, .yml, .ign, .json, or a path with a slash in it) is
rendered here, and fetches from where --allow-fetch says: hosts, *.domain, addresses
and CIDRs. Nothing is fetched from loopback, link-local and other special addresses
but where a CIDR names them.

A template on the server is rendered for the host that --host names; one in a file is
shown by glowplug compile --template.

--spec asks for what a machine ends up with that reads up to a version; it fails where
a config on the way is of a later one, as the machine does.`,
		Example: `  glowplug render worker -n rack-a
  glowplug render worker-template -n rack-a --host node-7
  glowplug render worker.bu --allow-fetch config.example.com,10.0.0.0/8
  glowplug render worker.ign --spec 3.2.0`,
		Args: exactArgs("NAME or FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if name != "-" && !strings.Contains(name, "/") && formatOf(name) == "" {
				query := url.Values{}
				if spec != "" {
					query.Set("spec", spec)
				}
				if host != "" {
					query.Set("host", host)
				}
				var body []byte
				err := options.get(cmd.Context(), client.Request{
					Resource: "ignitionconfigs", Namespace: namespace, Name: name, Subresource: "rendered", Query: query,
				}, &body)
				if err != nil {
					return err
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
			src, err := sourceOf(name, format)
			if err != nil {
				return err
			}
			if name, err = fill(&src, name, cmd.InOrStdin()); err != nil {
				return err
			}
			artifact, err := compileSource(src, name, "", cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if artifact.IgnitionVersion == "" {
				return usagef("%s is a kickstart: only an Ignition config names others", name)
			}
			renderer := remote.New(remote.Options{Allow: list})
			body, err := renderer.Render(cmd.Context(), name, artifact.Bytes, spec)
			if err != nil {
				return err
			}
			return writeRendered(cmd.OutOrStdout(), body)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of NAME")
	cmd.Flags().StringVar(&spec, "spec", "", "newest spec version that the machine reads, such as 3.2.0")
	cmd.Flags().StringVar(&host, "host", "",
		"BareMetalHost that a template is rendered for, NAME (in the namespace of the config) or NAMESPACE/NAME")
	cmd.Flags().StringVar(&format, "format", "", "format of a FILE: butane or ignition (default: by extension)")
	cmd.Flags().StringSliceVar(&allow, "allow-fetch", nil,
		"host, *.domain, address or CIDR that configs may be fetched from for a FILE (repeatable; default: nothing is "+
			"fetched)")
	return cmd
}

// writeRendered ends a config with a newline, which one that was merged does not have.
func writeRendered(w io.Writer, body []byte) error {
	if !bytes.HasSuffix(body, []byte("\n")) {
		body = append(body, '\n')
	}
	_, err := w.Write(body)
	return err
}
