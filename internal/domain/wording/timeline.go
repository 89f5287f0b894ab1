package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
)

// Timeline is a boot with the durations of its steps beside those of its peers: boots of the same image and release.
type Timeline struct {
	Boot *v1.Boot `json:"boot"`
	// Peers is the number of peers that were provisioned.
	Peers int    `json:"peers"`
	Steps []Step `json:"steps,omitempty"`
}

// Step is a step of a Timeline.
type Step struct {
	Name string `json:"name"`
	// At is the time at which the boot reached the step; nil: it has not.
	At *metav1.MicroTime `json:"at,omitempty"`
	// Seconds are those since the step before, and Median those of the peers; nil: not known.
	Seconds *float64 `json:"seconds,omitempty"`
	Median  *float64 `json:"median,omitempty"`
	// Slow is true for a step that took much longer than with the peers, and Missing for one that the peers have and
	// this boot has ended without.
	Slow    bool `json:"slow,omitempty"`
	Missing bool `json:"missing,omitempty"`
}

const (
	// minPeers is the least number of peers that say what is usual.
	minPeers = 3
	// slowFactor and slowLeast say when a step is slow: so many times the median, and so much more.
	slowFactor = 2
	slowLeast  = 5 * time.Second
)

// TimelineOf returns the timeline of a boot. boots are others of its image.
func TimelineOf(boot *v1.Boot, boots []v1.Boot) *Timeline {
	t := &Timeline{Boot: boot}
	taken := map[string][]time.Duration{}
	for i := range boots {
		if !isPeer(boot, &boots[i]) {
			continue
		}
		t.Peers++
		for _, s := range stepsOf(&boots[i])[min(1, len(boots[i].Steps)):] { // the first step takes no time
			taken[s.Name] = append(taken[s.Name], s.took)
		}
	}
	before := map[string]bool{}
	for _, s := range stepsOf(boot) {
		before[s.Name] = true
		step := Step{Name: s.Name, At: &s.Time}
		if s.took >= 0 {
			step.Seconds = seconds(s.took)
		}
		if median, ok := t.usual(taken[s.Name]); ok {
			step.Median = seconds(median)
			step.Slow = isSlow(s.took, median)
		}
		t.Steps = append(t.Steps, step)
	}
	for _, name := range v1.BootSteps {
		if median, ok := t.usual(taken[name]); ok && !before[name] {
			// One that has not ended may still reach it.
			t.Steps = append(t.Steps, Step{Name: name, Median: seconds(median), Missing: boot.Ended != nil})
		}
	}
	return t
}

// isPeer reports whether another boot shows what is usual for a boot.
func isPeer(boot, other *v1.Boot) bool {
	return boot.Image != nil && other.Image != nil && boot.UID != other.UID && other.Outcome == v1.OutcomeProvisioned &&
		boot.Image.Name == other.Image.Name && boot.Image.Release == other.Image.Release
}

// timedStep is a step with its duration since the one before; negative: it is the first.
type timedStep struct {
	v1.BootStep
	took time.Duration
}

func stepsOf(b *v1.Boot) []timedStep {
	steps := make([]timedStep, 0, len(b.Steps))
	for i, s := range b.Steps {
		took := time.Duration(-1)
		if i > 0 {
			took = max(0, s.Time.Sub(b.Steps[i-1].Time.Time))
		}
		steps = append(steps, timedStep{s, took})
	}
	return steps
}

// usual returns the median of what a step takes with the peers; ok is false where most of them do not have it, or they
// are too few.
func (t *Timeline) usual(taken []time.Duration) (median time.Duration, ok bool) {
	if t.Peers < minPeers || 2*len(taken) <= t.Peers {
		return 0, false
	}
	slices.Sort(taken)
	return max(0, taken[len(taken)/2]), true
}

func seconds(d time.Duration) *float64 {
	s := d.Round(time.Millisecond).Seconds()
	return &s
}

// Text returns the timeline for people.
func (t *Timeline) Text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintln(&b, t.Heading(now))
	if text := t.given(); text != "" {
		fmt.Fprintln(&b, "  "+text)
	}
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, s := range t.Steps {
		at, note := "", ""
		if s.At != nil {
			at = s.At.UTC().Format("15:04:05.000")
		}
		switch {
		case s.Missing:
			note = "missing"
		case s.Slow:
			note = "slow"
		}
		line := fmt.Sprintf("  %s\t%s\t%s\t%s\t%s", s.Name, at, shortly(s.Seconds), prefixed("usually ", shortly(s.Median)), note)
		fmt.Fprintln(table, strings.TrimRight(line, "\t"))
	}
	_ = table.Flush() // a Builder never fails
	return b.String()
}

