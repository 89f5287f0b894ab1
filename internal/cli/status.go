package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/plan"
)

// maxEvents bounds the warnings of events that a status shows.
const maxEvents = 5

// hostStatus is what is known of a host: what it boots and receives now, what it received last,
// and what needs attention.
type hostStatus struct {
	// Host is namespace/name.
	Host      string       `json:"host"`
	State     string       `json:"state"`
	LastSeen  *metav1.Time `json:"lastSeen,omitempty"`
	LastBoot  *metav1.Time `json:"lastBoot,omitempty"`
	BootCount int64        `json:"bootCount"`
	// Boots and Gets are what the machine boots and receives now.
	Boots *decide.ExplainedBoot `json:"boots,omitempty"`
	Gets  *decide.Winner        `json:"gets,omitempty"`
	// Answer is the HTTP status of the config, and Error why there is none.
	Answer int    `json:"answer"`
	Error  string `json:"error,omitempty"`
	// LastConfig and LastConfigHash are what the machine received last. Changed is true where it
	// would receive other bytes now.
	LastConfig     string `json:"lastConfig,omitempty"`
	LastConfigHash string `json:"lastConfigHash,omitempty"`
	Changed        bool   `json:"changed,omitempty"`
	// Inspected is the time at which the hardware was reported, and Disks the number of disks.
	Inspected *metav1.Time `json:"inspected,omitempty"`
	Disks     int          `json:"disks"`
	// Plan is the outcome of the plan of the config on the disks; empty where there is none.
	Plan string `json:"plan,omitempty"`
	// Attention is what an operator has to look at, one sentence each.
	Attention []string `json:"attention,omitempty"`
	// Earlier are the warnings of single requests that are past.
	Earlier []string `json:"earlier,omitempty"`
}

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
	cmd.Flags().StringVarP(&s.flagNamespace, "namespace", "n", "",
		"namespace of HOST (default that of the kubeconfig, or else the only one with such a host)")
	addOutput(cmd, &s.output)
	return cmd
}

func (s *statusCommand) run(cmd *cobra.Command, args []string) error {
	if err := checkOutput(s.output); err != nil {
		return err
	}
	ctx := cmd.Context()
	namespace, name, err := s.find(ctx, hostName(args[0]))
	if err != nil {
		return err
	}
	host := &v1.BareMetalHost{}
	err = s.do(ctx, client.Request{Resource: "baremetalhosts", Namespace: namespace, Name: name}, host)
	if err != nil {
		return inNamespace(err, namespace)
	}
	status := statusOf(host)
	if err := s.explain(ctx, status); err != nil {
		return err
	}
	if err := s.plan(ctx, host, status); err != nil {
		return err
	}
	if err := s.events(ctx, host, status); err != nil {
		return err
	}
	if s.output != outputText {
		return writeOutput(cmd.OutOrStdout(), s.output, status)
	}
	return status.write(cmd.OutOrStdout(), time.Now())
}

// find returns the host of that name as glowplug explain does: in the namespace of the flag or of the
// context, else the only host with the name.
func (s *statusCommand) find(ctx context.Context, name string) (namespace, host string, err error) {
	if namespace, host, ok := strings.Cut(name, "/"); ok {
		return namespace, host, nil
	}
	if s.flagNamespace != "" {
		return s.flagNamespace, name, nil
	}
	answer := &decide.Explanation{}
	query := url.Values{"host": {name}, "namespace": {s.currentNamespace()}}
	if err := s.do(ctx, client.Request{Path: "/api/v1/explain", Query: query}, answer); err != nil {
		return "", "", err
	}
	namespace, host, _ = strings.Cut(answer.Host, "/")
	return namespace, host, nil
}

