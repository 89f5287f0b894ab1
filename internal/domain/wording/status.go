package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/plan"
)

// Status is what is known of a host: what it boots and receives now, what it received last,
// and what needs attention.
type Status struct {
	// Host is namespace/name.
	Host      string       `json:"host"`
	State     string       `json:"state"`
	LastSeen  *metav1.Time `json:"lastSeen,omitempty"`
	LastBoot  *metav1.Time `json:"lastBoot,omitempty"`
	BootCount int64        `json:"bootCount"`
	// Boots and Gets are what the machine boots and receives now.
	Boots *explain.Boot   `json:"boots,omitempty"`
	Gets  *explain.Winner `json:"gets,omitempty"`
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
	// LastBoots are the newest boot and the one before.
	LastBoots []*Timeline `json:"lastBoots,omitempty"`
	// Attention is what an operator has to look at, one sentence each.
	Attention []string `json:"attention,omitempty"`
	// Earlier are the warnings of single requests that are past.
	Earlier []string `json:"earlier,omitempty"`
}

// StatusOf returns what the object of a host says.
func StatusOf(host *v1.BareMetalHost) *Status {
	of := &host.Status
	s := &Status{
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

// Explain adds what the machine boots and receives now.
func (s *Status) Explain(answer *explain.Explanation) {
	s.Boots, s.Gets, s.Answer, s.Error = answer.Boot, answer.Winner, answer.Status, answer.Error
	if b := answer.Boot; b != nil && b.Error != "" {
		s.Attention = append(s.Attention, "the boot script fails: "+b.Error)
	}
	if b := answer.Boot; b != nil && b.NoConfig != "" && !s.tells(b.NoConfig) {
		s.Attention = append(s.Attention, b.NoConfig)
	}
	if w := answer.Winner; w != nil {
		s.Changed = s.LastConfigHash != "" && w.Hash != "" && s.LastConfigHash != w.Hash
		if w.Stale {
			s.Attention = append(s.Attention, "the config "+w.Config+" is stale: an older result of it is served")
		}
	}
	if answer.Error != "" && answer.Winner != nil { // without a config ConfigMatched says it
		s.Attention = append(s.Attention, "the machine gets no config: "+answer.Error)
	}
}

// Planned adds what Ignition would do with the config.
func (s *Status) Planned(result *plan.Plan) {
	s.Plan = result.Outcome
	var failing []string
	result.Walk(func(step *plan.Step) {
		if step.Action == plan.Fail {
			failing = append(failing, step.Kind+" "+step.Name+": "+step.Rule)
		}
	})
	if lost := result.Losses(); len(lost) > 0 {
		s.Attention = append(s.Attention, "Ignition would destroy data with this config: "+strings.Join(lost, "; "))
	}
	if len(failing) > 0 {
		s.Attention = append(s.Attention, "Ignition would fail with this config: "+strings.Join(failing, "; "))
	}
}

// NotPlanned says why the config cannot be planned.
func (s *Status) NotPlanned(reason error) { s.Plan = "not possible: " + reason.Error() }

// recent is how long the refusal of one request needs attention: it may have been a test with curl, and the conditions
// say what lasts.
const recent = 10 * time.Minute

// maxEvents bounds the warnings of events that are said.
const maxEvents = 5

// Warn adds the newest warnings of a host. Alarms need attention as long as there are, and the event of a condition as
// long as that is False, which its own message says.
func (s *Status) Warn(events []v1.Event, conditions []metav1.Condition, now time.Time) {
	events = slices.DeleteFunc(events, func(e v1.Event) bool { return e.Reason == explain.ReasonDestroysData })
	slices.SortFunc(events, func(a, b v1.Event) int { return b.LastTimestamp.Compare(a.LastTimestamp.Time) })
	events = events[:min(len(events), maxEvents)]
	events = slices.DeleteFunc(events, func(e v1.Event) bool { return s.tells(e.Message) })
	for _, e := range events {
		text, list := "event "+e.Reason+", "+Ago(&e.LastTimestamp, now)+": "+e.Message, &s.Attention
		isOld := now.Sub(e.LastTimestamp.Time) > recent && decide.IsOfOneRequest(e.Reason)
		c := meta.FindStatusCondition(conditions, explain.ConditionOf(e.Reason))
		if isOld || c != nil && c.Status == metav1.ConditionTrue && !c.LastTransitionTime.Before(&e.LastTimestamp) {
			list = &s.Earlier
		}
		*list = append(*list, text)
	}
}

// tells reports whether a line of what needs attention ends with a message, such as that of a condition.
func (s *Status) tells(message string) bool {
	return slices.ContainsFunc(s.Attention, func(line string) bool { return strings.HasSuffix(line, message) })
}

// Lines returns the status as lines.
func (s *Status) Lines(now time.Time) []Line {
	var l lines
	l.add("host", s.Host)
	l.add("state", s.State+prefixed(", last seen ", Ago(s.LastSeen, now)))
	if s.BootCount > 0 {
		l.add("booted", fmt.Sprintf("%s, last %s", Count(int(s.BootCount), "time", "times"), Ago(s.LastBoot, now)))
	}
	l.add("boots now", bootsText(s.Boots))
	if s.Boots != nil {
		l.add("arguments", argumentTexts(s.Boots.Arguments)...)
	}
	l.add("gets now", s.getsText())
	l.add("got last", s.gotText())
	if s.Disks > 0 {
		l.add("disks", Count(s.Disks, "disk", "disks")+prefixed(", reported ", Ago(s.Inspected, now)))
	} else {
		l.add("disks", "unknown: the machine has not reported its hardware")
	}
	l.add("plan", cmp.Or(planTexts[s.Plan], s.Plan))
	return l
}

// Text returns the status as a text, with what needs attention.
func (s *Status) Text(now time.Time) string {
	var b strings.Builder
	writeLines(&b, s.Lines(now))
	for _, boot := range s.LastBoots {
		b.WriteString("\n" + boot.Text(now))
	}
	writeList(&b, "Needs attention:", s.Attention)
	if len(s.Attention) == 0 {
		b.WriteString(nothing)
	}
	writeList(&b, "Earlier warnings:", s.Earlier)
	return b.String()
}

// planTexts are the outcomes of plans as text.
var planTexts = map[string]string{
	plan.Safe: "Ignition destroys no data", plan.Destroys: "Ignition destroys data", plan.Fails: "Ignition fails",
	plan.IsUnknown: "incomplete: the facts do not say what is on the disks",
}

func bootsText(b *explain.Boot) string {
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

func (s *Status) getsText() string {
	if s.Gets == nil || s.Error != "" {
		return fmt.Sprintf("no config (%d)", s.Answer)
	}
	return s.Gets.Config + " by " + s.Gets.Tier + prefixed(", spec ", s.Gets.IgnitionVersion) +
		prefixed(", ", compile.ShortHash(s.Gets.Hash))
}

func (s *Status) gotText() string {
	if s.LastConfig == "" {
		return "no config yet"
	}
	note := when(s.Changed, ": it would get other bytes now")
	if got := s.readSpec(); s.Changed && s.Gets != nil && got != "" && got != s.Gets.IgnitionVersion {
		// What it gets now is what a current Ignition would; that of the machine may be older.
		note = ": spec " + got + ", and in spec " + s.Gets.IgnitionVersion + " it would get other bytes"
	}
	return s.LastConfig + prefixed(", ", compile.ShortHash(s.LastConfigHash)) + note
}

// readSpec is the version of Ignition's spec that the machine was given last; "": not known.
func (s *Status) readSpec() string {
	for _, boot := range s.LastBoots {
		if c := boot.Boot.Config; c != nil {
			if c.Hash == s.LastConfigHash {
				return c.Version
			}
			break
		}
	}
	return ""
}