// Heading says in one line how the boot ended.
func (t *Timeline) Heading(now time.Time) string {
	b := t.Boot
	text := b.Name + "  " + cmp.Or(b.Outcome, "not booted yet")
	if b.Begun != nil {
		text += ", begun " + b.Begun.UTC().Format(time.RFC3339) + " (" + Ago(&metav1.Time{Time: b.Begun.Time}, now) + ")"
	}
	if b.Begun != nil && b.Ended != nil {
		text += ", took " + shortly(seconds(b.Ended.Sub(b.Begun.Time)))
	}
	return printable(text + prefixed(": ", b.Reason))
}

// given says what the machine was given.
func (t *Timeline) given() string {
	var parts []string
	if i := t.Boot.Image; i != nil {
		parts = append(parts, "image "+i.Name+prefixed(", release ", i.Release))
	}
	if c := t.Boot.Config; c != nil {
		parts = append(parts, "config "+c.Name+prefixed(", ", compile.ShortHash(c.Hash)))
	}
	if t.Boot.Client != "" {
		parts = append(parts, "asked from "+t.Boot.Client)
	}
	return printable(strings.Join(parts, "; "))
}

// shortly writes seconds as 1.2s or 3m20s; nil is "".
func shortly(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	d := time.Duration(*seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// BootColumns is the heading of the rows.
const BootColumns = "BOOT\tOUTCOME\tIMAGE\tCONFIG\tBEGUN\tTOOK\tREASON"

// Row returns the boot as the columns of a table: name, outcome, what it was given, time and reason.
func (t *Timeline) Row(now time.Time) string {
	b, image, config, begun, took := t.Boot, "-", "-", "-", "-"
	if b.Image != nil {
		image = b.Image.Name
	}
	if b.Config != nil {
		config = b.Config.Name
	}
	if b.Begun != nil {
		begun = Ago(&metav1.Time{Time: b.Begun.Time}, now)
	}
	if b.Begun != nil && b.Ended != nil {
		took = shortly(seconds(b.Ended.Sub(b.Begun.Time)))
	}
	return strings.Join([]string{b.Name, b.Outcome, image, config, begun, took, printable(b.Reason)}, "\t")
}

// isSlow reports whether a step takes much longer than with the peers.
func isSlow(took, median time.Duration) bool {
	return took > slowFactor*median && took > median+slowLeast
}

// remedies say where to look if a step is not reached.
var remedies = map[string]string{
	v1.StepTargetLogin: "It has its script and has not opened the image: look at its console, and whether it reaches the iSCSI " +
		"port of the server.",
	v1.StepKernel: "It has opened the image and has not read the kernel: look at its console, where a boot menu may wait.",
	v1.StepInitrd: "It has not read the initial RAM disk of the image: look at its console.",
	v1.StepRootfs: "It has not read the root file system of the image: look at its console, and whether its system has a network.",
	v1.StepConfig: "It has not asked for its config: look at its console, whether its system has a network, and whether the " +
		"kernel arguments have the URL of the config.",
	v1.StepHardware: "It has its config and has not reported its hardware: look at its console.",
	v1.StepBootComplete: "It has its config and has not said that it is up: look at its console for what fails, and whether the " +
		"config has a unit that posts to /api/v1/boot-complete.",
}

// Waiting says for which step a machine waits, and what its peers took; where it is late, also where to look.
func Waiting(t *Timeline, step string, waited time.Duration) (text string, isLate bool) {
	text = fmt.Sprintf("The machine has waited for the step %s for %s.", step, waited.Round(time.Second))
	for _, s := range t.Steps {
		if s.Name == step && s.Median != nil {
			text += fmt.Sprintf(" Its %s (image %s) took %s (median).", Count(t.Peers, "peer", "peers"), t.Boot.Image.Name,
				shortly(s.Median))
			isLate = isSlow(waited, time.Duration(*s.Median*float64(time.Second)))
		}
	}
	if isLate {
		text += prefixed(" ", remedies[step])
	}
	return text, isLate
}
