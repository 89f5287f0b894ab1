package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/app"
	"glowplug/internal/client"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/wording"
	"glowplug/internal/offline"
)

// explainer has the flags of explain.
type explainer struct {
	clientOptions
	manifests                   []string
	endpoint, as                string
	from, accept, agent, expect string
	isolate                     model.Isolation
	output                      string
}

func newExplainCommand() *cobra.Command {
	e := &explainer{}
	cmd := &cobra.Command{
		Use:   "explain [NAME | NAMESPACE/NAME | bmh/NAME] [mac=… ip=… hostname=… uuid=… role=… spec=… arch=…]",
		Short: "Show which config a machine receives, and why",
		Long: `Show which host a machine is, which config it receives, and why each other config
does not match. NAME is the name of the BareMetalHost. The facts are the parameters of
the serving URL: mac, ip, hostname, uuid, role, spec for one Ignition version, and arch
for the architecture that /ipxe is told.

The answer is the one that the machine itself receives. The request comes from --from,
else from ip=, else from the first address of the host, and has the hardware address
that the neighbour table of the server has for it. A host without an address has the
one of its MAC in that table, else the first of its bootSources; without both it counts
as a machine on the server's own network. The headers are those of the Ignition in the
host's image if its release is known, else of a current Ignition; --accept and
--user-agent replace them. Where another client would receive another answer, a line
"otherwise" says so. --as believed asks as an administrator does with
kubectl get --raw '/api/v1/ignition?mac=…': every fact is believed.

With --manifests the command answers from files, before anything is applied. With
--expect it fails unless that config wins, for use in a test.`,
		Example: `  glowplug explain node-1
  glowplug explain rack-a/node-1 --endpoint kickstart
  glowplug explain --server http://127.0.0.1:8081 mac=52:54:00:10:00:11
  glowplug explain ip=192.168.10.20 mac=52:54:00:10:00:11 --as believed
  glowplug explain --manifests rack/ mac=525400100011 --expect g10/coreos-builder`,
		RunE:              e.run,
		ValidArgsFunction: e.complete,
	}
	e.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&e.manifests, "manifests", nil,
		"answer from these files and folders instead of a server (repeatable)")
	app.AddIsolation(flags, &e.isolate, "with --manifests: answer as a server with this --isolate-namespaces")
	e.addHostNamespace(cmd, "the host NAME")
	flags.StringVar(&e.endpoint, "endpoint", decide.Ignition, "ignition or kickstart")
	flags.StringVar(&e.as, "as", explain.AsMachine, "machine, or believed: ask as an administrator")
	flags.StringVar(&e.from, "from", "", "the address that the machine asks from")
	flags.StringVar(&e.accept, "accept", "", "the client's Accept header; '*/*' is that of curl")
	flags.StringVar(&e.agent, "user-agent", "", "the client's User-Agent header")
	addOutput(cmd, &e.output)
	flags.StringVar(&e.expect, "expect", "", "fail unless this config (namespace/name) wins")
	addChoices(cmd, "as", explain.AsMachine, explain.AsBelieved)
	addChoices(cmd, "endpoint", decide.Ignition, decide.Kickstart)
	return cmd
}

func (e *explainer) run(cmd *cobra.Command, args []string) error {
	query, err := parseFacts(args)
	if err != nil {
		return err
	}
	switch flags := cmd.Flags(); {
	case flags.Changed("expect") && e.expect == "":
		return usagef("--expect: the name of the config is empty: want NAMESPACE/NAME, or none for no config")
	case e.isolate != model.IsolateTenants && len(e.manifests) == 0:
		return usagef("--isolate-namespaces is for --manifests: a server has its own")
	}
	if _, err := netip.ParseAddr(e.from); e.from != "" && err != nil {
		return usagef("--from: %q is not an IP address", e.from)
	}
	for key, value := range map[string]string{
		"endpoint": e.endpoint, "as": e.as, "from": e.from, "accept": e.accept, "user-agent": e.agent,
	} {
		query.Set(key, value)
	}
	if host := query.Get("host"); e.flagNamespace != "" && host != "" && !strings.Contains(host, "/") {
		query.Set("host", e.flagNamespace+"/"+host)
	}
	query.Set("namespace", e.currentNamespace())
	var answer *explain.Explanation
	if len(e.manifests) > 0 {
		answer, err = e.offline(cmd.ErrOrStderr(), query)
	} else {
		answer, err = e.explained(cmd.Context(), query)
	}
	if err != nil {
		return hintOfFact(err, query.Get("host"))
	}
	if err := writeAs(cmd.OutOrStdout(), e.output, answer, asText(wording.ExplanationText(answer))); err != nil {
		return err
	}
	return checkWinner(answer, e.expect)
}

// currentNamespace returns the preferred namespace of a host that is named without one; "":
// there is none.
func (e *explainer) currentNamespace() string {
	if e.flagNamespace != "" || len(e.manifests) > 0 {
		return e.flagNamespace
	}
	return e.clientOptions.currentNamespace()
}

// facts are the keys of the arguments.
var facts = []string{"mac", "ip", "hostname", "uuid", "role", "spec", "arch"}

