package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	prometheus "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
	"glowplug/internal/status"
)

// bootsCommand has the flags of boots.
type bootsCommand struct {
	clientOptions
	output string
	since  string
	failed bool
	// oldest is since as a time.
	oldest time.Time
	all    bool
	// unknown asks for the boots of unknown machines.
	unknown bool
}

func newBootsCommand() *cobra.Command {
	b := &bootsCommand{}
	cmd := &cobra.Command{
		Use:   "boots [[NAMESPACE/]HOST]",
		Short: "Show what machines were given at their boots, when, and how long each step took",
		Long: `List the boots of the last day, the newest first. With a host, show the timeline of each of
its boots: when the machine reached each step, how long that took, and how long it usually
takes, which is the median of the provisioned boots of the same image and release in the
namespace. A step that took more than twice as long is slow, and one that the others have
and this boot does not is missing.

--failed leaves the boots that failed, those that the machine began anew before it was
provisioned, and those that it completed although it was refused its config. --unknown lists
the newest boot of each machine that is no host.`,
		Example: `  glowplug boots -n rack-a --failed
  glowplug boots --unknown
  glowplug boots node-1 -n rack-a --since 30d
  glowplug boots rack-a/node-1 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: b.run,
	}
	b.addFlags(cmd)
	b.completeArgument(cmd, kinds.BareMetalHosts, cobra.ShellCompDirectiveNoFileComp)
	b.addHostNamespace(cmd, "HOST")
	cmd.Flags().BoolVarP(&b.all, "all-namespaces", "A", false, "boots of all namespaces")
	cmd.Flags().StringVar(&b.since, "since", "24h", "boots that began in this time, as 90m or 30d")
	cmd.Flags().BoolVar(&b.failed, "failed", false, "boots that failed, were abandoned, or were completed without a config")
	cmd.Flags().BoolVar(&b.unknown, "unknown", false, "boots of machines that are no hosts")
	addOutput(cmd, &b.output)
	return cmd
}

func (b *bootsCommand) run(cmd *cobra.Command, args []string) error {
	age, err := prometheus.ParseDuration(b.since)
	if err != nil || age <= 0 {
		return usagef("--since: %q is not a duration such as 90m, 24h or 30d", b.since)
	}
	b.oldest = time.Now().Add(-time.Duration(age))
	switch {
	case len(args) == 0:
		return b.list(cmd)
	case b.unknown:
		return usagef("--unknown lists the boots of machines that are no hosts, so it takes no host")
	}
	return b.timelines(cmd, args[0])
}

// list writes a line for each boot.
func (b *bootsCommand) list(cmd *cobra.Command) error {
	namespace, selector := b.namespace(), ""
	switch {
	case b.unknown:
		namespace, selector = metav1.NamespaceDefault, "host="
	case b.all:
		namespace = ""
	}
	boots, err := b.boots(cmd.Context(), namespace, selector)
	if err != nil {
		return err
	}
	if b.output != outputText {
		return writeOutput(cmd.OutOrStdout(), b.output, boots)
	}
	if len(boots) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), b.none(namespace))
		return nil
	}
	now := time.Now()
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, wording.BootColumns)
	for i := range boots {
		boot := &boots[i]
		if b.all {
			fmt.Fprint(table, boot.Namespace+"/")
		}
		fmt.Fprintln(table, (&wording.Timeline{Boot: boot}).Row(now))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if b.unknown {
		fmt.Fprintln(cmd.ErrOrStderr(), "glowplug adopt makes hosts of unknown machines")
	}
	return nil
}

// none says which boots there are none of.
func (b *bootsCommand) none(namespace string) string {
	what, where := "boots", " in namespace "+namespace
	switch {
	case b.unknown:
		what, where = "boots of unknown machines", ""
	case b.failed:
		what = "failed boots"
	}
	if namespace == "" {
		where = ""
	}
	hint := "; --since looks back further"
	if where != "" {
		hint += ", and -A at all namespaces"
	}
	return "no " + what + where + " in the last " + b.since + hint
}

// timelines writes the boots of a host.
func (b *bootsCommand) timelines(cmd *cobra.Command, name string) error {
	namespace, host, err := b.findBoots(cmd.Context(), hostName(name))
	if err != nil {
		return err
	}
	boots, err := b.boots(cmd.Context(), namespace, "host="+host)
	if err != nil {
		return inNamespace(err, namespace)
	}
	all, err := status.Timelines(cmd.Context(), b.do, namespace, boots)
	if err != nil {
		return err
	}
	if b.output != outputText {
		return writeOutput(cmd.OutOrStdout(), b.output, all)
	}
	if len(all) == 0 {
		return b.noTimeline(cmd.Context(), namespace, host)
	}
	for i, t := range all {
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), t.Text(time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// noTimeline says why there are no boots of a host.
func (b *bootsCommand) noTimeline(ctx context.Context, namespace, host string) error {
	request := client.Request{Resource: kinds.BareMetalHosts, Namespace: namespace, Name: host}
	if err := b.do(ctx, request, &v1.BareMetalHost{}); client.Code(err) == http.StatusNotFound {
		return inNamespace(fmt.Errorf("%w, and it has no boots of the last %s", err, b.since), namespace)
	}
	return fmt.Errorf("host %s/%s has no such boots in the last %s; --since looks back further", namespace, host, b.since)
}

// boots returns the boots of a namespace, "" for all, that a field selector selects and that began lately.
func (b *bootsCommand) boots(ctx context.Context, namespace, selector string) ([]v1.Boot, error) {
	search := &status.BootSearch{Namespace: namespace, Selector: selector, Oldest: b.oldest}
	if b.failed {
		search.IsWanted = status.HasFailed
	}
	boots, _, err := status.FindBoots(ctx, b.do, search)
	return boots, err
}
