package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
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
		Short: "Show which config a machine receives, and why",
		Long: `Show which host a machine is, which config it receives, and why each other config
does not match. The facts are the parameters of the serving URL: mac, ip, hostname,
uuid, role, and spec for one Ignition version. --accept and --user-agent are the
client's headers, which decide the Ignition version of the answer.

With --manifests the command answers from files, before anything is applied. With
--expect it fails unless that config wins, for use in a test.`,
		Example: `  glowplug explain --server http://127.0.0.1:8081 mac=52:54:00:10:00:11
  glowplug explain --manifests examples/ ip=192.168.10.20 --endpoint kickstart
  glowplug explain --manifests rack/ mac=525400100011 --expect g10/coreos-builder`,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := parseFacts(args)
			if err != nil {
				return err
			}
			if err := cmp.Or(checkChoice("endpoint", endpoint, decide.Ignition, decide.Kickstart), checkOutput(output)); err != nil {
				return err
			}
			query.Set("accept", accept)
			query.Set("user-agent", agent)
			var answer *decide.Explanation
			if len(manifests) > 0 {
				answer, err = explainOffline(cmd.ErrOrStderr(), query, endpoint, isolate, manifests)
			} else {
				query.Set("endpoint", endpoint)
				answer = &decide.Explanation{}
				err = options.do(cmd.Context(), client.Request{Path: "/api/v1/explain", Query: query}, answer)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				err = writeJSON(cmd.OutOrStdout(), answer)
			} else {
				err = writeExplanationText(cmd.OutOrStdout(), answer)
			}
			if err != nil {
				return err
			}
			return checkWinner(answer, expect)
		},
	}
	options.addFlags(cmd)
	cmd.Flags().StringSliceVar(&manifests, "manifests", nil,
		"answer from these files and folders instead of a server (repeatable)")
	cmd.Flags().BoolVar(&isolate, "isolate-namespaces", false, "with --manifests: answer as a server with --isolate-namespaces")
	cmd.Flags().StringVar(&endpoint, "endpoint", decide.Ignition, "ignition or kickstart")
	cmd.Flags().StringVar(&accept, "accept", "", "the client's Accept header")
	cmd.Flags().StringVar(&agent, "user-agent", "", "the client's User-Agent header")
	addOutput(cmd, &output)
	cmd.Flags().StringVar(&expect, "expect", "", "fail unless this config (namespace/name) wins")
	return cmd
}

// parseFacts reads key=value arguments.
func parseFacts(args []string) (url.Values, error) {
	query := url.Values{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || !slices.Contains([]string{"mac", "ip", "hostname", "uuid", "role", "spec"}, key) {
			return nil, usagef("%q is not a fact: want mac=…, ip=…, hostname=…, uuid=…, role=… or spec=…", arg)
		}
		query.Set(key, value)
	}
	return query, nil
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

// checkWinner returns an error where another config wins than the expected one.
func checkWinner(answer *decide.Explanation, want string) error {
	got := "none"
	if answer.Winner != nil {
		got = answer.Winner.Config
	}
	if want == "" || want == got {
		return nil
	}
	return fmt.Errorf("the config is %s, expected %s", got, want)
}