// statusOf is what the object of the host says.
func statusOf(host *v1.BareMetalHost) *hostStatus {
	of := &host.Status
	s := &hostStatus{
		Host: host.Namespace + "/" + host.Name, State: of.State, LastSeen: of.LastSeen, LastBoot: of.LastBoot,
		BootCount: of.BootCount, LastConfig: of.LastConfig, LastConfigHash: of.LastConfigHash, Inspected: of.Inspected,
	}
	if of.Hardware != nil {
		s.Disks = len(of.Hardware.Storage)
	}
	if of.State == v1.StateError {
		s.Attention = append(s.Attention, "the last boot failed: the machine got the reason why it cannot boot")
	}
	for _, c := range of.Conditions {
		// Ready repeats another one, and DataPreserved the plan.
		if c.Status == metav1.ConditionFalse && c.Type != v1.ConditionReady && c.Type != v1.ConditionDataPreserved {
			s.Attention = append(s.Attention, c.Type+" is False ("+c.Reason+"): "+c.Message)
		}
	}
	return s
}

// explain asks what the machine boots and receives: an Ignition config or, without one, a kickstart.
func (s *statusCommand) explain(ctx context.Context, status *hostStatus) error {
	var answer *decide.Explanation
	for _, endpoint := range []string{decide.Ignition, decide.Kickstart} {
		answer = &decide.Explanation{}
		query := url.Values{"host": {status.Host}, "endpoint": {endpoint}}
		if err := s.do(ctx, client.Request{Path: "/api/v1/explain", Query: query}, answer); err != nil {
			return err
		}
		if answer.Winner != nil {
			break
		}
	}
	status.Boots, status.Gets, status.Answer, status.Error = answer.Boot, answer.Winner, answer.Status, answer.Error
	if b := answer.Boot; b != nil && b.Error != "" {
		status.Attention = append(status.Attention, "the boot script fails: "+b.Error)
	}
	if b := answer.Boot; b != nil && b.NoConfig != "" && !status.tells(b.NoConfig) {
		status.Attention = append(status.Attention, b.NoConfig)
	}
	if w := answer.Winner; w != nil {
		status.Changed = status.LastConfigHash != "" && w.Hash != "" && status.LastConfigHash != w.Hash
		if w.Stale {
			status.Attention = append(status.Attention, "the config "+w.Config+" is stale: an older result of it is served")
		}
	}
	if answer.Error != "" && answer.Winner != nil { // without a config ConfigMatched says it
		status.Attention = append(status.Attention, "the machine gets no config: "+answer.Error)
	}
	return nil
}

// plan plans the config on the disks that the host has reported.
func (s *statusCommand) plan(ctx context.Context, host *v1.BareMetalHost, status *hostStatus) error {
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
		status.Plan = notPlanned + err.Error()
		return nil
	case err != nil:
		return err
	}
	status.Plan = result.Outcome
	var lost, failing []string
	result.Walk(func(step *plan.Step) {
		if !step.NotReached {
			lost = append(lost, step.Loses...)
		}
		if step.Action == plan.Fail {
			failing = append(failing, step.Kind+" "+step.Name+": "+step.Rule)
		}
	})
	if len(lost) > 0 {
		status.Attention = append(status.Attention, "Ignition would destroy data with this config: "+strings.Join(lost, "; "))
	}
	if len(failing) > 0 {
		status.Attention = append(status.Attention, "Ignition would fail with this config: "+strings.Join(failing, "; "))
	}
	return nil
}

// events adds the newest warnings about the host.
func (s *statusCommand) events(ctx context.Context, host *v1.BareMetalHost, status *hostStatus) error {
	list := &v1.EventList{}
	selector := "involvedObject.kind=BareMetalHost,involvedObject.name=" + host.Name + ",type=" + v1.EventWarning
	err := s.do(ctx, client.Request{
		Resource: "events", Namespace: host.Namespace, Query: url.Values{"fieldSelector": {selector}},
	}, list)
	if err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(e v1.Event) bool { return e.Reason == decide.ReasonDestroysData })
	slices.SortFunc(list.Items, func(a, b v1.Event) int { return b.LastTimestamp.Compare(a.LastTimestamp.Time) })
	status.addEvents(list.Items[:min(len(list.Items), maxEvents)], host.Status.Conditions, time.Now())
	return nil
}

// recent is how long the refusal of one request needs attention: it may have been a test with curl, and the conditions
// say what lasts.
const recent = 10 * time.Minute

