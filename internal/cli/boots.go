package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	prometheus "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/wording"
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
	b.completeArgument(cmd, "baremetalhosts", cobra.ShellCompDirectiveNoFileComp)
	b.addHostNamespace(cmd, "HOST")
	cmd.Flags().BoolVarP(&b.all, "all-namespaces", "A", false, "boots of all namespaces")
	cmd.Flags().StringVar(&b.since, "since", "24h", "boots that began in this time, as 90m or 30d")
	cmd.Flags().BoolVar(&b.failed, "failed", false, "boots that failed, were abandoned, or were completed without a config")
	cmd.Flags().BoolVar(&b.unknown, "unknown", false, "boots of machines that are no hosts")
	addOutput(cmd, &b.output)
	return cmd
}

func (b *bootsCommand) run(cmd *cobra.Command, args []string) error {
	if err := checkOutput(b.output); err != nil {
		return err
	}
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
	all, err := timelinesOf(cmd.Context(), &b.clientOptions, namespace, boots)
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
	request := client.Request{Resource: "baremetalhosts", Namespace: namespace, Name: host}
	if err := b.do(ctx, request, &v1.BareMetalHost{}); client.Code(err) == http.StatusNotFound {
		return inNamespace(fmt.Errorf("%w, and it has no boots of the last %s", err, b.since), namespace)
	}
	return fmt.Errorf("host %s/%s has no such boots in the last %s; --since looks back further", namespace, host, b.since)
}

// maxPeers bounds the boots that a boot is compared with.
const maxPeers = 500

// timelinesOf compares boots with others of their images.
func timelinesOf(
	ctx context.Context, o *clientOptions, namespace string, boots []v1.Boot,
) (timelines []*wording.Timeline, err error) {
	peers := map[string][]v1.Boot{}
	for i := range boots {
		boot, image := &boots[i], ""
		if boot.Image != nil {
			image = boot.Image.Name
		}
		if _, known := peers[image]; !known && image != "" {
			list := &v1.BootList{}
			query := url.Values{"fieldSelector": {"image=" + image}, "limit": {strconv.Itoa(maxPeers)}}
			err := o.do(ctx, client.Request{Resource: "boots", Namespace: namespace, Query: query}, list)
			if err != nil {
				return nil, err
			}
			peers[image] = list.Items
		}
		timelines = append(timelines, wording.TimelineOf(boot, peers[image]))
	}
	return timelines, nil
}

// boots returns the boots of a namespace, "" for all, that a field selector selects and that began lately.
func (b *bootsCommand) boots(ctx context.Context, namespace, selector string) (boots []v1.Boot, err error) {
	newest := map[string]int64{}
	query := url.Values{"limit": {strconv.Itoa(maxPeers)}, "fieldSelector": {selector}}
	for {
		list := &v1.BootList{}
		err := b.do(ctx, client.Request{Resource: "boots", Namespace: namespace, Query: query}, list)
		if err != nil {
			return nil, err
		}
		isOver := len(list.Items) > 0
		for i := range list.Items {
			boot := &list.Items[i]
			host := boot.Namespace + "/" + strings.TrimSuffix(boot.Name, strconv.FormatInt(boot.Number, 10))
			isNewest := newest[host] <= boot.Number
			newest[host] = max(newest[host], boot.Number)
			isLate := boot.Begun != nil && boot.Begun.After(b.oldest)
			// The newest boots of all hosts come first, the former ones after them.
			isOver = isOver && !isLate && !isNewest
			if isLate && b.isWanted(boot) {
				boots = append(boots, *boot)
			}
		}
		if list.Continue == "" || isOver {
			slices.SortStableFunc(boots, func(a, b v1.Boot) int { return b.Begun.Compare(a.Begun.Time) })
			return boots, nil
		}
		query.Set("continue", list.Continue)
	}
}

func (b *bootsCommand) isWanted(boot *v1.Boot) bool {
	isFailed := boot.Outcome == v1.OutcomeFailed || boot.Outcome == v1.OutcomeAbandoned
	return !b.failed || isFailed || boot.Outcome == v1.OutcomeProvisioned && boot.Reason != ""
}
