package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/app"
	"glowplug/internal/client"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
)

func newExplainCommand() *cobra.Command {
	var (
		options   clientOptions
		manifests []string
		output    string
		endpoint  string
		expect    string
		isolate   bool
		accept    string
		agent     string
	)
	cmd := &cobra.Command{
		Use:   "explain [mac=… ip=… hostname=… uuid=… role=… spec=…]",
		Short: "Say which config a machine is given, and why",
		Long: `Say which host a machine is, which config it is given, and for every other config
why not. The facts are those of the serving URL: mac, ip, hostname, uuid, role, and
spec for a config in one Ignition version. --accept and --user-agent are the headers
of the client, by which it is given a version that it reads.

With --manifests it answers from files, before anything is applied. With
--expect it fails unless that config wins, for use in a test of your own.`,
		Example: `  glowplug explain --server http://127.0.0.1:8081 mac=52:54:00:10:00:11
  glowplug explain --manifests examples/ ip=192.168.10.20 --endpoint kickstart
  glowplug explain --manifests rack/ mac=525400100011 --expect g10/coreos-builder`,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := parseFacts(args)
			if err != nil {
				return err
			}
			if endpoint != decide.Ignition && endpoint != decide.Kickstart {
				return usagef("--endpoint: %q is neither ignition nor kickstart", endpoint)
			}
			if output != "text" && output != "json" {
				return usagef("--output: %q is neither text nor json", output)
			}
			query.Set("accept", accept)
			query.Set("user-agent", agent)
			var answer *decide.Explanation
			if len(manifests) > 0 {
				answer, err = explainOffline(cmd.ErrOrStderr(), query, endpoint, isolate, manifests)
			} else {
				query.Set("endpoint", endpoint)
				answer, err = explainOnline(cmd, &options, query)
			}
			if err != nil {
				return err
			}
			if err := writeExplanation(cmd.OutOrStdout(), answer, output); err != nil {
				return err
			}
			return expected(answer, expect)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringSliceVar(&manifests, "manifests", nil,
		"answer from these files and folders instead of a server (repeatable)")
	cmd.Flags().BoolVar(&isolate, "isolate-namespaces", false, "with --manifests: as a server with --isolate-namespaces")
	cmd.Flags().StringVar(&endpoint, "endpoint", decide.Ignition, "ignition or kickstart")
	cmd.Flags().StringVar(&accept, "accept", "", "the client's Accept header")
	cmd.Flags().StringVar(&agent, "user-agent", "", "the client's User-Agent header")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringVar(&expect, "expect", "", "fail unless this config (namespace/name) is the one")
	return cmd
}

// parseFacts reads key=value arguments.
func parseFacts(args []string) (url.Values, error) {
	query := url.Values{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usagef("%q is no fact: want mac=…, ip=…, hostname=…, uuid=…, role=… or spec=…", arg)
		}
		switch key {
		case "mac", "ip", "hostname", "uuid", "role", "spec":
			query.Set(key, value)
		default:
			return nil, usagef("%q is no fact: there are mac, ip, hostname, uuid, role and spec", key)
		}
	}
	return query, nil
}

func explainOnline(cmd *cobra.Command, options *clientOptions, query url.Values) (*decide.Explanation, error) {
	answer := &decide.Explanation{}
	return answer, options.get(cmd.Context(), client.Request{Path: "/api/v1/explain", Query: query}, answer)
}

func explainOffline(stderr io.Writer, query url.Values, endpoint string, isolate bool,
	paths []string) (*decide.Explanation, error) {
	claims, fault := identity.ParseClaims(query.Encode())
	if fault != nil {
		return nil, usagef("%s", fault.Sentence)
	}
	decider, problems, err := app.Offline(decide.Policy{Isolate: isolate}, paths...)
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "warning: %v\n", p)
	}
	return decider.Explain(&decide.Request{Type: endpoint, Caller: identity.Caller{Believed: true}, Claims: claims,
		Accept: query.Get("accept"), UserAgent: query.Get("user-agent")}), nil
}

func writeExplanation(w io.Writer, answer *decide.Explanation, output string) error {
	if output == "text" {
		return writeExplanationText(w, answer)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(answer)
}

func expected(answer *decide.Explanation, want string) error {
	got := "none"
	if answer.Winner != nil {
		got = answer.Winner.Config
	}
	if want == "" || want == got {
		return nil
	}
	return fmt.Errorf("the config is %s, expected %s", got, want)
}
