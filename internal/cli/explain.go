package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

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
			err = cmp.Or(checkChoice("endpoint", endpoint, decide.Ignition, decide.Kickstart), checkOutput(output))
			if err != nil {
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
	cmd.Flags().BoolVar(&isolate, "isolate-namespaces", false,
		"with --manifests: answer as a server with --isolate-namespaces")
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

// writeExplanationText writes an explanation as text: the client, its facts, the answer,
// and a table of all candidates.
func writeExplanationText(w io.Writer, e *decide.Explanation) error {
	var b strings.Builder
	line := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			fmt.Fprintf(&b, "%-10s %s\n", name, strings.Join(parts, ", "))
		}
	}
	line("client", cmp.Or(e.Client.Address, "unknown"), prefixed("neighbour ", e.Client.Neighbor),
		when(e.Client.Believed, "believed"))
	if e.Host == "" {
		line("host", "unknown")
	} else {
		line("host", e.Host+" (found by "+e.FoundBy+")")
	}
	line("mac", e.Facts.MACs...)
	line("ip", e.Facts.IPs...)
	line("hostname", e.Facts.Hostnames...)
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(e.Facts.Labels)) {
		labels = append(labels, k+"="+e.Facts.Labels[k])
	}
	line("labels", labels...)
	line("role", e.Facts.Role)
	line("image", prefixed("names ", e.Facts.ImageConfig))
	if boot := e.Boot; boot != nil {
		what := "its disk"
		if !boot.Local {
			what = strings.TrimSpace(prefixed("image ", boot.Image) + when(boot.Script, " by its own script"))
		}
		line("boots", what, "state "+boot.State, boot.Reason, boot.Error)
		line("release", boot.Release, prefixed("reads Ignition spec up to ", boot.MaxIgnition))
		line("arguments", boot.KernelArgs...)
		line("warning", boot.Skew)
	}
	if winner := e.Winner; winner != nil {
		line("winner", winner.Config+" by "+winner.Tier, rendered(winner), prefixed("spec ", winner.IgnitionVersion),
			prefixed("given as spec ", winner.Served), winner.Hash,
			when(winner.Stale, "stale: the newest source is not what is served"))
		for _, layer := range winner.Layers {
			line("layer", layerText(layer))
		}
	}
	line("answer", fmt.Sprintf("%d %s", e.Status, e.Endpoint), e.Error)
	for _, n := range e.Notices {
		line("event", strings.TrimSpace(n.Reason+" "+n.Host)+": "+n.Message)
	}
	writeOrigins(&b, e.Winner)
	writeCandidates(&b, e.Candidates)
	_, err := io.WriteString(w, b.String())
	return err
}

// layerText returns a layer as text.
func layerText(l decide.ExplainedLayer) string {
	text := l.Name
	if short := l.Hash; len(short) > 19 {
		text += " (" + short[:19] + ")"
	}
	return text + when(l.Changed, " which has changed since") + when(l.Failing, ", its last good compilation")
}

// rendered describes the rendering of a template.
func rendered(w *decide.Winner) string {
	switch {
	case !w.Template:
		return ""
	case w.Size == 0:
		return "a template, not rendered"
	}
	return fmt.Sprintf("a template, rendered to %d bytes", w.Size)
}

// writeOrigins writes from which layer each entry of the winner came.
func writeOrigins(b *strings.Builder, winner *decide.Winner) {
	if winner == nil || len(winner.Origins) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nENTRY\tFROM")
	for _, o := range winner.Origins {
		fmt.Fprintf(t, "%s %s\t%s\n", o.Kind, printable(o.Name), strings.Join(o.From, ", "))
	}
	_ = t.Flush() // a Builder never fails
}

func writeCandidates(b *strings.Builder, candidates []decide.Candidate) {
	if len(candidates) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nCONFIG\tTYPE\tTIER\tOUTCOME\tREASON")
	for _, c := range candidates {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Config, c.Type, cmp.Or(c.Tier, "-"), c.Outcome, c.Reason)
	}
	_ = t.Flush()
}

// printable replaces what is not text on one line in a name.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '\uFFFD'
	}, s)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func when(cond bool, s string) string {
	if cond {
		return s
	}
	return ""
}