// addEvents adds warnings, newest first. Alarms need attention as long as there are, and the event of a condition as
// long as that is False, which its own message says.
func (s *hostStatus) addEvents(events []v1.Event, conditions []metav1.Condition, now time.Time) {
	events = slices.DeleteFunc(events, func(e v1.Event) bool { return s.tells(e.Message) })
	for _, e := range events {
		text, list := "event "+e.Reason+", "+ago(&e.LastTimestamp, now)+": "+e.Message, &s.Attention
		isOld := now.Sub(e.LastTimestamp.Time) > recent && decide.IsOfOneRequest(e.Reason)
		c := meta.FindStatusCondition(conditions, decide.ConditionOf(e.Reason))
		if isOld || c != nil && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.Before(&e.LastTimestamp) {
			list = &s.Earlier
		}
		*list = append(*list, text)
	}
}

// tells reports whether a line of what needs attention ends with a message, such as that of a condition.
func (s *hostStatus) tells(message string) bool {
	return slices.ContainsFunc(s.Attention, func(line string) bool { return strings.HasSuffix(line, message) })
}

// write writes the status for a person.
func (s *hostStatus) write(w io.Writer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(t, "%s:\t%s\n", name, printable(text))
		}
	}
	row("host", s.Host)
	row("state", s.State+prefixed(", last seen ", ago(s.LastSeen, now)))
	if s.BootCount > 0 {
		row("booted", fmt.Sprintf("%s, last %s", count(int(s.BootCount), "time", "times"), ago(s.LastBoot, now)))
	}
	row("boots now", bootsText(s.Boots))
	if s.Boots != nil {
		row("arguments", strings.Join(argumentTexts(s.Boots.Arguments), ", "))
	}
	row("gets now", s.getsText())
	row("got last", s.gotText())
	switch {
	case s.Disks > 0:
		row("disks", count(s.Disks, "disk", "disks")+prefixed(", reported ", ago(s.Inspected, now)))
	default:
		row("disks", "unknown: the machine has not reported its hardware")
	}
	row("plan", cmp.Or(planTexts[s.Plan], s.Plan))
	if err := t.Flush(); err != nil {
		return err
	}
	heading := "\nNothing needs attention."
	if len(s.Attention) > 0 {
		heading = "\nNeeds attention:"
	}
	if err := writeList(w, heading, s.Attention); err != nil || len(s.Earlier) == 0 {
		return err
	}
	return writeList(w, "\nEarlier warnings:", s.Earlier)
}

// writeList writes a heading and a line for each text.
func writeList(w io.Writer, heading string, texts []string) error {
	for _, text := range texts {
		heading += "\n- " + printable(text)
	}
	_, err := fmt.Fprintln(w, heading)
	return err
}

// notPlanned begins the Plan of a config that cannot be planned.
const notPlanned = "not possible: "

// planTexts are the outcomes of plans as text.
var planTexts = map[string]string{
	plan.Safe: "Ignition destroys no data", plan.Destroys: "Ignition destroys data", plan.Fails: "Ignition fails",
	plan.IsUnknown: "incomplete: the facts do not say what is on the disks",
}

func bootsText(b *decide.ExplainedBoot) string {
	switch {
	case b == nil || b.Error != "":
		return "nothing"
	case b.Local:
		return "its disk" + prefixed(": ", b.Reason)
	case b.Image != "":
		return "image " + b.Image + prefixed(", release ", b.Release) + prefixed(": ", b.Reason)
	}
	return b.ScriptName() + prefixed(": ", b.Reason)
}

func (s *hostStatus) getsText() string {
	if s.Gets == nil || s.Error != "" {
		return fmt.Sprintf("no config (%d)", s.Answer)
	}
	return s.Gets.Config + " by " + s.Gets.Tier + prefixed(", spec ", s.Gets.IgnitionVersion) +
		prefixed(", ", compile.ShortHash(s.Gets.Hash))
}

func (s *hostStatus) gotText() string {
	if s.LastConfig == "" {
		return "no config yet"
	}
	return s.LastConfig + prefixed(", ", compile.ShortHash(s.LastConfigHash)) +
		when(s.Changed, ": it would get other bytes now")
}

// ago is how long ago a time was; "" for none.
func ago(t *metav1.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time))) + " ago"
}