// parseFacts reads the name of a host and key=value arguments.
func parseFacts(args []string) (url.Values, error) {
	query := url.Values{}
	for _, arg := range args {
		key, value, isFact := strings.Cut(arg, "=")
		switch {
		case isFact && slices.Contains(facts, key):
			query.Set(key, value)
		case isFact:
			return nil, usagef("%q is not a fact: want mac=…, ip=…, hostname=…, uuid=…, role=…, spec=… or arch=…", arg)
		case strings.Contains(arg, ":"):
			return nil, usagef("%q cannot be the name of a host: write %s", arg, factOf(arg))
		case query.Has("host"):
			return nil, usagef("explain takes the name of one host, not both %q and %q", query.Get("host"), arg)
		default:
			query.Set("host", hostName(arg))
		}
	}
	return query, nil
}

// factOf is the argument that text with a colon was meant as.
func factOf(text string) string {
	if key, value, _ := strings.Cut(text, ":"); slices.Contains(facts, key) {
		return key + "=" + value
	}
	return cmp.Or(addressFact(text), "mac="+text)
}

// addressFact is the argument that an address or a UUID was meant as; "" for any other text.
func addressFact(text string) string {
	if _, err := netaddr.ParseIP(text); err == nil {
		return "ip=" + text
	}
	if _, err := netaddr.ParseAnyMAC(text); err == nil {
		return "mac=" + text
	}
	if _, err := netaddr.ParseUUID(text); err == nil {
		return "uuid=" + text
	}
	return ""
}

// hintOfFact adds a remedy to the error of a host that does not exist, where its name was
// meant as a fact.
func hintOfFact(err error, host string) error {
	if fact := addressFact(host); fact != "" {
		return withHint(err, fmt.Sprintf("%s is taken for the name of a host; write %s", host, fact))
	}
	return err
}

// hostName removes the resource in front of a name, as in bmh/node-1.
func hostName(arg string) string {
	if resource, name, ok := strings.Cut(arg, "/"); ok &&
		kinds.Named(strings.ToLower(resource)) == kinds.Of(kinds.BareMetalHosts) {
		return name
	}
	return arg
}

func (e *explainer) offline(stderr io.Writer, query url.Values) (*explain.Explanation, error) {
	inquiry, fault := explain.ParseInquiry(query.Encode())
	if fault != nil {
		return nil, usagef("%s", fault.Sentence)
	}
	objects, problems, err := offline.Read(e.isolate, e.manifests...)
	if err != nil {
		return nil, fileError(err)
	}
	for _, p := range problems {
		fmt.Fprintf(stderr, "warning: %v\n", p)
	}
	answer, fault := explain.Inquire(objects.Decider(), inquiry)
	if fault != nil {
		return nil, fault
	}
	return answer, nil
}

// complete completes the name of a host, and the keys of facts.
func (e *explainer) complete(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, "=") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	isFirst := !slices.ContainsFunc(args, func(arg string) bool { return !strings.Contains(arg, "=") })
	if isFirst && flagsFromEnvironment(cmd.Flags()) == nil {
		typed := hostName(word)
		for _, name := range e.hostNames(cmd.Context(), typed != "") {
			if strings.HasPrefix(name, typed) {
				words = append(words, strings.TrimSuffix(word, typed)+name)
			}
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(words) > 0 {
		return words, directive
	}
	for _, key := range facts {
		if strings.HasPrefix(key, word) {
			words = append(words, key+"=")
		}
	}
	return words, directive | cobra.ShellCompDirectiveNoSpace
}

// hostNames returns the names of all hosts, those in the current namespace without it. With
// short it also returns the names without a namespace that one host alone has.
func (e *explainer) hostNames(ctx context.Context, short bool) []string {
	var names []string
	hostsOf := make(map[string]int)
	current := e.currentNamespace()
	add := func(namespace, name string) {
		hostsOf[name]++
		if namespace != current {
			name = namespace + "/" + name
		}
		names = append(names, name)
	}
	if len(e.manifests) > 0 {
		objects, _, err := offline.Read(e.isolate, e.manifests...)
		if err != nil {
			return nil // completion has no errors
		}
		for _, h := range objects.Hosts() {
			add(h.Namespace, h.Name)
		}
	} else {
		hosts := &v1.BareMetalHostList{}
		_ = e.offers(ctx, client.Request{Resource: kinds.BareMetalHosts}, hosts)
		for i := range hosts.Items {
			add(hosts.Items[i].Namespace, hosts.Items[i].Name)
		}
	}
	for name, hosts := range hostsOf {
		if short && hosts == 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkWinner returns an error where another config wins than the expected one.
func checkWinner(answer *explain.Explanation, want string) error {
	got := "none"
	if answer.Winner != nil {
		got = answer.Winner.Config
	}
	if want == "" || want == got {
		return nil
	}
	err := fmt.Errorf("the config is %s, expected %s", got, want)
	if !strings.Contains(want, "/") {
		return withHint(err, "--expect takes NAMESPACE/NAME")
	}
	return err
}
